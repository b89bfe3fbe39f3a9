# SPDX-License-Identifier: Apache-2.0
"""The tab *Performance* of Nova's page of an instance, and what other pages ask Nova for."""

from collections.abc import Callable, Iterator

import pytest
import requests

from tests.dashboard.conftest import Site
from tests.dashboard.dashboard import Shown, User, words
from tests.dashboard.nova import AGGREGATE, RENAMED, Nova
from tests.loopback import served
from tests.unit.api import cloud

TAB = "?tab=instance_details__vp_performance"


@pytest.fixture(scope="module")
def log_in(site: Site) -> Iterator[Callable[[str], User]]:
    """The catalog of a login has what was there then: now with Nova."""
    nova = Nova({cloud.VICTIM: site.project_id})
    with served(nova) as url, requests.Session() as operators, requests.Session() as tenants:
        site.keystone.add_service("compute", f"{url}/v2.1")
        site.keystone.add_service("network", f"{url}/network")
        links = {"admin": operators, "tenant": tenants}
        users = {name: User(site.horizon, link) for name, link in links.items()}
        for name, user in users.items():
            user.log_in(name)
        yield users.__getitem__


def tab(user: User, dashboard: str) -> Shown:
    page = {"project": "", "admin": "detail"}[dashboard]
    return user.get(f"/{dashboard}/instances/{cloud.VICTIM}/{page}{TAB}")


def test_a_tenant_reads_on_the_page_of_its_instance_what_it_loses(
    log_in: Callable[[str], User],
) -> None:
    shown = tab(log_in("tenant"), "project")
    said = words(shown.one("//dd[@data-key='degradation']"))
    assert said.startswith("loses about 20% to a neighbour since 2026-01-02 03:03 UTC; ")
    assert shown.tree.xpath("//table[@id='vp-actions']//tr[@data-at]")
    assert shown.tree.xpath("//table[@id='vp-overrides']//button[@name='opt_out']")
    assert not shown.tree.xpath("//*[@id='vp-aggressors']")
    [six_hours] = shown.tree.xpath("//nav/a[contains(@href, 'hours=6')]/@href")
    assert "tab=instance_details__vp_performance" in six_hours


def test_an_operator_reads_there_who_degrades_it(log_in: Callable[[str], User]) -> None:
    shown = tab(log_in("admin"), "admin")
    assert "noisy" in words(shown.one("//*[@id='vp-aggressors']"))


def test_without_vp_api_the_tab_has_a_message_and_the_page_works(
    closed_door: None, log_in: Callable[[str], User]
) -> None:
    shown = tab(log_in("tenant"), "project")
    assert (shown.status, bool(shown.problem)) == (200, True)
    assert not shown.tree.xpath("//dd[@data-key='degradation']")


def test_where_a_new_server_of_a_flavor_would_fit(
    site: Site, log_in: Callable[[str], User]
) -> None:
    shown = log_in("admin").get("/admin/vp_what_if/?flavor=m1.quiet")
    assert shown.problem is None
    hosts = shown.tree.xpath("//table[@id='vp-what-if']//tr/@data-host")
    assert set(hosts) == {one["Host"] for one in site.told("host list")}
    said = words(shown.one("//*[@id='vp-taken-for']"))
    assert "Its isolation is strict: a host accepts it if" in said, said


def test_aggregates_of_nova_are_offered_and_others_are_warned_of(
    log_in: Callable[[str], User],
) -> None:
    admin, modes = log_in("admin"), "/admin/vp_modes/"
    offered = admin.get(modes).tree.xpath("//datalist[@id='vp-aggregate-names']/option/@value")
    assert offered == [AGGREGATE, "ssd"]
    for name, is_warned in ((AGGREGATE, False), ("ssd", True)):
        shown = admin.get(f"{modes}confirm?level=aggregate&name={name}&mode=observe")
        assert bool(shown.tree.xpath("//*[@id='vp-no-aggregate']")) is is_warned


def test_a_server_goes_by_the_name_that_it_has_now(log_in: Callable[[str], User]) -> None:
    asked = f"level=server&name={RENAMED}&mode=observe"
    admin = log_in("admin")
    shown = admin.get(f"/admin/vp_modes/confirm?{asked}")
    assert cloud.VICTIM in words(shown.one("//p[@id='vp-question']"))
    listed = admin.get(f"/admin/vp_servers/?name={RENAMED}")
    assert listed.tree.xpath("//tr/@data-server") == [cloud.VICTIM]
    done = admin.get(f"/admin/vp_actions/?server_id={RENAMED}")
    by_id = admin.get(f"/admin/vp_actions/?server_id={cloud.VICTIM}")
    actions = by_id.tree.xpath("//tr/@data-action")
    assert done.tree.xpath("//tr/@data-action") == actions
    assert actions


def test_which_flavors_are_isolated(log_in: Callable[[str], User]) -> None:
    tenant = log_in("tenant")
    [link] = tenant.get("/project/vp_performance/").tree.xpath(
        "//a[contains(@href, 'flavors/')]/@href"
    )
    shown = tenant.get(link)
    assert shown.problem is None
    rows = {row.get("data-flavor"): words(row) for row in shown.tree.xpath("//tr[@data-flavor]")}
    assert "isolated: only on hosts where neighbours" in rows["m1.quiet"]
    assert rows["m1.plain"].endswith("not isolated-")
    assert "latency-critical: requests must be answered in time" in rows["m1.web"]
    assert "weight 2 when the needs of servers conflict" in rows["m1.web"]
    assert "not valid, so they are ignored: vp:isolation='absolute'" in rows["m1.wrong"]
