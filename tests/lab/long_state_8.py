# SPDX-License-Identifier: Apache-2.0
"""Where a server that streams may go, while the memory controllers of one host are busy.

`make state-8-test`; takes some minutes and is no part of `make lab-test`. Four State-8 servers, two
at each memory controller of one host, and two other hosts: one computes, one is empty. The busy
host's agent is first not calibrated, then knows the load curve that the software PMU documents.
"""

import time

import pytest

from nova_vp.core.types.topology import Limits, LoadCurve, LoadPoint
from testbed.lab import cloud, settings
from tests.bench.guest_calibration import CAPACITY_LINES_PER_S, true_latency_ns
from tests.lab.hosts import order, set_mode, wait_until_homed
from tests.lab.operators import host_conf, reconfigured, wait_until_told
from tests.lab.stage import HOSTILE, HOSTS, SOURCE, STREAM, three_hosts
from vp_agent.calibration.capacity import KNEE_RATIO
from vp_agent.calibration.record import Calibration
from vp_agent.loop.state import StateFolder

RESIDENTS = 4
NEWCOMERS = ("strict", "soft")


def documented_limits():
    loads = [part * CAPACITY_LINES_PER_S for part in (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)]
    points = tuple(LoadPoint(load, true_latency_ns(load, 0.0)) for load in loads)
    curves = tuple(LoadCurve(node, node, 0.0, points) for node in (0, 1))
    return Limits(node_misses_per_s=KNEE_RATIO * CAPACITY_LINES_PER_S, curves=curves)


@pytest.fixture(scope="module", autouse=True)
def storm(admin):
    """The busy host, and one that computes; the third is empty. Nobody acts."""
    with three_hosts("[vp_scheduler]"):
        for host in HOSTS:
            set_mode(host, "advise")
        for isolation in NEWCOMERS:
            specs = {"vp:isolation": isolation, "vp:expects": "streaming"}
            cloud.put_flavor(admin, f"t.{isolation}", specs=specs)
        names = [f"t-storm-{n}" for n in range(RESIDENTS)]
        residents = [cloud.boot(admin, name, "vp.tiny", STREAM, host=HOSTILE) for name in names]
        homes = [wait_until_homed(HOSTILE, server.id) for server in residents]
        assert sorted(homes) == [0, 0, 1, 1]
        cloud.boot(admin, "t-computes", "vp.tiny", "work=compute", host=SOURCE)
        yield {server.id: 8 for server in residents}
        clear(admin)


def clear(admin):
    cloud.delete(admin, *admin.compute.servers(all_projects=True))


@pytest.fixture(params=["not calibrated", "calibrated"])
def busy_host(admin, storm, request):
    """Known to the scheduler for what it is, with these limits."""
    folder = settings.RUN / HOSTILE / "nova-vp"
    is_calibrated = request.param == "calibrated"
    if is_calibrated:
        StateFolder(folder).set_calibration(Calibration(documented_limits(), time.time(), "vpmu"))
    try:
        with reconfigured(host_conf(HOSTILE), "", f"vp-agent@{HOSTILE}"):
            wait_until_told(admin, HOSTILE, storm)
            cloud.wait_for(
                lambda: knows_curves() is is_calibrated,
                "the agent to know its limits",
                deadline_s=60,
            )
            yield HOSTILE
    finally:
        (folder / "limits.json").unlink(missing_ok=True)


def knows_curves():
    """The agent has limits once it ticks."""
    limits = order(HOSTILE, "status").get("limits")
    return bool(limits["curves"]) if limits else None


def placed(admin, isolation, host=None):
    """Where a newcomer that streams goes, if anywhere, and what was said of each host."""
    name = f"t-newcomer-{isolation}"
    where = None
    try:
        cloud.boot(admin, name, f"t.{isolation}", **({"host": host} if host else {}))
        where = cloud.server_host(admin, admin.compute.find_server(name))
    except cloud.LabError as refusal:
        if "No valid host" not in str(refusal):
            raise
    server = admin.compute.find_server(name)
    cloud.delete(admin, server)
    return where, cloud.placement_reason(server.id)


def test_a_strict_newcomer_is_refused_by_the_busy_host(admin, busy_host):
    where, reason = placed(admin, "strict", busy_host)
    assert where is None, reason
    assert f"{busy_host}: rejected" in reason
    assert "mostly by memory-controller" in reason


def test_a_strict_newcomer_finds_another_host(admin, busy_host):
    where, reason = placed(admin, "strict")
    assert where not in (None, busy_host), reason


def test_a_soft_newcomer_goes_elsewhere(admin, busy_host):
    where, reason = placed(admin, "soft")
    assert where not in (None, busy_host), reason
