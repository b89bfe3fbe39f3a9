# SPDX-License-Identifier: Apache-2.0
"""From an agent's decision to Nova's choice: what keeps a newcomer away, by whichever resource.

Default settings, a host that was never calibrated."""

import logging
from typing import Any

import pytest

from nova_vp import wire
from nova_vp.core.types.guest import Isolation
from tests.decisions import facts
from tests.unit.core.build import Host, Rates, nodes_of
from tests.unit.core.wishful import NOBODY
from tests.unit.scheduler.cloud import Cloud, a_host, a_request
from vp_agent.publish.digest import digest

pytestmark = pytest.mark.nova

STATE_8 = Rates(mips=300, l2_mpki=35.0, mpki=30.0, cpi=7.0, cores=1.0)
BUSY = Rates(mips=2000, l2_mpki=0.01, cpi=1.0, cores=1.0)


def domains_of(rates: Rates, servers: int) -> list[dict[str, Any]]:
    """What the agent of a host says: one node with one LLC of six CPUs, strict servers there."""
    host = Host(nodes_of(0, cpus=6), NOBODY)
    for number in range(servers):
        host.add(f"there{number}", rates, cpus=set(range(6)), node=0, isolation=Isolation.STRICT)
    message = digest(host.ticks(17)[-1], facts(), wire.MessageVersion(1, 1), host.now_s)
    assert len(wire.compact(message)) <= wire.DIGEST_BYTES
    return list(wire.decode(wire.DIGEST_TOPIC, wire.encode(wire.DIGEST_TOPIC, message))["domains"])


@pytest.mark.parametrize(
    ("rates", "servers", "expects", "resource"),
    [(STATE_8, 3, "streaming", "memory-controller"), (BUSY, 6, "quiet", "cpu")],
)
def test_strict_is_refused_and_the_reason_names_the_resource(
    rates: Rates, servers: int, expects: str, resource: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="vp_scheduler")
    cloud = Cloud(full=domains_of(rates, servers), free=domains_of(rates, 1))
    hosts = [a_host("full"), a_host("free")]
    assert cloud.passing(a_request("strict", expects=expects), hosts) == ["free"]
    assert f"> 5.0%, mostly by {resource}" in caplog.messages[0]


@pytest.mark.parametrize(("rates", "servers"), [(STATE_8, 3), (BUSY, 6)])
def test_soft_goes_elsewhere(rates: Rates, servers: int) -> None:
    cloud = Cloud(full=domains_of(rates, servers), free=domains_of(rates, 1))
    hosts = [a_host("full"), a_host("free")]
    request = a_request("soft", expects="streaming")
    assert cloud.passing(request, hosts) == ["full", "free"]
    assert list(cloud.ranked(request, hosts)) == ["free", "full"]


def test_a_wide_newcomer_waits_for_cpu_where_one_vcpu_would_not() -> None:
    cloud = Cloud(vp1=domains_of(BUSY, 4))
    host = [a_host("vp1")]
    assert cloud.passing(a_request("strict", expects="quiet", vcpus=2), host) == ["vp1"]
    assert cloud.passing(a_request("strict", expects="quiet", vcpus=4), host) == []


def test_a_digest_without_resources_is_judged_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of an agent of the release before."""
    caplog.set_level(logging.INFO, logger="vp_scheduler")
    old = [{k: v for k, v in d.items() if k != "resources"} for d in domains_of(STATE_8, 3)]
    request = a_request("strict", expects="streaming")
    assert Cloud(vp1=old).passing(request, [a_host("vp1")]) == []
    assert "mostly by" not in caplog.messages[0]
