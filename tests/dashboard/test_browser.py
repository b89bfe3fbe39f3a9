# SPDX-License-Identifier: Apache-2.0
"""The pages in a real browser: what is seen, accessible, without inline script or style, and on a
dark theme too."""

import re
from collections import Counter
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page

from testbed.dashboard import browser as chromium
from tests.dashboard.conftest import HOSTILE, Site
from tests.real_keystone import PASSWORD
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
    "/admin/vp_actions/?at=2026-01-02+03:00",
    "/admin/vp_proposals/",
    "/admin/vp_escalations/",
    f"/admin/vp_escalations/{cloud.ESCALATION}/",
    "/admin/vp_overlays/",
    "/admin/vp_usage/",
    f"/admin/vp_what_if/?server_id={cloud.VICTIM}",
    "/admin/vp_modes/",
    "/admin/vp_modes/confirm?level=host&name=lab-1&mode=advise",
    "/admin/vp_what_if/?flavor=none",
    "/project/vp_performance/",
    f"/project/vp_performance/{cloud.VICTIM}/",
    f"/project/vp_performance/{cloud.SLEEPER}/",
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
def contexts(browser: Browser, site: Site) -> Iterator[dict[str, BrowserContext]]:
    """By the dashboard that the user looks at."""
    with (
        chromium.log_in(browser, site.horizon, "admin", PASSWORD) as admin,
        chromium.log_in(browser, site.horizon, "tenant", PASSWORD) as tenant,
    ):
        yield {"admin": admin, "project": tenant}


@pytest.fixture
def page(request: pytest.FixtureRequest, contexts: dict[str, BrowserContext]) -> Iterator[Page]:
    """Of the user whose `path` the test is of; of the operator without one."""
    case = getattr(request.node, "callspec", None)
    path = case.params.get("path", "") if case else ""
    one = contexts["project" if path.startswith("/project/") else "admin"].new_page()
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


@pytest.mark.parametrize("path", PAGES)
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
        re.compile(r"/(admin|project)/vp_"),
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


def numbers(page: Page, selector: str) -> dict[str, float]:
    """Those that can be seen of the elements that match, by key."""
    shown = page.locator(f"{selector}:visible")
    found = shown.evaluate_all("all => all.map(one => [one.dataset.key, Number(one.value)])")
    return dict(found)


def test_a_host_is_reached_from_its_box_and_a_server_from_there(page: Page, site: Site) -> None:
    page.goto("/admin/vp_hosts/")
    told = {one["Host"]: one for one in site.told("host list")}["lab-1"]
    seen = numbers(page, "tr[data-host='lab-1'] > td > data")
    assert (seen["hurt_count"], seen["vps_count"]) == (told["Hurt"], told["VPs"])
    page.click("tr[data-host='lab-1'] a[data-domain='0']")
    page.wait_for_url("**/lab-1/#domain-0")
    page.click(f"#domain-0 tr[data-server='{cloud.VICTIM}'] a")
    page.wait_for_url(f"**/{cloud.VICTIM}/")
    assert page.locator("svg.vp-chart polyline").count() > 0


CONTROLS = ".vp-page a[href], .vp-page button, .vp-page input, .vp-page select, .vp-page summary"


def reached(page: Page) -> set[int]:
    """Numbers of our controls that the key Tab comes by."""
    page.locator("#content_body").evaluate("one => { one.tabIndex = -1; one.focus(); }")
    seen: set[int] = set()
    for _ in range(page.locator(CONTROLS).count() + 10):
        page.keyboard.press("Tab")
        number = page.evaluate(
            "selector => [...document.querySelectorAll(selector)].indexOf(document.activeElement)",
            CONTROLS,
        )
        seen.add(number)
    return seen - {-1}


@pytest.mark.parametrize(
    "path",
    [
        "/admin/vp_hosts/",
        "/admin/vp_actions/",
        "/admin/vp_proposals/",
        "/admin/vp_modes/",
        *PAGES[-2:-1],
    ],
)
def test_the_keyboard_reaches_every_control(path: str, page: Page) -> None:
    page.goto(path)
    controls = page.locator(CONTROLS)
    visible = {number for number in range(controls.count()) if controls.nth(number).is_visible()}
    assert visible
    assert visible <= reached(page)


@pytest.mark.parametrize(
    ("path", "field", "value", "rows"),
    [
        ("/admin/vp_hosts/", "#vp-stale", "true", ["lab-2"]),
        ("/admin/vp_servers/", "#vp-state", "7", [cloud.NOISY]),
        ("/admin/vp_escalations/", "#vp-status", "proposed", [cloud.ESCALATION]),
        ("/admin/vp_actions/", "#vp-result", "proposed", ["6f1c2d3e-2"]),
    ],
)
def test_a_filter_is_applied(
    path: str, field: str, value: str, rows: list[str], page: Page
) -> None:
    page.goto(path)
    page.locator(field).evaluate("(field, value) => { field.value = value; }", value)
    with page.expect_navigation():
        page.locator(f"form:has({field}) button[type='submit']").click()
    shown = page.locator(".vp-table tbody tr").evaluate_all(
        "all => all.map(row => Object.values(row.dataset)[0])"
    )
    assert shown == rows


def test_a_host_and_a_what_if_are_asked_for(page: Page) -> None:
    page.goto("/admin/vp_hosts/")
    page.fill("#vp-find", "lab-1")
    page.keyboard.press("Enter")
    page.wait_for_url("**/lab-1/")
    page.goto("/admin/vp_what_if/")
    page.fill("#vp-server", cloud.VICTIM)
    page.keyboard.press("Enter")
    page.wait_for_selector("#vp-what-if tr[data-host]")


def test_words_are_explained_to_the_keyboard_alone(page: Page) -> None:
    page.goto("/admin/vp_servers/")
    assert page.locator(".vp-glossary dd:visible").count() == 0
    page.locator(".vp-glossary summary").focus()
    page.keyboard.press("Enter")
    said = page.locator(".vp-glossary").inner_text()
    assert "Last-level cache misses per 1000 instructions." in said
    assert "bulldog" in said
    assert serious(page) == []


def test_a_mode_is_set(page: Page, site: Site) -> None:
    page.goto("/admin/vp_modes/")
    page.click("tr[data-host='lab-1'] a[href*='vp-set-host']")
    page.wait_for_url("**/?host=lab-1#vp-set-host")
    page.locator("#vp-host-mode").evaluate("field => { field.value = 'advise'; }")
    site.agents.modes.clear()
    page.click("#vp-set-host button")
    page.wait_for_selector("#vp-question")
    with page.expect_navigation():
        page.click(".vp-page form button")
    assert site.agents.modes == {"lab-1": "advise"}


def test_a_tenant_refuses_help_and_accepts_it_again(
    contexts: dict[str, BrowserContext],
) -> None:
    page = contexts["project"].new_page()
    page.goto(f"/project/vp_performance/{cloud.VICTIM}/")
    for word in ("refused", "accepted"):
        with page.expect_navigation():
            page.click("button[name='opt_out']")
        assert page.locator("td[data-key='opt_out']").inner_text().startswith(word)
    page.close()


def test_a_proposal_is_accepted_with_the_keyboard_alone(page: Page, site: Site) -> None:
    page.goto("/admin/vp_proposals/")
    site.agents.accepted.clear()
    page.locator("#vp-proposals input[type='checkbox']").first.focus()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    while not page.evaluate("document.activeElement.matches('.vp-page form button')"):
        page.keyboard.press("Tab")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert site.agents.accepted == [("lab-1", "6f1c2d3e-2")]


def test_a_hostile_name_is_text(page: Page) -> None:
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    for path in (
        "/admin/vp_hosts/lab-3/",
        "/admin/vp_servers/?host=lab-3",
        f"/admin/vp_servers/{cloud.UNKNOWN}/",
        f"/admin/vp_actions/?at={quote(HOSTILE)}",
        f"/admin/vp_what_if/?flavor={quote(HOSTILE)}",
    ):
        page.goto(path)
        assert HOSTILE in page.locator("body").inner_text()
    assert dialogs == []


def test_without_vp_api_no_number_remains(page: Page, closed_door: None) -> None:
    page.goto("/admin/vp_hosts/")
    assert page.locator("#vp-problem").is_visible()
    assert page.locator("#content_body data").count() == 0
