# SPDX-License-Identifier: Apache-2.0
"""Escalations, overlays, usage, what-if and modes: the same as the command line has."""

import pytest

from tests.dashboard.conftest import Site
from tests.dashboard.dashboard import User, values, words
from tests.unit.api import cloud
from vp_dashboard import texts

ACTIONS = "/admin/vp_actions/"
ESCALATIONS = "/admin/vp_escalations/"
ESCALATION = f"{ESCALATIONS}{cloud.ESCALATION}/"
OVERLAYS = "/admin/vp_overlays/"
USAGE = "/admin/vp_usage/"
WHAT_IF = "/admin/vp_what_if/"
MODES = "/admin/vp_modes/"
CONFIRM = f"{MODES}confirm"


def test_escalations(site: Site, admin: User) -> None:
    shown, listed = admin.get(ESCALATIONS), site.told("escalation list")
    assert shown.tree.xpath("//tr/@data-escalation") == [one["ID"] for one in listed]
    for one in listed:
        row = shown.one(f"//tr[@data-escalation='{one['ID']}']")
        assert words(row.xpath("td[@data-key='status']")[0]) == one["Status"]
    proposed = admin.get(f"{ESCALATIONS}?status=proposed")
    assert proposed.tree.xpath("//tr/@data-escalation") == [cloud.ESCALATION]


def test_an_escalation_in_detail_is_accepted(site: Site, admin: User) -> None:
    shown, told = admin.get(ESCALATION), site.told(f"escalation show {cloud.ESCALATION}")
    assert values(shown.one("//dl[@id='vp-escalation']")) == told["evidence"]
    for one in told["candidates"]:
        row = shown.one(f"//tr[@data-server='{one['server']['server_id']}']")
        names = ("relief_ratio", "others_ratio", "memory_kib")
        assert values(row) == {name: one[name] for name in names}
    after = admin.post(ESCALATION, [])
    assert "Accepted" in words(after.one("//body"))
    now = site.told(f"escalation show {cloud.ESCALATION}")
    assert now["accepted_by"]
    assert words(after.one("//dd[@data-key='accepted_by']")) == now["accepted_by"]


def test_overlays(site: Site, admin: User) -> None:
    shown, listed = admin.get(OVERLAYS), site.told("overlay list")
    assert set(shown.tree.xpath("//tr/@data-overlay")) == {one["ID"] for one in listed}
    told = site.told(f"overlay show {cloud.OVERLAY}")
    numbers = {"target": told["target"], "priority": told["priority"]}
    assert values(shown.one(f"//tr[@data-overlay='{cloud.OVERLAY}']")) == numbers
    assert values(admin.get(f"{OVERLAYS}{cloud.OVERLAY}/").one("//dl[@id='vp-overlay']")) == numbers


def test_usage(site: Site, admin: User) -> None:
    shown = admin.get(f"{USAGE}?start=2026-01-01T00:00:00Z&end=2026-01-03T00:00:00Z")
    span = "--start 2026-01-01T00:00:00Z --end 2026-01-03T00:00:00Z"
    listed = site.told(f"usage list {span}")
    assert listed
    for one in listed:
        row = shown.one(f"//tr[@data-server='{one['server_id']}']")
        assert values(row) == {key: one[key] for key in values(row)}
        assert len(values(row)) == 5


def test_what_if(site: Site, admin: User) -> None:
    assert not admin.get(WHAT_IF).tree.xpath("//tr/@data-host")
    shown = admin.get(f"{WHAT_IF}?server_id={cloud.VICTIM}")
    listed = site.told(f"what-if --server {cloud.VICTIM}")
    assert shown.tree.xpath("//tr/@data-host") == [one["Host"] for one in listed]
    for one in listed:
        told = {"newcomer_ratio": one["It loses"], "resident_ratio": one["Others lose"]}
        known = {key: value for key, value in told.items() if value is not None}
        assert values(shown.one(f"//tr[@data-host='{one['Host']}']")) == known


def test_a_flavor_that_nova_does_not_have(admin: User) -> None:
    """Here there is no Nova at all. The form stays, for another name."""
    for query, said in (("flavor=m1.none", "no flavor 'm1.none'"), ("server_id=none", "'none'")):
        shown = admin.get(f"{WHAT_IF}?{query}")
        assert said in words(shown.one("//*[@id='vp-unknown']"))
        assert shown.tree.xpath("//input[@name='flavor']")


def test_actions(site: Site, admin: User) -> None:
    shown, listed = admin.get(ACTIONS), site.told("action list")
    assert set(shown.tree.xpath("//tr/@data-action")) == {one["ID"] for one in listed}
    for one in listed:
        row = shown.one(f"//tr[@data-action='{one['ID']}']")
        [result] = row.xpath("td[@data-key='result']")
        assert result.get("data-result") == one["Result"]
        assert words(result) == texts.result(one["Result"])


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("at=2026-01-02+03:00", {"6f1c2d3e-0", "6f1c2d3e-1", "6f1c2d3e-2"}),
        ("at=2026-01-02+02:53:59", {"6f1c2d3e-0", "6f1c2d3e-1"}),
        ("at=2026-01-02+02:40", set()),
        ("result=proposed", {"6f1c2d3e-2"}),
        ("host=lab-2", set()),
    ],
)
def test_what_was_done_at_a_time(query: str, ids: set[str], admin: User) -> None:
    assert set(admin.get(f"{ACTIONS}?{query}").tree.xpath("//tr/@data-action")) == ids


def test_an_action_leads_to_what_was_lost_before_and_after(admin: User) -> None:
    row = admin.get(f"{ACTIONS}?result=mended").one("//tr[@data-action]")
    [link] = row.xpath(".//a[contains(@href, '?end=')]/@href")
    after = admin.get(link).tree.xpath("//table[@id='vp-actions']//tr[@data-at]")
    assert any("the degradation ended" in words(one) for one in after)


def test_what_is_no_time_is_told(admin: User) -> None:
    shown = admin.get(f"{ACTIONS}?at=noon")
    assert words(shown.one("//*[@id='vp-no-time']")) == "noon is no time."


def test_modes(site: Site, admin: User) -> None:
    shown, listed = admin.get(MODES), site.told("mode list")
    rows = shown.tree.xpath("//tr[@data-level]")
    assert len(rows) == len(listed)
    assert [words(row.xpath("td[@data-key='mode']")[0]) for row in rows] == [
        one["Mode"] for one in listed
    ]


def test_a_mode_is_set_once_it_is_confirmed(site: Site, admin: User) -> None:
    site.agents.modes.clear()
    asked = [("level", "host"), ("name", "lab-1"), ("mode", "advise")]
    query = "&".join(map("=".join, asked))
    shown = admin.get(f"{CONFIRM}?{query}")
    assert words(shown.one("//p[@id='vp-question']")) == "Set mode advise for host lab-1?"
    assert site.agents.modes == {}
    admin.post(f"{CONFIRM}?{query}", asked)
    assert site.agents.modes == {"lab-1": "advise"}


@pytest.mark.parametrize(
    "asked",
    [
        [],
        [("level", "galaxy"), ("mode", "enforce")],
        [("level", "cloud"), ("mode", "destroy")],
        [("level", "host"), ("name", " "), ("mode", "enforce")],
    ],
)
def test_nothing_is_set_that_was_not_asked_for(
    asked: list[tuple[str, str]], site: Site, admin: User
) -> None:
    site.agents.modes.clear()
    before = site.told("mode list")
    shown = admin.post(f"{CONFIRM}?level=cloud&mode=observe", asked)
    assert "Choose a level" in words(shown.one("//body"))
    assert (site.told("mode list"), site.agents.modes) == (before, {})


PAGES = [
    ACTIONS,
    ESCALATIONS,
    ESCALATION,
    OVERLAYS,
    USAGE,
    f"{WHAT_IF}?server_id={cloud.VICTIM}",
    MODES,
]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_asks_once(path: str, site: Site, admin: User) -> None:
    site.door.asked.clear()
    assert admin.get(path).problem is None
    assert len(site.door.asked) == 1


@pytest.mark.parametrize("path", PAGES)
def test_without_vp_api_there_is_no_number(path: str, closed_door: None, admin: User) -> None:
    shown = admin.get(path)
    assert shown.problem
    assert not shown.tree.xpath("//*[@id='content_body']//data")


def test_a_tenant_has_none_of_these_panels(tenant: User) -> None:
    assert not tenant.get("/settings/").tree.xpath("//a[contains(@href, '/admin/vp_')]")
    for path in PAGES:
        assert not tenant.get(path).tree.xpath("//table[starts-with(@id, 'vp-')]")
