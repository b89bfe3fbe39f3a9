# SPDX-License-Identifier: Apache-2.0
"""The panel *Hosts*: its numbers are those of `openstack vp`, and there are none without vp-api."""

import pytest

from tests.dashboard import comparisons
from tests.dashboard.conftest import HOSTILE, Site
from tests.dashboard.dashboard import User, values, words
from tests.unit.api import cloud

MAP = "/admin/vp_hosts/"
HOST = f"{MAP}lab-1/"


def test_every_number_of_the_heat_map_is_that_of_the_command_line(site: Site, admin: User) -> None:
    shown = admin.get(MAP)
    comparisons.hosts(site.told, shown)
    for one in site.told("host list"):
        row = shown.one(f"//tr[@data-host='{one['Host']}']")
        assert values(row)["age_s"] == one["Age"]


def test_the_worst_host_comes_first(admin: User) -> None:
    shown = admin.get(MAP)
    assert shown.tree.xpath("//tr/@data-host")[0] == "lab-1"
    degraded = shown.one("//tr[@data-host='lab-1']//a[@data-domain='0']")
    assert "vp-heat-medium" in degraded.get("class")
    assert "21.3%, 1 of" in words(degraded)


def test_a_silent_host_has_no_number_of_now(admin: User) -> None:
    row = admin.get(MAP).one("//tr[@data-host='lab-2']")
    assert "stale" in words(row)
    assert values(row).keys() == {"age_s", "vps_count"}
    assert not row.xpath(".//a[@data-domain]")


@pytest.mark.parametrize(
    ("query", "hosts"),
    [
        ("?is_stale=true", ["lab-2"]),
        ("?mode=observe", ["lab-2"]),
        ("?mode=advise", []),
        ("?sort=name:asc", ["lab-1", "lab-2", "lab-3"]),
    ],
)
def test_filters(query: str, hosts: list[str], admin: User) -> None:
    assert admin.get(MAP + query).tree.xpath("//tr/@data-host") == hosts


def test_a_page_asks_once(site: Site, admin: User) -> None:
    for path in (MAP, HOST):
        site.door.asked.clear()
        assert admin.get(path).problem is None
        assert len(site.door.asked) == 1


def test_a_host_in_detail(site: Site, admin: User) -> None:
    shown = admin.get(HOST)
    comparisons.host("lab-1", site.told, shown)
    facts = values(shown.one("//dl[contains(@class, 'vp-facts')]"))
    assert facts["age_s"] == site.told("host show lab-1")["age_s"]
    victim = shown.one(f"//tr[@data-server='{cloud.VICTIM}']/td[@data-key='degradation']")
    assert words(victim) == "21.3% cache"


def test_a_host_over_time(site: Site, admin: User) -> None:
    site.door.asked.clear()
    shown = admin.get(f"{HOST}timeline/")
    assert len(site.door.asked) == 4
    rows = shown.tree.xpath("//table[@id='vp-history']//tr[@data-at]")
    history = site.told(f"history {cloud.VICTIM}")
    assert {row.get("data-at") for row in rows} >= {
        one["At"] for one in history if one["Host"] == "lab-1"
    }
    assert "victim: 21.3% cache" in words(rows[-1])
    assert values(rows[-1]) == {"hurt_count": 1.0}
    actions = shown.tree.xpath("//table[@id='vp-actions']//tr/@data-action")
    listed = site.told("action list --host lab-1")
    assert actions == [one["ID"] for one in listed]
    assert shown.tree.xpath("//*[local-name()='svg']//*[local-name()='polyline']")


def test_a_host_is_found_by_its_name(admin: User) -> None:
    assert "lab-1" in words(admin.get(f"{MAP}find?host=lab-1").one("//h1"))


def test_an_unknown_host_is_told_as_vp_api_tells_it(admin: User) -> None:
    shown = admin.get(f"{MAP}nowhere/")
    assert shown.problem is not None
    assert "nowhere" in shown.problem
    assert "HTTP 404" in shown.problem


def test_a_hostile_name_is_text(admin: User) -> None:
    shown = admin.get(f"{MAP}lab-3/")
    assert words(shown.one(f"//tr[@data-server='{cloud.UNKNOWN}']/th")) == HOSTILE
    assert "<script>alert" not in shown.text


@pytest.mark.parametrize("path", [MAP, HOST, f"{HOST}timeline/"])
def test_without_vp_api_there_is_a_message_and_no_number(
    path: str, closed_door: None, admin: User
) -> None:
    shown = admin.get(path)
    assert shown.problem
    assert not shown.tree.xpath("//*[@id='content_body']//data")
    assert not shown.tree.xpath("//tr[@data-host]")
    assert admin.get("/settings/").status == 200


def test_a_tenant_has_no_panel_of_hosts(tenant: User) -> None:
    assert not tenant.get("/settings/").tree.xpath(f"//a[contains(@href, '{MAP}')]")
    shown = tenant.get(MAP)
    assert not shown.tree.xpath("//tr[@data-host]")
