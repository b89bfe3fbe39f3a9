# SPDX-License-Identifier: Apache-2.0
"""Who waits for CPU, because of whom; and who only seems to."""

from dataclasses import replace

import pytest

from nova_vp.core.signals.detect_cpu import Unjudged, why_unjudged
from nova_vp.core.types.cpu_time import CpuTimes, CpuUse
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.knob import Applied, Held, Knob, Quota
from nova_vp.core.types.policy import Mode, Policy
from tests.unit.core.build import CHASE, CHASE_HURT, COMPUTE, STREAM, Host, Rates, uuid_of
from tests.unit.core.crowding import shared_cpus
from tests.unit.core.wishful import NOBODY

BUSY = replace(COMPUTE, cores=1.0)
LIGHT = replace(COMPUTE, cores=0.3)


def a_host(victim: Rates = LIGHT, neighbour: Rates = LIGHT, **fields) -> Host:
    """Two VPs on one CPU that is enough for both."""
    host = Host(policy=NOBODY)
    host.add("victim", victim, cpus={0})
    host.add("neighbour", neighbour, cpus={0}, **fields)
    host.rule = shared_cpus({"victim": victim, "neighbour": neighbour})
    host.ticks(6)
    return host


def busy(host: Host, victim: Rates = BUSY, neighbour: Rates = BUSY) -> None:
    host.rule = shared_cpus({"victim": victim, "neighbour": neighbour})


def found(host: Host, seconds: int = 6):
    """The last decision's detections, by victim."""
    return {d.victim_uuid: d for d in host.ticks(seconds)[-1].detections}


def test_a_vp_that_waits_while_another_runs_on_its_cpus_is_detected():
    host = a_host()
    busy(host)
    one = found(host)[uuid_of("victim")]
    assert one.kind is Kind.CPU
    assert [suspect.guest_uuid for suspect in one.suspects] == [uuid_of("neighbour")]
    assert one.waiting_ratio == pytest.approx(0.4, abs=0.15)
    assert one.measured_loss_ratio == one.waiting_ratio


def test_it_is_detected_within_three_seconds():
    host = a_host()
    busy(host)
    assert uuid_of("victim") in found(host, 3)


def test_a_moment_of_waiting_is_none():
    host = a_host()
    busy(host)
    assert not found(host, 1)


def test_little_waiting_is_none():
    host = a_host()
    busy(host, replace(COMPUTE, cores=0.52), replace(COMPUTE, cores=0.52))
    assert not found(host, 20)


def test_it_ends_when_the_waiting_does():
    host = a_host()
    busy(host)
    assert found(host)
    busy(host, LIGHT, LIGHT)
    assert not found(host, 20)


def test_waiting_for_servers_of_the_own_vp_is_nobodys_interference():
    host = a_host()
    for name in ("victim", "neighbour"):
        host.change(name, group="web")
    busy(host)
    assert not found(host)


def test_who_uses_less_than_a_tenth_is_no_suspect():
    host = a_host()
    tiny = replace(COMPUTE, cores=0.04)
    host.add("tiny", tiny, cpus={0})
    host.ticks(6)
    host.rule = shared_cpus({"victim": BUSY, "neighbour": BUSY, "tiny": tiny})
    suspects = found(host)[uuid_of("victim")].suspects
    assert [one.guest_uuid for one in suspects] == [uuid_of("neighbour")]


def test_the_heaviest_user_is_the_first_suspect():
    host = a_host()
    half = replace(COMPUTE, cores=0.2)
    host.add("a-lighter-one", half, cpus={0})
    host.ticks(6)
    host.rule = shared_cpus({"victim": BUSY, "neighbour": BUSY, "a-lighter-one": half})
    suspects = found(host)[uuid_of("victim")].suspects
    assert [one.guest_uuid for one in suspects] == [uuid_of("neighbour"), uuid_of("a-lighter-one")]


def test_an_idle_vp_is_not_judged():
    host = a_host(victim=replace(COMPUTE, cores=0.04))
    host.rule = starved(host.rule, "victim", ran_s=0.03, delay_s=0.03)
    assert not found(host)
    host.rule = starved(host.rule, "victim", ran_s=0.1, delay_s=0.1)
    assert uuid_of("victim") in found(host)


def starved(rule, name, ran_s, delay_s, throttled_s=0.0):
    """The same, but for the CPU times of one."""

    def run(host):
        was = host.guest(name).cpu_times
        rule(host)
        host.change(
            name,
            cpu_times=CpuTimes(
                was.ran_ns + round(ran_s * 1e9),
                was.run_delay_ns + round(delay_s * 1e9),
                was.throttled_ns + round(throttled_s * 1e9),
                was.generation,
            ),
        )

    return run


@pytest.mark.parametrize("original", [None, Quota()])
def test_throttling_by_novas_quota_or_our_cap_is_no_waiting(original):
    host = a_host()
    quota = Quota(30_000, 100_000)
    host.change("victim", quota=quota)
    if original is not None:
        host.mode = Mode.OBSERVE  # Nobody claims the cap, and nobody is to remove it.
        held = Held(Knob.CPU_CAP, quota, original, "vp", "a1")
        host.applied[uuid_of("victim")] = Applied(uuid_of("victim"), 1, (held,))
    busy(host, BUSY, replace(COMPUTE, cores=0.6))
    assert not found(host)
    use = host.view("victim", host.tick()).cpu_use
    assert use.throttled_cores > 0.3


def test_a_small_difference_beside_much_throttling_says_nothing():
    """As a real kernel counts a 30 % quota on an idle host: 0.06 s of delay are left."""
    host = a_host()
    host.rule = starved(host.rule, "victim", ran_s=0.30, delay_s=0.6967, throttled_s=0.6333)
    assert not found(host)


def test_unknown_cpu_times_are_no_detection():
    host = a_host()
    busy(host)
    rule = host.rule

    def unreadable(host):
        rule(host)
        for name in ("victim", "neighbour"):
            host.change(name, cpu_times=None)

    host.rule = unreadable
    assert not found(host, 10)


def test_poor_counters_are_no_detection():
    host = a_host()
    busy(host)
    count = host.counts[uuid_of("victim")]
    host.counts[uuid_of("victim")] = count._replace(running_ratio=0.1)
    assert uuid_of("victim") not in found(host)
    assert host.view("victim", host.tick()).incomplete is not None


def test_the_cache_comes_first():
    host = Host(policy=NOBODY)
    host.add("victim", CHASE, cpus={0})
    host.add("neighbour", COMPUTE, cpus={0})
    host.rule = shared_cpus({"victim": CHASE, "neighbour": COMPUTE})
    host.ticks(6)
    host.rule = shared_cpus(
        {"victim": replace(CHASE_HURT, cores=1.0), "neighbour": replace(STREAM, cores=1.0)}
    )
    assert found(host)[uuid_of("victim")].kind is Kind.CACHE


def test_what_it_is_undisturbed_stays_while_it_waits():
    host = a_host()
    before = host.state.undisturbed[uuid_of("victim")]
    busy(host)
    host.ticks(3)
    after_onset = host.state.undisturbed[uuid_of("victim")]
    host.ticks(10)
    assert host.state.undisturbed[uuid_of("victim")] == after_onset
    assert after_onset.cpi == before.cpi


@pytest.mark.parametrize(
    ("use", "why"),
    [
        (None, Unjudged.UNKNOWN),
        (CpuUse(0.0, 1, 1.0, 1.0), Unjudged.FEW),
        (CpuUse(0.0, 5, 0.04, 1.0), Unjudged.IDLE),
        (CpuUse(0.0, 5, 0.5, 0.5, 0.3), Unjudged.THROTTLED),
        (CpuUse(0.0, 5, 0.5, 0.5, 0.0, 0.3), Unjudged.THROTTLED),
        (CpuUse(0.0, 5, 0.5, 0.5, 0.1, 0.1), None),
    ],
)
def test_why_waiting_is_not_judged(use, why):
    assert why_unjudged(use, Policy()) is why
