# SPDX-License-Identifier: Apache-2.0
"""What a project sees: its own servers, overlays and usage, and nothing of neighbours."""

from typing import Any

import pytest

from tests.dashboard.conftest import Site
from tests.dashboard.dashboard import User, values, words
from tests.unit.api import cloud

PERFORMANCE = "/project/vp_performance/"
VICTIM = f"{PERFORMANCE}{cloud.VICTIM}/"
OTHERS = ("noisy", cloud.NOISY, cloud.BETA, "lab-1", "lab-2", "orphan")
"""What a tenant must not learn: neighbours, their project, hosts."""


def told(site: Site, command: str) -> Any:
    environment = site.keystone.environment("tenant", "shop")
    return site.shell.run(f"vp {command} -f json", environment).json


def test_a_tenant_sees_its_own_servers(site: Site, tenant: User) -> None:
    shown, listed = tenant.get(PERFORMANCE), told(site, "list")
    servers = shown.tree.xpath("//table[@id='vp-servers']//tr/@data-server")
    assert set(servers) == {one["Server ID"] for one in listed} == {cloud.VICTIM, cloud.SLEEPER}
    assert not [name for name in OTHERS if name in words(shown.one("//*[@id='content_body']"))]


def test_a_tenant_sees_one_of_them_in_detail(site: Site, tenant: User) -> None:
    shown, history = tenant.get(VICTIM), told(site, f"history {cloud.VICTIM}")
    said = words(shown.one("//dd[@data-key='degradation']"))
    assert said.startswith("loses about 20% to a neighbour since 2026-01-02 03:03 UTC; ")
    rows = shown.tree.xpath("//table[@id='vp-history']//tr[@data-at]")
    assert [row.get("data-at") for row in rows] == [one["At"] for one in history]
    assert values(rows[0])["mpki"] == history[0]["MPKI"]
    assert not [name for name in OTHERS if name in words(shown.one("//*[@id='content_body']"))]


def test_a_tenant_sees_its_overlays_and_what_it_is_billed_for(site: Site, tenant: User) -> None:
    shown, [billed] = tenant.get(PERFORMANCE), told(site, "usage list")
    assert shown.tree.xpath("//table[@id='vp-overlays']//tr/@data-overlay") == [cloud.OVERLAY]
    numbers = values(shown.one("//table[@id='vp-usage']//tr[@data-server]"))
    assert numbers == {key: billed[key] for key in numbers}
    assert len(numbers) == 5


def test_what_was_done_for_its_server_and_whether_it_helped(site: Site, tenant: User) -> None:
    rows = tenant.get(VICTIM).tree.xpath("//table[@id='vp-actions']//tr[@data-at]")
    listed = told(site, f"action list --server {cloud.VICTIM}")
    assert [row.get("data-at") for row in rows] == [one["At"] for one in listed]
    assert any("the degradation ended" in words(row) for row in rows)
    assert not [name for name in OTHERS if any(name in words(row) for row in rows)]


def test_servers_of_others_are_not_known_to_a_tenant(tenant: User) -> None:
    shown = tenant.get(f"{PERFORMANCE}{cloud.NOISY}/")
    assert shown.problem
    assert "HTTP 404" in shown.problem
    assert not shown.tree.xpath("//*[@id='content_body']//data")


def test_an_administrator_sees_there_what_the_project_has(admin: User) -> None:
    """Of the project that is chosen in Horizon: the one of this administrator has no server."""
    shown = admin.get(PERFORMANCE)
    assert shown.problem is None
    assert not shown.tree.xpath("//tr/@data-server")


def test_pages_ask_no_more_than_three_times(site: Site, tenant: User) -> None:
    for path in (PERFORMANCE, VICTIM):
        site.door.asked.clear()
        assert tenant.get(path).problem is None
        assert len(site.door.asked) == 3


@pytest.mark.parametrize("path", [PERFORMANCE, VICTIM])
def test_without_vp_api_there_is_no_number(path: str, closed_door: None, tenant: User) -> None:
    shown = tenant.get(path)
    assert shown.problem
    assert not shown.tree.xpath("//*[@id='content_body']//data | //tr[@data-server]")
