# SPDX-License-Identifier: Apache-2.0
"""Sphinx: Markdown pages, read in place by people on the forge as well. `make docs` builds them."""

import logging
import sys
from pathlib import Path

from nova_vp.controller_pages import write_pages
from vp_api import openapi
from vp_api.routes import ROUTES

project = "nova-vp"
author = "the nova-vp authors"
sys.path.insert(0, str(Path(__file__).parents[1]))
extensions = [
    "myst_parser",
    "openstackdocstheme",
    "oslo_config.sphinxext",
    "oslo_policy.sphinxext",
    "reno.sphinxext",
    "release_notes",
]
# Requests in api.md are written without a protocol version, which the lexer misses.
suppress_warnings = ["misc.highlighting_failure"]

# Help texts of options write `code` as Markdown does.
default_role = "code"

html_theme = "openstackdocs"
# Only the line on the licence: the theme's own names Creative Commons.
templates_path = ["_templates"]
# The theme looks for the commit, which a source distribution does not have.
logging.getLogger("sphinx.openstackdocstheme.ext").addFilter(
    lambda record: "cannot get gitsha" not in record.getMessage()
)
# Nobody is told who reads these pages.
html_theme_options = {
    "analytics_tracking_code": "",
    "root_title": "nova-vp",
    "display_badge": False,
    "sidebar_search": True,
}
html_static_path = ["_static"]
html_css_files = ["tables.css"]
openstackdocs_auto_name = False
openstackdocs_auto_version = False
html_show_copyright = False
# So that links to headings work, three levels deep.
myst_heading_anchors = 3

# One page for each installed controller, made anew with every build.
write_pages(Path(__file__).parent / "controllers")
# What the service answers for GET /v1/openapi.json, at the root of the site.
PUBLISHED = Path(__file__).parent / "published"
openapi.publish(ROUTES, PUBLISHED)
html_extra_path = ["published"]
