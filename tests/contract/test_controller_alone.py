# SPDX-License-Identifier: Apache-2.0
"""The memory controller alone: two caches on one node, a victim that has a cache to itself.

Two streams fill the controller. The victim's memory factor cannot tell; its cycles can. On one node
nobody's memory has anywhere to go, so all that helps is to cap who fills the controller. Real
guests under the software PMU, the real agent, limits from `vp-agent calibrate`.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from nova_vp.core.controllers.vp.declaration import CAP as CAP_AGGRESSOR
from tests.bench.paced_agent import PRODUCT, agent_report, an_agent, calibrate
from tests.bench.paced_guests import Measured, PacedGuest, PacedHost
from tests.libvirt_host import missing_for_libvirt
from tests.waiting import wait_until

WORKS = {"victim": "chase:4096", "stream-1": "stream", "stream-2": "stream"}
STREAMS = ("stream-1", "stream-2")
SPECS = {
    "victim": {"vp:priority": "4"},
    "stream-1": {"vp:cpu_floor": "20"},
    "stream-2": {"vp:cpu_floor": "20"},
}
PMU = {
    "cpumap": "0:0;1:1",
    "nodemap": "0:0;1:0",
    "llc_kib": "1024",
    "mhz": "240",
    "overlap": "24",
}
"""Fast enough for the guests' timer ticks to be few among their instructions, even when hurt."""
LINES_PER_KILOCYCLE = 28
"""One stream is within the calibrated limit, two are not."""
STREAM_CORES = 0.45
"""Of the CPU that both run on, from their flavor."""
STAY = "[controller_initial_placement]\nhome_on_arrival = never"
WINDOW_S = 6.0
KNOW_S, FIND_S, HELP_S = 60.0, 60.0, 150.0
QUOTA_PERIOD_US = 20_000
"""So that a stream is a stream and not a series of bursts."""
CAP = CAP_AGGRESSOR.code


@pytest.fixture
def a_host(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[PacedHost]:
    """Every guest paused, the victim on one cache, the streams on the other."""
    missing = missing_for_libvirt()
    if missing:
        pytest.skip(missing)
    host = PacedHost(tmp_path, "0+1", {**PMU, "bandwidth": str(request.param)}, SPECS, STREAMS)
    try:
        host.start(WORKS)
        host.guests["victim"].place([0])
        for name in STREAMS:
            host.guests[name].place([1])
            limit(host.guests[name], STREAM_CORES)
        yield host
    finally:
        host.stop()


def resume(host: PacedHost, names: Sequence[str]) -> None:
    for name in names:
        host.guests[name].domain.resume()


def see(host: PacedHost, name: str) -> Mapping[str, Any]:
    uuid = host.guests[name].domain.UUIDString()
    return next(vp for vp in agent_report(host)["vps"] if vp["uuid"] == uuid)


def wait_until_known(host: PacedHost) -> None:
    """The victim alone: what it is when nobody hurts it."""
    resume(host, ["victim"])
    wait_until(
        lambda: see(host, "victim")["state"] == 8,
        "the agent to know the victim",
        deadline_s=KNOW_S,
    )
    host.measure(["victim"], WINDOW_S)


def limit(guest: PacedGuest, cores: float) -> None:
    """As a flavor's `quota:cpu_quota`."""
    quota = {"vcpu_period": QUOTA_PERIOD_US, "vcpu_quota": int(cores * QUOTA_PERIOD_US)}
    guest.domain.setSchedulerParameters(quota)


def has_mended(victim: Mapping[str, Any]) -> bool:
    caps = [one for one in victim["actions"] if one["reason"] == CAP]
    return any(one["result"] == "mended" for one in caps)


def caps_on(vp: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        change
        for action in vp["actions"]
        if action["reason"] == CAP
        for change in action["changes"]
        if change["uuid"] == vp["uuid"]
    ]


def rate(host: PacedHost) -> float:
    return host.measure(["victim"], WINDOW_S)["victim"].rate


def memory_factor(measured: Measured) -> float:
    return measured.mpki / measured.l2_mpki


@pytest.mark.parametrize("a_host", [LINES_PER_KILOCYCLE], indirect=True)
def test_a_controller_that_is_full_is_found_and_relieved(a_host: PacedHost) -> None:
    told = calibrate(a_host)
    assert told.returncode == 0, told.stderr
    with an_agent(a_host, PRODUCT, mode="enforce", more=STAY):
        wait_until_known(a_host)
        alone = a_host.measure(["victim"], WINDOW_S)["victim"]
        resume(a_host, STREAMS)
        seen = wait_until(
            lambda: see(a_host, "victim")["interference"],
            "the agent to see the harm",
            deadline_s=FIND_S,
        )
        hurt = a_host.measure(["victim"], WINDOW_S)["victim"]
        assert seen["kind"] == "memory-controller"
        # It falls a little: the timer's own lines, which hit, come as often as before.
        assert 0.8 < memory_factor(hurt) / memory_factor(alone) < 1.05
        assert hurt.cpi > 1.5 * alone.cpi
        wait_until(
            lambda: has_mended(see(a_host, "victim")) and rate(a_host) > 1.25 * hurt.rate,
            "caps to help the victim",
            deadline_s=HELP_S,
        )
        assert not caps_on(see(a_host, "victim"))
        for name in STREAMS:
            caps = caps_on(see(a_host, name))
            assert caps
            assert all(one["until"] for one in caps)


@pytest.mark.parametrize("a_host", [0], indirect=True)
def test_without_a_model_of_the_controller_nothing_is_found(a_host: PacedHost) -> None:
    assert "no memory controller" in calibrate(a_host).stderr
    with an_agent(a_host, PRODUCT, mode="enforce", more=STAY):
        wait_until_known(a_host)
        resume(a_host, STREAMS)
        a_host.measure(WORKS, 2 * WINDOW_S)
        report = agent_report(a_host)
    assert [vp["interference"] for vp in report["vps"]] == [None] * len(WORKS)
    assert [vp["actions"] for vp in report["vps"]] == [[]] * len(WORKS)
