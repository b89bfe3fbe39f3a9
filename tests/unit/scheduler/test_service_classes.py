# SPDX-License-Identifier: Apache-2.0
"""Best-effort servers go where CPU is left to them, latency-critical ones where they are protected,
inside Nova's own handlers."""

from typing import Any

import pytest
from nova import objects
from nova.scheduler.weights import WeighedHost

from nova_vp import wire
from tests.messages import a_digest, a_domain, digest_text, hear
from tests.unit.scheduler.cloud import UUID, Cloud, a_host, a_request

pytestmark = pytest.mark.nova

BE, LC = "best-effort", "latency-critical"
ENFORCE = {"mode": "enforce"}


def a_cloud(**hosts: dict[str, Any]) -> Cloud:
    """By host: what its digest says besides two calm domains of four CPUs."""
    cloud = Cloud()
    for host, fields in hosts.items():
        fields = {**ENFORCE, **fields}
        hear(cloud.view, digest_text(host, a_domain(0), a_domain(1), **fields))
    return cloud


def service(
    best_effort: float, vcpus: int, latency_critical: float, *starved: str
) -> dict[str, Any]:
    told = {"service": [round(1000 * best_effort), vcpus, round(1000 * latency_critical)]}
    return {**told, "starved": wire.pack_known(starved)} if starved else told


def asks(service_class: str, vcpus: int = 2, isolation: str | None = None, **more: Any) -> Any:
    spec = a_request(isolation, vcpus, fields={"project_id": "shop"}, **more)
    spec.flavor.extra_specs["vp:class"] = service_class
    return spec


def weights(cloud: Cloud, spec: Any, *names: str, **host: Any) -> list[float]:
    hosts = [WeighedHost(a_host(name, **host), 0.0) for name in names]
    return [pytest.approx(one) for one in cloud.weigher.weigh_objects(hosts, spec)]


def fit(cloud: Cloud, spec: Any, host: Any) -> float | None:
    request = cloud.placement.read(spec)
    [ratio] = cloud.placement.fit_ratios(cloud.placement.look([host], request), request)
    return ratio


def test_best_effort_servers_go_where_most_cpu_is_left_for_each() -> None:
    cloud = a_cloud(
        full=service(1.0, 8, 6.0), shared=service(6.0, 6, 6.0), open=service(6.0, 1, 6.0)
    )
    expected = [0.5 + 0.5 * 0.1, 0.5 + 0.5 * 0.75, 1.0]
    assert weights(cloud, asks(BE), "full", "shared", "open") == expected


def test_a_wide_one_is_better_off_where_it_gets_more() -> None:
    cloud = a_cloud(small=service(4.0, 0, 4.0), large=service(8.0, 2, 8.0))
    assert weights(cloud, asks(BE, vcpus=8), "small", "large") == [0.75, 0.5 + 0.5 * 0.8]


def test_latency_critical_servers_go_where_they_are_protected() -> None:
    cloud = a_cloud(
        protected=service(0.0, 4, 8.0),
        advised={**service(8.0, 0, 8.0), "mode": "advise"},
        off={"service": []},
    )
    expected = [1.0, 0.75, 0.75]
    assert weights(cloud, asks(LC), "protected", "advised", "off") == expected


def test_not_where_their_project_has_starved_others() -> None:
    cloud = a_cloud(starved=service(8.0, 0, 8.0, "shop"), others=service(8.0, 0, 8.0, "bank"))
    assert weights(cloud, asks(LC), "starved", "others") == [0.75, 1.0]


def test_nor_where_only_others_of_their_kind_have_the_cpu() -> None:
    cloud = a_cloud(full=service(0.0, 0, 0.5), open=service(0.0, 4, 4.0))
    assert weights(cloud, asks(LC, vcpus=4), "full", "open") == [0.5 + 0.5 * 0.5625, 1.0]


def test_where_no_controller_serves_classes_free_cpu_counts() -> None:
    cloud = Cloud()
    for name, vcpus in (("idle", 0), ("busy", 3)):
        text = digest_text(name, a_domain(0, vcpus=vcpus), **ENFORCE, service=[])
        hear(cloud.view, text)
    assert weights(cloud, asks(BE), "idle", "busy") == [1.0, 0.75]


def test_an_agent_of_an_earlier_release_is_neutral() -> None:
    cloud = a_cloud(old={}, good=service(8.0, 0, 8.0), bad=service(0.0, 0, 8.0))
    assert weights(cloud, asks(BE), "old", "good", "bad") == [0.75, 1.0, 0.5]
    assert weights(cloud, asks(BE), "old", "unknown") == [1.0, 1.0]


def test_servers_without_a_class_are_placed_as_before() -> None:
    cloud = a_cloud(bad=service(0.0, 0, 0.0), off={"service": []})
    assert weights(cloud, a_request(None, 2), "bad", "off") == [1.0, 1.0]


def test_what_is_lost_to_interference_counts_besides() -> None:
    cloud = Cloud()
    hostile = a_domain(0, newcomer=0.4, resident=0.4)
    hear(cloud.view, digest_text("vp1", hostile, **ENFORCE, **service(4.0, 2, 4.0)))
    lost = (1 - 0.4) / (1 - 0.05)
    assert weights(cloud, asks(BE), "vp1") == [lost]
    assert weights(cloud, asks(BE, vcpus=6), "vp1") == [0.75 * lost]


@pytest.mark.parametrize("isolation", ["strict", "soft", None])
@pytest.mark.parametrize("service_class", [BE, LC])
def test_the_filter_refuses_nobody_for_its_class(isolation: str, service_class: str) -> None:
    cloud = a_cloud(bad=service(0.0, 8, 0.0, "shop"), off={"service": []})
    hosts = [a_host("bad"), a_host("off")]
    assert cloud.passing(asks(service_class, isolation=isolation), hosts) == ["bad", "off"]


def test_servers_of_one_multi_create_share() -> None:
    cloud = a_cloud(vp1=service(6.0, 0, 6.0))
    assert fit(cloud, asks(BE), a_host("vp1", more=2)) == 1.0
    assert fit(cloud, asks(BE), a_host("vp1", more=4)) == pytest.approx(0.6)
    assert fit(cloud, asks(LC, vcpus=3), a_host("vp1", more=1)) == 1.0
    assert fit(cloud, asks(LC, vcpus=3), a_host("vp1", more=2)) == 0.5


def test_servers_on_their_way_share_or_take() -> None:
    cloud = a_cloud(vp1=service(6.0, 0, 6.0))
    host = a_host("vp1")
    for number, service_class in ((10, BE), (11, None)):
        specs = {"vp:class": service_class} if service_class else {}
        flavor = objects.Flavor(flavorid="f1", vcpus=2, memory_mb=64, extra_specs=specs)
        host.instances[UUID.format(number)] = objects.Instance(
            uuid=UUID.format(number), vcpus=2, memory_mb=64, flavor=flavor
        )
    host.num_instances = 2
    assert fit(cloud, asks(BE, vcpus=4), host) == pytest.approx((6 - 2) / (2 + 4))
    assert fit(cloud, asks(LC, vcpus=5), host) == pytest.approx(0.5 + 0.5 * (6 - 2) / 5)


def test_the_log_says_what_it_finds(caplog: pytest.LogCaptureFixture) -> None:
    cloud = a_cloud(
        good=service(3.0, 4, 8.0), starved=service(3.0, 4, 1.0, "shop"), off={"service": []}
    )
    hosts = [a_host(name) for name in ("good", "starved", "off")]
    with caplog.at_level("INFO"):
        cloud.ranked(asks(BE), hosts)
        cloud.ranked(asks(LC), hosts)
        cloud.passing(asks(LC, isolation="strict"), hosts)
    for expected in (
        "0.50 CPUs for each best-effort vCPU",
        "latency protected, 100% of its CPU is there",
        "latency not protected (its project starved others), 50% of its CPU is there",
        "latency not protected (nothing does it there), 100% of its CPU is there",
    ):
        assert expected in caplog.text
    assert caplog.text.count("latency protected") == 2


@pytest.mark.parametrize(
    "fields",
    [{"service": [1, 2]}, {"service": [1, 2, 3, 4]}, {"starved": "x", "service": [1, 2, 3]}],
)
def test_what_is_malformed_is_refused(fields: dict[str, Any]) -> None:
    cloud = Cloud()
    with pytest.raises(wire.BadMessage):
        cloud.view.accept(wire.encode(wire.DIGEST_TOPIC, a_digest("vp1", **fields)), "vp1")
    assert cloud.view.get("vp1") is None
