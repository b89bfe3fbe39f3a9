# SPDX-License-Identifier: Apache-2.0
"""Filter and weigher inside Nova's own handlers, with Nova's own objects."""

import logging
from typing import Any

import nova.conf
import pytest
from nova import objects
from nova.scheduler.weights.ram import RAMWeigher

from tests.messages import a_domain, digest_text, hear
from tests.unit.scheduler.cloud import CALM, HOSTILE, UUID, Cloud, a_host, a_request

pytestmark = pytest.mark.nova


@pytest.mark.parametrize(
    ("label", "isolation", "domains", "passes"),
    [
        ("nothing there", "strict", [a_domain()], True),
        ("just good enough", "strict", [a_domain(newcomer=0.05)], True),
        ("it would be hurt", "strict", [a_domain(newcomer=0.051)], False),
        ("a strict resident would be", "strict", [a_domain(resident=0.2, strict=0.2)], False),
        ("only others would be", "strict", [a_domain(resident=0.2)], True),
        ("one good domain is enough", "strict", [a_domain(0, 0.3), a_domain(1)], True),
        ("soft only prefers", "soft", [a_domain(newcomer=0.9)], True),
        ("none asks nothing", "none", [a_domain(newcomer=0.9)], True),
        ("no spec asks nothing", None, [a_domain(newcomer=0.9)], True),
    ],
)
def test_filter(label: str, isolation: str, domains: Any, passes: bool) -> None:
    cloud = Cloud(vp1=domains)
    assert cloud.passing(a_request(isolation), [a_host("vp1")]) == ["vp1"] * passes, label


def test_a_good_domain_that_is_full_does_not_help() -> None:
    # 2 of 2 CPUs taken on the calm domain, none on the other: homing goes by CPU first.
    domains = a_domain(0, cpus=2, vcpus=2), a_domain(1, newcomer=0.3, cpus=2, vcpus=0)
    assert Cloud(vp1=domains).passing(a_request(), [a_host("vp1")]) == []


def test_where_guests_float_the_worst_domain_counts() -> None:
    cloud = Cloud()
    hear(cloud.view, digest_text("vp1", a_domain(0), a_domain(1, newcomer=0.3), homing=False))
    assert cloud.passing(a_request(), [a_host("vp1")]) == []


def test_a_server_wider_than_a_domain_is_judged_by_the_worse_of_those_it_needs() -> None:
    domains = a_domain(0, cpus=2), a_domain(1, newcomer=0.3, cpus=2)
    cloud = Cloud(vp1=domains)
    assert cloud.passing(a_request(vcpus=2), [a_host("vp1")]) == ["vp1"]
    assert cloud.passing(a_request(vcpus=4), [a_host("vp1")]) == []


def test_roles_swapped_swap_the_choice() -> None:
    hosts = [a_host("vp1"), a_host("vp2")]
    assert Cloud(vp1=HOSTILE, vp2=CALM).passing(a_request(), hosts) == ["vp2"]
    assert Cloud(vp1=CALM, vp2=HOSTILE).passing(a_request(), hosts) == ["vp1"]
    assert Cloud(vp1=HOSTILE, vp2=HOSTILE).passing(a_request(), hosts) == []
    assert Cloud(vp1=HOSTILE, vp2=HOSTILE).passing(a_request("soft"), hosts) == ["vp1", "vp2"]


@pytest.mark.parametrize(("stale_hosts", "expected"), [("pass", ["vp1"]), ("refuse", [])])
def test_hosts_nothing_is_known_of(stale_hosts: str, expected: list[str]) -> None:
    cloud = Cloud(vp1=HOSTILE)
    cloud.now_s += 180.1
    nova.conf.CONF.set_override("stale_hosts", stale_hosts, group="vp_scheduler")
    try:
        assert cloud.passing(a_request(), [a_host("vp1")]) == expected
        assert cloud.passing(a_request("soft"), [a_host("vp1")]) == ["vp1"]
    finally:
        nova.conf.CONF.clear_override("stale_hosts", group="vp_scheduler")


def test_a_digest_without_domains_says_nothing() -> None:
    cloud = Cloud()
    hear(cloud.view, digest_text("vp1", a_domain(), domains=[]))
    assert list(cloud.ranked(a_request(), [a_host("vp1"), a_host("vp2")]).values()) == [100, 100]


def test_servers_on_their_way_take_the_good_places_first() -> None:
    # Two calm domains of one CPU: the first strict server that nobody has measured takes one,
    # the second the other; a third would share with one of them.
    domains = a_domain(0, cpus=1), a_domain(1, cpus=1)
    cloud = Cloud(vp1=domains)
    coming = [UUID.format(n) for n in (10, 11)]
    assert cloud.passing(a_request(), [a_host("vp1", servers=coming[:1])]) == ["vp1"]
    assert cloud.passing(a_request(), [a_host("vp1", servers=coming)]) == []


def test_servers_of_the_same_multi_create_are_counted_too() -> None:
    cloud = Cloud(vp1=(a_domain(0, cpus=1), a_domain(1, cpus=1)))
    assert cloud.passing(a_request(), [a_host("vp1", more=1)]) == ["vp1"]
    assert cloud.passing(a_request(), [a_host("vp1", more=2)]) == []


def test_servers_that_the_digest_knows_are_no_newcomers() -> None:
    servers = [UUID.format(n) for n in range(10, 30)]
    cloud = Cloud()
    hear(cloud.view, digest_text("vp1", a_domain(cpus=1), known=servers))
    host = a_host("vp1", servers=servers)
    assert cloud.passing(a_request(), [host]) == ["vp1"]
    del host.instances[servers[0]]
    host.instances[UUID.format(99)] = objects.Instance(uuid=UUID.format(99))
    assert cloud.passing(a_request(), [host]) == []


def test_the_next_digest_makes_newcomers_residents() -> None:
    servers = [UUID.format(10)]
    cloud = Cloud(vp1=[a_domain(cpus=1)])
    assert cloud.passing(a_request(), [a_host("vp1", servers=servers)]) == []
    hear(cloud.view, digest_text("vp1", a_domain(cpus=1, vcpus=1), order=(1, 2), known=servers))
    assert cloud.passing(a_request(), [a_host("vp1", servers=servers)]) == ["vp1"]


@pytest.mark.parametrize("isolation", ["strict", "soft"])
def test_weigher_decides_against_the_ram_weigher(isolation: str) -> None:
    hosts = [a_host("hostile", free_ram_mb=100_000), a_host("calm", free_ram_mb=1)]
    ranked = Cloud(hostile=HOSTILE, calm=CALM).ranked(a_request(isolation), hosts, RAMWeigher())
    # hostile: RAM 1.0 + 100 * (1 - 0.31) / 0.95; calm: RAM 0.00001 + 100 * 1
    assert list(ranked) == ["calm", "hostile"]
    assert ranked == pytest.approx({"hostile": 73.63, "calm": 100.0}, abs=0.01)


def test_among_good_hosts_nova_decides() -> None:
    hosts = [a_host("big", free_ram_mb=4096), a_host("small", free_ram_mb=1024)]
    cloud = Cloud(big=[a_domain(newcomer=0.04)], small=CALM)
    assert list(cloud.ranked(a_request("soft"), hosts, RAMWeigher())) == ["big", "small"]


def test_without_isolation_only_the_harm_to_others_matters() -> None:
    hosts = [a_host("vp1", free_ram_mb=2048), a_host("vp2")]
    cloud = Cloud(vp1=[a_domain(newcomer=0.5)], vp2=[a_domain(resident=0.2)])
    assert list(cloud.ranked(a_request("none"), hosts, RAMWeigher())) == ["vp1", "vp2"]


def test_one_bad_host_does_not_flatten_the_rest() -> None:
    digests = {"worst": [a_domain(newcomer=1.0)], "bad": [a_domain(newcomer=0.2)], "good": CALM}
    ranked = Cloud(**digests).ranked(a_request(), [a_host(name) for name in digests])
    assert ranked == pytest.approx({"good": 100.0, "bad": 84.21, "worst": 0.0}, abs=0.01)


def test_of_unknown_hosts_nothing_good_or_bad_is_supposed() -> None:
    hosts = [a_host("bad"), a_host("unknown"), a_host("good")]
    cloud = Cloud(bad=[a_domain(newcomer=0.24)], good=CALM)
    assert list(cloud.ranked(a_request(), hosts)) == ["good", "unknown", "bad"]


def test_without_any_news_novas_choice_returns() -> None:
    hosts = [a_host("vp1", free_ram_mb=4096), a_host("vp2", free_ram_mb=1024)]
    cloud = Cloud(vp1=HOSTILE, vp2=CALM)
    cloud.now_s += 181
    assert list(cloud.ranked(a_request(), hosts, RAMWeigher())) == ["vp1", "vp2"]


def test_the_multiplier_of_an_aggregate_wins() -> None:
    host = a_host("vp1")
    host.aggregates = [objects.Aggregate(metadata={"interference_weight_multiplier": "2"})]
    ranked = Cloud(vp1=CALM).ranked(a_request(), [host, a_host("vp2")])
    assert ranked["vp1"] == pytest.approx(2.0)


def test_a_faulty_flavor_is_placed_without_isolation_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cloud = Cloud(vp1=HOSTILE)
    for _ in range(3):
        assert cloud.passing(a_request("strcit"), [a_host("vp1")]) == ["vp1"]
    warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "none, soft, strict" in warnings[0].getMessage()


def test_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="vp_scheduler")
    cloud = Cloud(vp1=HOSTILE, vp2=CALM)
    cloud.passing(a_request(), [a_host("vp1"), a_host("vp2"), a_host("vp3")])
    assert caplog.messages == [
        f"VPIsolationFilter: server {UUID.format(1)} (strict; nobody knows what it does): "
        "vp1: rejected, domain 0: predicted degradation 31.0% > 5.0%; "
        "vp2: passed, domain 0: predicted degradation 0.0% <= 5.0%; "
        "vp3: passed, no fresh digest"
    ]


def test_a_rebuild_stays_where_it_is() -> None:
    spec = a_request()
    spec.scheduler_hints = {"_nova_check_type": ["rebuild"]}
    assert Cloud(vp1=HOSTILE).passing(spec, [a_host("vp1")]) == ["vp1"]
