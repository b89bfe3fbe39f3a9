# SPDX-License-Identifier: Apache-2.0
"""Debian's Chromium, logged in at Horizon. Playwright drives it, which tools/make-dashboard-venv
installs."""

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from testbed import pictures

TIMEOUT_MS = 120_000
WIDTH, HEIGHT = 1200, 900
COLOURS = 12
"""Of a picture."""


@contextmanager
def running() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium, "tools/install-debian-packages screenshots installs chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def log_in(
    browser: Browser, url: str, user: str, password: str, width: int = WIDTH
) -> Iterator[BrowserContext]:
    with browser.new_context(base_url=url, viewport={"width": width, "height": HEIGHT}) as context:
        context.set_default_timeout(TIMEOUT_MS)
        page = context.new_page()
        ask_in(page, user, password)
        page.wait_for_url("**/settings/")
        page.close()
        yield context


def ask_in(page: Page, user: str, password: str) -> None:
    """Fills in the form and sends it, whatever comes of it."""
    page.goto("/auth/login/?next=/settings/")
    if page.locator("#id_domain").count():
        page.fill("#id_domain", "default")
    page.fill("#id_username", user)
    page.fill("#id_password", password)
    page.click("#loginBtn")


def take_picture(page: Page, file: Path, height: int = HEIGHT) -> None:
    """Of what is beside the menu, from its top down to its end or to that height."""
    begin = page.locator(".page-breadcrumb").bounding_box()
    whole = page.locator("#content_body").bounding_box()
    assert begin is not None
    assert whole is not None
    end = whole["y"] + whole["height"]
    shown = {**begin, "height": min(height, end - begin["y"])}
    with Image.open(io.BytesIO(page.screenshot(clip=shown, full_page=True))) as image:
        pictures.write(image, file, COLOURS, Image.Quantize.MAXCOVERAGE)
