# SPDX-License-Identifier: Apache-2.0
"""What a project sees: its own servers, overlays and usage, and nothing of neighbours."""

from functools import partial
from typing import Any

import pytest

from tests.dashboard import comparisons
from tests.dashboard.conftest import Site
from tests.dashboard.dashboard import User, words
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
    shown = tenant.get(VICTIM)
    said = words(shown.one("//dd[@data-key='degradation']"))
    assert said.startswith("loses about 20% to a neighbour since 2026-01-02 03:03 UTC; ")
    comparisons.history(cloud.VICTIM, partial(told, site), shown)
    assert not [name for name in OTHERS if name in words(shown.one("//*[@id='content_body']"))]


def test_a_tenant_sees_its_overlays_and_what_it_is_billed_for(site: Site, tenant: User) -> None:
    shown = tenant.get(PERFORMANCE)
    assert shown.tree.xpath("//table[@id='vp-overlays']//tr/@data-overlay") == [cloud.OVERLAY]
    assert told(site, "usage list")
    comparisons.usage(partial(told, site), shown)


def test_what_was_done_for_its_server_and_whether_it_helped(site: Site, tenant: User) -> None:
    done = comparisons.actions_of(cloud.VICTIM, partial(told, site), tenant.get(VICTIM))
    rows = [row for row, _action in done]
    assert any("the degradation ended" in words(row) for row in rows)
    assert not [name for name in OTHERS if any(name in words(row) for row in rows)]


def test_servers_of_others_are_not_known_to_a_tenant(tenant: User) -> None:
    shown = tenant.get(f"{PERFORMANCE}{cloud.NOISY}/")
    assert shown.problem
    assert "openstack vp" not in shown.problem
    assert "Compute, Performance lists the known servers" in shown.problem
    assert not shown.tree.xpath("//*[@id='content_body']//data")


def test_an_administrator_sees_there_what_the_project_has(admin: User) -> None:
    """Of the project that is chosen in Horizon: the one of this administrator has no server."""
    shown = admin.get(PERFORMANCE)
    assert shown.problem is None
    assert not shown.tree.xpath("//tr/@data-server")


def test_no_page_of_a_tenant_needs_the_command_line(tenant: User) -> None:
    for path in (PERFORMANCE, VICTIM):
        assert "openstack vp" not in tenant.get(path).text


def test_the_latency_target_is_set(tenant: User) -> None:
    target = "//input[@name='latency_target_ms']"
    assert float(tenant.get(VICTIM).one(target).get("value")) == 10.0
    for typed, said in (("15.5", "Set. Its host"), ("soon", "Give the latency target as a number")):
        shown = tenant.post(VICTIM, [("latency_target_ms", typed)])
        assert said in words(shown.one("//body"))
    assert "latency_target_ms 15.5" in words(shown.one("//dl[@id='vp-server-facts']"))


def test_pages_ask_no_more_than_four_times(site: Site, tenant: User) -> None:
    for path, requests in ((PERFORMANCE, 3), (VICTIM, 4)):
        site.door.asked.clear()
        assert tenant.get(path).problem is None
        assert len(site.door.asked) == requests


def test_without_nova_the_page_of_flavors_says_so(tenant: User) -> None:
    assert "Nova does not answer" in str(tenant.get(f"{PERFORMANCE}flavors/").problem)


@pytest.mark.parametrize("path", [PERFORMANCE, VICTIM])
def test_without_vp_api_there_is_no_number(path: str, closed_door: None, tenant: User) -> None:
    shown = tenant.get(path)
    assert shown.problem
    assert not shown.tree.xpath("//*[@id='content_body']//data | //tr[@data-server]")
