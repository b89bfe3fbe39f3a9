# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the page *Dashboard* anew: `make dashboard-screenshots`."""

import io
from pathlib import Path

import pytest
from PIL import Image

from testbed.dashboard import browser as chromium
from tests.dashboard.conftest import Site
from tests.real_keystone import PASSWORD
from tests.unit.api import cloud

IMAGES = Path(__file__).parents[2] / "doc/source/images"
COLOURS = 24
PAGES = {
    "hosts": ("admin", "/admin/vp_hosts/?mode=enforce"),
    "server": ("admin", f"/admin/vp_servers/{cloud.VICTIM}/"),
    "proposals": ("admin", "/admin/vp_proposals/"),
}
RENAME = """([from, to]) => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode())
        texts.currentNode.data = texts.currentNode.data.replace(from, to);
}"""
"""Keystone gives the project another id each time: the picture would change with it."""


@pytest.mark.parametrize("name", PAGES)
def test_a_picture_is_drawn(name: str, site: Site) -> None:
    user, path = PAGES[name]
    with (
        chromium.running() as browser,
        chromium.log_in(browser, site.horizon, user, PASSWORD) as context,
    ):
        page = context.new_page()
        page.goto(path)
        assert page.locator("#vp-problem").count() == 0
        page.evaluate(RENAME, [site.project_id, cloud.ALPHA])
        shot = page.screenshot()
    with Image.open(io.BytesIO(shot)) as image:
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(IMAGES / f"dashboard-{name}.png", optimize=True)
