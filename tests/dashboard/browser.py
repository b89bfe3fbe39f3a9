# SPDX-License-Identifier: Apache-2.0
"""Chromium of Debian, logged in at Horizon."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.real_keystone import PASSWORD

TIMEOUT_MS = 120_000
SIZE = {"width": 1300, "height": 900}


@contextmanager
def running() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium, "make dashboard-test installs chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


def log_in(browser: Browser, url: str, user: str) -> BrowserContext:
    context = browser.new_context(base_url=url, viewport=SIZE)
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    page.goto("/auth/login/?next=/settings/")
    if page.locator("#id_domain").count():
        page.fill("#id_domain", "default")
    page.fill("#id_username", user)
    page.fill("#id_password", PASSWORD)
    page.click("#loginBtn")
    page.wait_for_url("**/settings/")
    page.close()
    return context


def numbers(page: Page, selector: str) -> dict[str, float]:
    """Those that can be seen of the elements that match, by key."""
    shown = page.locator(f"{selector}:visible")
    found = shown.evaluate_all("all => all.map(one => [one.dataset.key, Number(one.value)])")
    return dict(found)
