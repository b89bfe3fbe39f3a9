# SPDX-License-Identifier: Apache-2.0
"""Escalations, overlays, usage, what-if and modes: the same as the command line has."""

from collections.abc import Callable
from urllib.parse import urlencode

import pytest

from nova_vp.cloud_modes import NOT_SET
from tests.dashboard import comparisons
from tests.dashboard.conftest import Site
from tests.dashboard.dashboard import Shown, User, values, words
from tests.unit.api import cloud
from vp_client import formatters
from vp_dashboard import texts

Report = Callable[..., None]
ACTIONS = "/admin/vp_actions/"
ESCALATIONS = "/admin/vp_escalations/"
ESCALATION = f"{ESCALATIONS}{cloud.ESCALATION}/"
PROPOSALS = "/admin/vp_proposals/"
OVERLAYS = "/admin/vp_overlays/"
USAGE = "/admin/vp_usage/"
WHAT_IF = "/admin/vp_what_if/"
MODES = "/admin/vp_modes/"
CONFIRM = f"{MODES}confirm"


def test_escalations(site: Site, admin: User) -> None:
    comparisons.escalations(site.told, admin.get(ESCALATIONS))
    proposed = admin.get(f"{ESCALATIONS}?status=proposed")
    assert proposed.tree.xpath("//tr/@data-escalation") == [cloud.ESCALATION]


def test_an_escalation_in_detail_is_accepted(site: Site, admin: User) -> None:
    comparisons.escalation(cloud.ESCALATION, site.told, admin.get(ESCALATION))
    after = admin.post(ESCALATION, [])
    assert "Accepted" in words(after.one("//body"))
    now = site.told(f"escalation show {cloud.ESCALATION}")
    assert now["accepted_by"]
    assert words(after.one("//dd[@data-key='accepted_by']")) == "admin"
    row = admin.get(ESCALATIONS).one(f"//tr[@data-escalation='{cloud.ESCALATION}']")
    assert words(row.xpath("td[@data-key='accepted_by']")[0]) == "admin"


def test_overlays(site: Site, admin: User) -> None:
    comparisons.overlays(site.told, admin.get(OVERLAYS))
    comparisons.overlay(cloud.OVERLAY, site.told, admin.get(f"{OVERLAYS}{cloud.OVERLAY}/"))


def test_usage(site: Site, admin: User) -> None:
    shown = admin.get(f"{USAGE}?start=2026-01-01T00:00:00Z&end=2026-01-03T00:00:00Z")
    span = "--start 2026-01-01T00:00:00Z --end 2026-01-03T00:00:00Z"
    assert site.told(f"usage list {span}")
    comparisons.usage(site.told, shown, span)


def test_projects_have_their_names_where_keystone_knows_them(site: Site, admin: User) -> None:
    for path in ("/admin/vp_servers/", OVERLAYS, f"/admin/vp_servers/{cloud.VICTIM}/"):
        shown = admin.get(path)
        names = {words(one) for one in shown.tree.xpath(f"//span[@title='{site.project_id}']")}
        assert names == {"shop"}, path
    gone = admin.get("/admin/vp_servers/").tree.xpath(f"//span[@title='{cloud.BETA}']")
    assert {words(one) for one in gone} == {cloud.BETA}


def test_what_if(site: Site, admin: User) -> None:
    assert not admin.get(WHAT_IF).tree.xpath("//tr/@data-host")
    shown = admin.get(f"{WHAT_IF}?server_id={cloud.VICTIM}")
    comparisons.what_if(f"--server {cloud.VICTIM}", site.told, shown)
    said = words(shown.one("//*[@id='vp-taken-for']"))
    assert said.startswith(
        "The state that was measured while no neighbour degraded the server: "
    ), said
    both = admin.get(f"{WHAT_IF}?server_id={cloud.VICTIM}&flavor=m1.quiet")
    assert "not about both" in words(both.one("//*[@id='vp-unknown']"))
    assert not both.tree.xpath("//tr/@data-host")


def test_a_flavor_that_nova_does_not_have(admin: User) -> None:
    """Here there is no Nova at all. The form stays, for another name."""
    for query, said in (("flavor=m1.none", "no flavor 'm1.none'"), ("server_id=none", "'none'")):
        shown = admin.get(f"{WHAT_IF}?{query}")
        assert said in words(shown.one("//*[@id='vp-unknown']"))
        assert shown.tree.xpath("//input[@name='flavor']")


def test_actions(site: Site, admin: User) -> None:
    shown = admin.get(ACTIONS)
    comparisons.actions(site.told, shown)
    for one in site.told("action list"):
        row = shown.one(f"//tr[@data-action='{one['ID']}']")
        assert words(row.xpath("td[@data-key='result']")[0]).startswith(texts.result(one["Result"]))


def test_actions_have_what_was_measured_or_why_nothing_is(reported: Report, admin: User) -> None:
    """An action of 03:02, of which it is recorded what its victim lost at 03:01 and at 03:04."""
    interference = {"kind": "cache", "since": cloud.NOW_S - 200, "suspects": [], "refused": []}
    done = [
        cloud.an_action(id="x-1", at=cloud.NOW_S - 120, result="applied"),
        cloud.an_action(id="x-2", at=cloud.NOW_S - 3600, result="undone"),
        cloud.an_action(id="x-3", at=cloud.NOW_S - 7200),
    ]
    lost = cloud.a_vp(interference={**interference, "loss_ratio": 0.477})
    reported(
        cloud.a_record(age_s=170, vps=[lost]),
        cloud.a_record(vps=[cloud.a_vp(actions=done)], proposals=[cloud.a_cap()]),
    )
    shown = admin.get(ACTIONS)
    expected = {
        "x-1": "it was applied The server lost 47.7% before, 0% after.",
        "x-2": "an operator reverted it Not measured, because it was reverted.",
        "x-3": "the degradation ended Not measured: nothing is recorded of the server in the time "
        "before.",
        "6f1c2d3e-2": "it waits for an operator Nothing was changed, so nothing is measured.",
    }
    found = {
        row.get("data-action"): words(row.xpath("td[@data-key='result']")[0])
        for row in shown.tree.xpath("//tr[@data-action]")
    }
    assert found == expected


def test_actions_have_who_accepted_them(reported: Report, admin: User) -> None:
    reported(cloud.a_record(vps=[cloud.a_vp()], proposals=[cloud.a_cap()]))
    [key] = admin.get("/admin/vp_proposals/").tree.xpath("//input[@name='action']/@value")
    admin.post("/admin/vp_proposals/", [("action", key)])
    for path in (ACTIONS, f"/admin/vp_servers/{cloud.VICTIM}/", "/admin/vp_hosts/lab-1/timeline/"):
        row = admin.get(path).one("//table[@id='vp-actions']/tbody/tr")
        assert words(row.xpath("td[@data-key='accepted_by']")[0]) == "admin"


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


FILTERS = [
    (ACTIONS, "server_id", "victim", cloud.VICTIM),
    (USAGE, "server_id", "victim", cloud.VICTIM),
    (PROPOSALS, "server_id", "victim", cloud.VICTIM),
    (USAGE, "project_id", "shop", None),
    (OVERLAYS, "project_id", "shop", None),
    ("/admin/vp_servers/", "project_id", "shop", None),
]


@pytest.mark.parametrize(("path", "field", "name", "wanted"), FILTERS)
def test_filters_take_names(
    path: str, field: str, name: str, wanted: str | None, site: Site, admin: User
) -> None:
    """`wanted`: the id; None: the tenant's project."""
    rows = "//tbody/tr[@*]"
    by_name = admin.get(f"{path}?{field}={name}")
    by_id = admin.get(f"{path}?{field}={wanted or site.project_id}")
    found = [words(row) for row in by_name.tree.xpath(rows)]
    assert found == [words(row) for row in by_id.tree.xpath(rows)]
    assert found
    assert by_name.one(f"//input[@name='{field}']").get("value") == name


@pytest.mark.parametrize(("path", "field", "name", "wanted"), FILTERS)
def test_a_name_that_is_not_known_is_told(
    path: str, field: str, name: str, wanted: str | None, admin: User
) -> None:
    shown = admin.get(f"{path}?{field}=nosuch")
    assert "'nosuch'" in words(shown.one("//*[@id='vp-unknown']"))
    assert not shown.tree.xpath("//form[@method='get']/following::tbody/tr[@data-server]")
    assert shown.one(f"//input[@name='{field}']").get("value") == "nosuch"


def test_an_action_leads_to_what_was_lost_before_and_after(admin: User) -> None:
    row = admin.get(f"{ACTIONS}?result=mended").one("//tr[@data-action]")
    [link] = row.xpath(".//a[contains(@href, '?end=')]/@href")
    after = admin.get(link).tree.xpath("//table[@id='vp-actions']//tr[@data-at]")
    assert any("the degradation ended" in words(one) for one in after)


def test_what_is_no_time_is_told(admin: User) -> None:
    shown = admin.get(f"{ACTIONS}?at=noon")
    assert words(shown.one("//*[@id='vp-no-time']")) == "noon is no time."


def test_modes(site: Site, admin: User) -> None:
    assert site.told("mode list")
    comparisons.modes(site.told, admin.get(MODES))


def confirmation(admin: User, **asked: str) -> Shown:
    return admin.get(f"{CONFIRM}?{urlencode(asked)}")


def question(shown: Shown) -> str:
    return words(shown.one("//p[@id='vp-question']"))


def effect(shown: Shown, key: str) -> str:
    return words(shown.one(f"//dl[@id='vp-effect']/dd[@data-key='{key}']"))


def test_a_mode_is_set_once_it_is_confirmed(site: Site, admin: User) -> None:
    site.agents.modes.clear()
    shown = confirmation(admin, level="host", name="lab-1", mode="advise")
    assert question(shown) == "Change the mode of host lab-1 from none of its own to advise?"
    assert effect(shown, "now") == "enforce (set for the host aggregate ssd)"
    assert effect(shown, "then") == "advise (set for this host)"
    assert site.agents.modes == {}
    asked = [("level", "host"), ("name", "lab-1"), ("mode", "advise")]
    admin.post(f"{CONFIRM}?{urlencode(asked)}", asked)
    assert site.agents.modes == {"lab-1": "advise"}
    admin.post(f"{CONFIRM}?{urlencode(asked)}", [*asked[:2], ("mode", "unset")])
    assert site.agents.modes == {"lab-1": NOT_SET}


def test_the_mode_that_is_set_now_is_asked_about(admin: User) -> None:
    cloud_wide = confirmation(admin, level="cloud", mode="observe")
    assert question(cloud_wide) == "Change the mode of the cloud from enforce to observe?"
    aggregate = confirmation(admin, level="aggregate", name="ssd", mode="unset")
    assert question(aggregate) == "Change the mode of host aggregate ssd from enforce to none?"
    assert values(aggregate.one("//p[@id='vp-effect']")) == {"hosts_count": 1}
    server = confirmation(admin, level="server", name="noisy", mode="observe")
    assert question(server) == (
        f"Change the mode of server noisy ({cloud.NOISY}) on lab-1 from none of its own to observe?"
    )
    assert effect(server, "then") == "observe (set for this server)"
    assert server.one("//input[@name='name']").get("value") == cloud.NOISY


def test_of_an_agent_that_does_not_say_what_is_set_it_is_unknown(admin: User) -> None:
    shown = confirmation(admin, level="host", name="lab-2", mode="advise")
    assert question(shown) == "Change the mode of host lab-2 from unknown to advise?"
    assert effect(shown, "now") == "observe (unknown)"
    assert effect(shown, "then").startswith("unknown")


@pytest.mark.parametrize(
    ("level", "name", "said"),
    [
        ("host", "nosuch", "No report of host 'nosuch' is stored"),
        ("server", "nosuch", "No server is named 'nosuch'"),
    ],
)
def test_what_is_not_known_is_refused_before_it_is_confirmed(
    level: str, name: str, said: str, admin: User
) -> None:
    shown = confirmation(admin, level=level, name=name, mode="advise")
    assert said in words(shown.one("//body"))
    assert not shown.tree.xpath("//p[@id='vp-question']")
    assert shown.tree.xpath(f"//form[@id='vp-set-{level}']")


def test_each_host_has_its_mode_and_where_it_comes_from(site: Site, admin: User) -> None:
    shown = admin.get(MODES)
    names = [one["Host"] for one in site.told("host list")]
    assert sorted(shown.tree.xpath("//table[@id='vp-host-modes']//tr/@data-host")) == sorted(names)
    for name in names:
        row, told = shown.one(f"//tr[@data-host='{name}']"), site.told(f"host show {name}")
        assert words(row.xpath("td[@data-key='mode']")[0]) == told["mode"]
        source = formatters.mode_source(told["mode_source"])
        assert words(row.xpath("td[@data-key='source']")[0]) == source
    assert "set for the host aggregate ssd" in words(shown.one("//tr[@data-host='lab-1']"))


@pytest.mark.parametrize(
    ("query", "hosts"),
    [("source=aggregate", ["lab-1"]), ("source=host", []), ("mode=observe", ["lab-2"])],
)
def test_hosts_by_mode_and_by_where_it_is_set(query: str, hosts: list[str], admin: User) -> None:
    assert admin.get(f"{MODES}?{query}").tree.xpath("//tr/@data-host") == hosts


def test_of_many_hosts_each_is_offered_and_a_page_has_a_hundred(
    site: Site, reported: Callable[..., None], admin: User
) -> None:
    names = [f"host-{number:03}" for number in range(120)]
    reported(*map(cloud.a_record, names))
    site.door.asked.clear()
    shown = admin.get(MODES)
    assert len(site.door.asked) == 2
    assert shown.tree.xpath("//datalist[@id='vp-host-names']/option/@value") == names
    assert shown.tree.xpath("//tr/@data-host") == names[:100]
    there = shown.one("//a[@rel='next']").get("href")
    assert admin.get(f"{MODES}{there}").tree.xpath("//tr/@data-host") == names[100:]


def test_hosts_and_aggregates_are_offered_and_no_mode_is_chosen_yet(
    site: Site, admin: User
) -> None:
    shown = admin.get(MODES)
    offered = {
        level: set(shown.tree.xpath(f"//datalist[@id='vp-{level}-names']/option/@value"))
        for level in ("host", "aggregate")
    }
    names = {one["Host"] for one in site.told("host list")}
    assert offered == {"host": names, "aggregate": {"ssd"}}
    for field in shown.tree.xpath("//form[starts-with(@id, 'vp-set-')]//select"):
        assert field.get("required") is not None
        assert field.xpath("option/@value")[0] == ""
    [link] = shown.tree.xpath("//tr[@data-host='lab-1']//a[contains(@href, 'vp-set-host')]/@href")
    there = admin.get(f"{MODES}{link.partition('#')[0]}")
    assert there.one("//input[@id='vp-host']").get("value") == "lab-1"


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
    f"{ACTIONS}?result=proposed",
    ESCALATIONS,
    ESCALATION,
    OVERLAYS,
    USAGE,
    f"{WHAT_IF}?server_id={cloud.VICTIM}",
    MODES,
]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_asks_once(path: str, site: Site, admin: User) -> None:
    """*Modes* has two lists."""
    site.door.asked.clear()
    assert admin.get(path).problem is None
    assert len(site.door.asked) == (2 if path == MODES else 1)


@pytest.mark.parametrize("path", PAGES)
def test_without_vp_api_there_is_no_number(path: str, closed_door: None, admin: User) -> None:
    shown = admin.get(path)
    assert shown.problem
    assert not shown.tree.xpath("//*[@id='content_body']//data")


def test_a_tenant_has_none_of_these_panels(tenant: User) -> None:
    assert not tenant.get("/settings/").tree.xpath("//a[contains(@href, '/admin/vp_')]")
    for path in PAGES:
        assert not tenant.get(path).tree.xpath("//table[starts-with(@id, 'vp-')]")
