# SPDX-License-Identifier: Apache-2.0
"""The panel *Servers*: those that are degraded first; of one all numbers are the command line's."""

import pytest

from tests.dashboard.conftest import HOSTILE, Site
from tests.dashboard.dashboard import User, values, words
from tests.unit.api import cloud

SERVERS = "/admin/vp_servers/"
VICTIM = f"{SERVERS}{cloud.VICTIM}/"


def test_degraded_servers_come_first(site: Site, admin: User) -> None:
    shown = admin.get(SERVERS)
    degraded = shown.tree.xpath("//table[@id='vp-degraded']//tr/@data-server")
    assert degraded == [one["Server ID"] for one in site.told("list --hurt")]
    assert degraded == [cloud.VICTIM]
    listed = {one["Server ID"]: one for one in site.told("list")}
    rows = shown.tree.xpath("//table[@id='vp-servers']//tr[@data-server]")
    assert {row.get("data-server") for row in rows} == set(listed)
    for row in rows:
        told = listed[row.get("data-server")]
        hurt = {True: "yes", False: "no", None: "unknown"}[told["Hurt"]]
        assert words(row.xpath("td[@data-key='hurt_by_neighbour']")[0]) == hurt
        state = words(row.xpath("td[@data-key='state']")[0])
        assert state.split()[0] == ("stale" if told["State"] is None else str(told["State"])) or (
            state == "unknown"
        )


@pytest.mark.parametrize(
    ("query", "servers"),
    [
        ("?name=victim&hurt_by_neighbour=true", [cloud.VICTIM]),
        ("?state=7", [cloud.NOISY]),
        ("?host=lab-3", [cloud.UNKNOWN]),
        ("?host=nowhere", []),
    ],
)
def test_filters(query: str, servers: list[str], admin: User) -> None:
    assert admin.get(SERVERS + query).tree.xpath("//tr/@data-server") == servers


def test_a_server_in_detail(site: Site, admin: User) -> None:
    shown, told = admin.get(VICTIM), site.told(f"show {cloud.VICTIM}")
    facts = shown.one("//dl[@id='vp-server-facts']")
    assert values(facts) == {"age_s": told["age_s"], **told["metrics"]}
    assert words(facts.xpath("dd[@data-key='state']")[0]).split()[0] == str(told["state"])
    assert told["interference"]["suspects"][0]["name"] in words(facts)
    history = site.told(f"history {cloud.VICTIM}")
    rows = shown.tree.xpath("//table[@id='vp-history']//tr[@data-at]")
    assert len(rows) == len(history) > 0
    for row, one in zip(rows, history, strict=True):
        assert row.get("data-at") == one["At"]
        numbers = {"mpki": one["MPKI"], "memory_factor": one["MF"]}
        assert values(row) == {**numbers, "cpi": one["CPI"], "cpu_cores": one["CPU"]}
    assert shown.tree.xpath("//*[local-name()='svg']//*[local-name()='polyline']")


def test_pages_ask_no_more_than_three_times(site: Site, admin: User) -> None:
    for path, requests in ((SERVERS, 2), (f"{SERVERS}?state=7", 1), (VICTIM, 3)):
        site.door.asked.clear()
        assert admin.get(path).problem is None
        assert len(site.door.asked) == requests


@pytest.mark.parametrize("query", ["?hours=6", "?hours=x&end=y", "?end=2026-01-02T03:00:00Z"])
def test_other_times_can_be_asked_for(query: str, admin: User) -> None:
    shown = admin.get(VICTIM + query)
    assert (shown.status, shown.problem) == (200, None)


def test_a_hostile_name_is_text(admin: User) -> None:
    shown = admin.get(f"{SERVERS}{cloud.UNKNOWN}/")
    assert HOSTILE in words(shown.one("//h1"))
    assert "<script>alert" not in shown.text


@pytest.mark.parametrize("path", [SERVERS, VICTIM])
def test_without_vp_api_there_is_no_number(path: str, closed_door: None, admin: User) -> None:
    shown = admin.get(path)
    assert shown.problem
    assert not shown.tree.xpath("//*[@id='content_body']//data | //tr[@data-server]")
