# SPDX-License-Identifier: Apache-2.0
"""The pages in a real browser: what is seen, accessible, without inline script or style, and on a
dark theme too."""

from collections import Counter
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page

from tests.dashboard import browser as chromium
from tests.dashboard.conftest import HOSTILE, Site
from tests.unit.api import cloud

PAGES = [
    "/admin/vp_hosts/",
    "/admin/vp_hosts/lab-1/",
    "/admin/vp_hosts/lab-2/",
    "/admin/vp_hosts/lab-1/timeline/?hours=24&end=2026-01-02T03:05:00Z",
    "/admin/vp_servers/",
    f"/admin/vp_servers/{cloud.VICTIM}/",
    f"/admin/vp_servers/{cloud.VICTIM}/?hours=24&end=2026-01-02T03:05:00Z"
    "&a=2026-01-02T02:55:00Z&b=2026-01-02T03:00:00Z",
    "/admin/vp_proposals/",
    "/admin/vp_escalations/",
    f"/admin/vp_escalations/{cloud.ESCALATION}/",
    "/admin/vp_overlays/",
    "/admin/vp_usage/",
    f"/admin/vp_what_if/?server_id={cloud.VICTIM}",
    "/admin/vp_modes/",
    "/admin/vp_modes/confirm?level=host&name=lab-1&mode=advise",
]
SERIOUS = ("serious", "critical")
STRICT = "default-src 'self'; img-src 'self' data:"
COLLECT = """
window.violations = [];
document.addEventListener("securitypolicyviolation", event =>
    window.violations.push(`${event.effectiveDirective} ${event.blockedURI}`));
"""
DARK = "html, body, #main_content, .table, .table th, .table td { background: #111; color: #eee; }"
"""As a dark theme has it."""


@pytest.fixture(scope="module")
def browser(site: Site) -> Iterator[Browser]:
    with chromium.running() as one:
        yield one


@pytest.fixture(scope="module")
def context(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    with chromium.log_in(browser, site.horizon, "admin") as one:
        yield one


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    one = context.new_page()
    yield one
    one.close()


def serious(page: Page) -> list[str]:
    """In what is ours: the rest of the page is Horizon's."""
    parts = {"include": [["#content_body"]], "exclude": [[".page-breadcrumb"]]}
    found = Axe().run(page, context=parts).response["violations"]
    return [
        f"{one['id']}: {node['html']}"
        for one in found
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("path", PAGES)
def test_there_is_no_serious_issue_of_accessibility(path: str, page: Page) -> None:
    page.goto(path)
    assert page.locator("#vp-problem").count() == 0
    assert serious(page) == []
    # No value is shown as Python writes it.
    assert "{'" not in page.locator("#content_body").inner_text()


@pytest.mark.parametrize("path", PAGES[:2])
def test_text_can_be_read_on_a_dark_theme(path: str, page: Page) -> None:
    page.goto(path)
    page.add_style_tag(content=DARK)
    theirs = ("form-control", "btn")
    assert [one for one in serious(page) if not any(name in one for name in theirs)] == []


def refused(page: Page, path: str) -> Counter[str]:
    page.goto(path)
    return Counter(page.evaluate("window.violations"))


@pytest.mark.parametrize("path", PAGES)
def test_a_strict_policy_of_content_refuses_nothing_of_ours(
    path: str, page: Page, site: Site
) -> None:
    """Horizon's own pages have inline scripts: what is refused is the same without our content."""
    page.add_init_script(COLLECT)
    page.route(
        "**/admin/vp_*/**",
        lambda route: (
            answer := route.fetch(),
            route.fulfill(
                response=answer,
                headers={**answer.headers, "content-security-policy-report-only": STRICT},
            ),
        ),
    )
    ours = refused(page, path)
    site.door.is_closed = True
    try:
        without = refused(page, path)
    finally:
        site.door.is_closed = False
    assert ours
    assert ours - without == Counter()


def test_a_host_is_reached_from_its_box_and_a_server_from_there(page: Page, site: Site) -> None:
    page.goto("/admin/vp_hosts/")
    told = {one["Host"]: one for one in site.told("host list")}["lab-1"]
    seen = chromium.numbers(page, "tr[data-host='lab-1'] > td > data")
    assert (seen["hurt_count"], seen["vps_count"]) == (told["Hurt"], told["VPs"])
    page.click("tr[data-host='lab-1'] a[data-domain='0']")
    page.wait_for_url("**/lab-1/#domain-0")
    page.click(f"#domain-0 tr[data-server='{cloud.VICTIM}'] a")
    page.wait_for_url(f"**/{cloud.VICTIM}/")
    assert page.locator("svg.vp-chart polyline").count() > 0


def test_the_keyboard_reaches_every_box_of_the_map(page: Page) -> None:
    page.goto("/admin/vp_hosts/")
    boxes = page.locator("a.vp-heat")
    assert boxes.count() > 0
    for number in range(boxes.count()):
        boxes.nth(number).focus()
        assert boxes.nth(number).evaluate("box => box === document.activeElement")


def test_a_hostile_name_is_text(page: Page) -> None:
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    for path in ("/admin/vp_hosts/lab-3/", "/admin/vp_servers/?host=lab-3"):
        page.goto(path)
        assert HOSTILE in page.locator("#content_body").inner_text()
    assert dialogs == []


def test_without_vp_api_no_number_remains(page: Page, closed_door: None) -> None:
    page.goto("/admin/vp_hosts/")
    assert page.locator("#vp-problem").is_visible()
    assert page.locator("#content_body data").count() == 0
