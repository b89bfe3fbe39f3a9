# SPDX-License-Identifier: Apache-2.0
"""No more pollution permits are sold than a last-level cache bears, inside Nova's own handlers."""

from collections.abc import Iterator
from typing import Any

import nova.conf
import pytest
from nova import objects

from nova_vp.core.types.asked import Asked
from tests.messages import a_domain, digest_text, hear
from tests.unit.scheduler.cloud import UUID, Cloud, a_host, a_request
from vp_scheduler.placement import process_state
from vp_scheduler.placement.host_scorer import HostScorer
from vp_scheduler.placement.settings import SettingsReader

pytestmark = pytest.mark.nova

MOST = 100_000
TWO = a_domain(0), a_domain(1)


@pytest.fixture(autouse=True)
def sold() -> Iterator[None]:
    process_state.register_opts(nova.conf.CONF)
    set_option("llc_permits_per_domain", MOST)
    yield
    for name in ("llc_permits_per_domain", "stale_hosts"):
        nova.conf.CONF.clear_override(name, group="vp_scheduler")


def set_option(name: str, value: object) -> None:
    nova.conf.CONF.set_override(name, value, group="vp_scheduler")


def a_cloud(*domains: Any, permits: list[int] | None = None, **fields: Any) -> Cloud:
    cloud = Cloud()
    cloud.placement = HostScorer(cloud.view, SettingsReader(nova.conf.CONF).llc_permit)
    cloud.filter._scorer = cloud.placement
    booked = {} if permits is None else {"permits": permits}
    hear(cloud.view, digest_text("vp1", *(domains or TWO), **booked, **fields))
    return cloud


def buys(permit: object, vcpus: int = 1, isolation: str | None = None, **more: Any) -> Any:
    return a_request(isolation, vcpus, llc_permit=str(permit), **more)


def passes(cloud: Cloud, spec: Any, **host: Any) -> bool:
    return cloud.passing(spec, [a_host("vp1", **host)]) == ["vp1"]


@pytest.mark.parametrize(
    ("label", "permits", "permit", "vcpus", "expected"),
    [
        ("nothing is booked", None, MOST, 1, True),
        ("more than there is", None, MOST + 1, 1, False),
        ("just enough is left", [90_000, 95_000], 10_000, 1, True),
        ("too little is left in each", [90_000, 95_000], 10_001, 1, False),
        ("one domain is enough", [MOST, 0], MOST, 1, True),
        ("a permit is for each vCPU", [60_000, 60_000], 10_001, 4, False),
        ("and no more than that", [60_000, 60_000], 10_000, 4, True),
    ],
)
def test_a_host_needs_a_domain_with_enough_left(
    label: str, permits: list[int] | None, permit: int, vcpus: int, expected: bool
) -> None:
    assert passes(a_cloud(permits=permits), buys(permit, vcpus)) is expected, label


def test_permits_by_memory_are_those_of_the_agents() -> None:
    # 64 MiB at 5000 misses per ms for each GiB.
    assert passes(a_cloud(permits=[99_687, MOST]), buys("auto"))
    assert not passes(a_cloud(permits=[99_688, MOST]), buys("auto"))


def test_who_buys_none_is_placed_as_before() -> None:
    assert passes(a_cloud(permits=[2 * MOST, 2 * MOST]), a_request(None))


def test_without_a_limit_any_number_is_sold() -> None:
    set_option("llc_permits_per_domain", 0)
    assert passes(a_cloud(permits=[2 * MOST, 2 * MOST]), buys(MOST))


def test_a_server_wider_than_a_domain_books_its_share_in_each() -> None:
    # Six vCPUs over two domains of four CPUs: three permits in each.
    assert passes(a_cloud(permits=[70_000, 70_000]), buys(10_000, 6))
    assert not passes(a_cloud(permits=[70_000, 70_001]), buys(10_000, 6))


def test_where_guests_float_the_host_is_one_cache() -> None:
    assert passes(a_cloud(permits=[60_000, 60_000], homing=False), buys(80_000))
    assert passes(a_cloud(permits=[MOST, 0], homing=False), buys(MOST))
    assert not passes(a_cloud(permits=[MOST, 1], homing=False), buys(MOST))


def test_domains_that_the_digest_left_out_count_too() -> None:
    assert passes(a_cloud(a_domain(0), permits=[MOST, MOST, 0]), buys(MOST))


def test_a_strict_server_must_pass_both() -> None:
    spec = buys(MOST, isolation="strict")
    assert passes(a_cloud(permits=[0, 0]), spec)
    assert not passes(a_cloud(permits=[1, 1]), spec)
    assert not passes(a_cloud(a_domain(0, newcomer=0.3), permits=[0]), spec)


def test_servers_of_one_multi_create_are_counted() -> None:
    cloud = a_cloud(permits=[0, 0])
    spec = buys(60_000)
    assert passes(cloud, spec, more=1)
    assert not passes(cloud, spec, more=2)


def test_servers_that_no_agent_has_reported_are_counted_by_what_they_asked_for() -> None:
    cloud = a_cloud(permits=[0, 0])
    coming = [UUID.format(n) for n in (10, 11)]
    for server in coming:
        assert passes(cloud, buys(60_000, server=server))
    assert passes(cloud, buys(60_000), servers=coming[:1])
    assert not passes(cloud, buys(60_000), servers=coming)


def test_those_that_another_scheduler_placed_are_counted_by_their_flavor() -> None:
    cloud = a_cloud(permits=[0, 0])
    host = a_host("vp1")
    for number in (10, 11):
        flavor = objects.Flavor(
            flavorid="f1", vcpus=2, memory_mb=64, extra_specs={"vp:llc_permit": "30000"}
        )
        host.instances[UUID.format(number)] = objects.Instance(
            uuid=UUID.format(number), vcpus=2, memory_mb=64, flavor=flavor
        )
    host.num_instances = 2
    assert cloud.passing(buys(40_000), [host]) == ["vp1"]
    assert cloud.passing(buys(40_001), [host]) == []


def test_the_next_digest_counts_them_as_booked() -> None:
    cloud = a_cloud(permits=[0, 0])
    coming = [UUID.format(10)]
    assert passes(cloud, buys(60_000, server=coming[0]))
    text = digest_text("vp1", *TWO, order=(1, 2), known=coming, permits=[60_000, 50_000])
    hear(cloud.view, text)
    assert passes(cloud, buys(50_000), servers=coming)
    assert not passes(cloud, buys(50_001), servers=coming)


@pytest.mark.parametrize(("stale_hosts", "expected"), [("pass", ["vp1"]), ("refuse", [])])
def test_hosts_nothing_is_known_of(stale_hosts: str, expected: list[str]) -> None:
    set_option("stale_hosts", stale_hosts)
    cloud = a_cloud(permits=[MOST, MOST])
    cloud.now_s += 180.1
    assert cloud.passing(buys(1), [a_host("vp1")]) == expected


def test_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        passes(a_cloud(permits=[MOST, MOST]), buys(1))
    assert "LLC permits" in caplog.text
    assert "vp1: rejected, no LLC domain has enough left" in caplog.text


def test_a_flavor_without_keys_of_controllers_books_nothing() -> None:
    assert SettingsReader(nova.conf.CONF).llc_permit(Asked((), 4, 1 << 20)) == 0.0
