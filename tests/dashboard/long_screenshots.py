# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the page *Dashboard* anew: `make dashboard-screenshots`."""

import io
from pathlib import Path

import pytest
from PIL import Image

from tests.dashboard import browser as chromium
from tests.dashboard.conftest import Site
from tests.unit.api import cloud

IMAGES = Path(__file__).parents[2] / "doc/source/images"
COLOURS = 32
PAGES = {
    "hosts": "/admin/vp_hosts/?mode=enforce",
    "server": f"/admin/vp_servers/{cloud.VICTIM}/",
    "proposals": "/admin/vp_proposals/",
}


@pytest.mark.parametrize("name", PAGES)
def test_a_picture_is_drawn(name: str, site: Site) -> None:
    with (
        chromium.running() as browser,
        chromium.log_in(browser, site.horizon, "admin") as context,
    ):
        page = context.new_page()
        page.goto(PAGES[name])
        assert page.locator("#vp-problem").count() == 0
        shot = page.screenshot()
    with Image.open(io.BytesIO(shot)) as image:
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(IMAGES / f"dashboard-{name}.png", optimize=True)
