# SPDX-License-Identifier: Apache-2.0
"""Who waits for CPU, because of whom; and who only seems to."""

from dataclasses import replace

import pytest

from nova_vp.core.signals.detect_cpu import Unjudged, why_unjudged
from nova_vp.core.types.cpu_time import CpuTimes, CpuUse
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.knob import Applied, Held, Knob, Quota
from nova_vp.core.types.policy import Mode, Policy
from nova_vp.interference import is_degraded
from tests.unit.core.build import CHASE, CHASE_HURT, COMPUTE, STREAM, Host, Rates, uuid_of
from tests.unit.core.crowding import beside_host_processes, give, shared_cpus
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


def waiting_for_the_host(host, cores=0.5, **about):
    """The victim waits half of its time, while the host's own processes run on its CPU."""
    rule = starved(host.rule, "victim", ran_s=0.5, delay_s=0.5)
    beside_host_processes(host, rule, {0: cores}, **about)


def test_who_waits_for_processes_of_the_host_is_told_so_and_nobody_is_blamed():
    host = a_host(victim=replace(COMPUTE, cores=0.5))
    host.leave("neighbour")
    host.rule = shared_cpus({"victim": replace(COMPUTE, cores=0.5)})
    waiting_for_the_host(host)
    one = found(host)[uuid_of("victim")]
    assert (one.kind, one.suspects) == (Kind.HOST_CPU, ())
    assert one.host_cores == pytest.approx(0.5, abs=0.05)
    assert one.waiting_ratio == one.measured_loss_ratio == pytest.approx(0.5, abs=0.05)
    assert not is_degraded(one.state_now.number, one.kind.value)


def test_a_guest_that_uses_next_to_nothing_beside_the_host_is_no_suspect():
    tiny = replace(COMPUTE, cores=0.02)
    host = a_host(victim=replace(COMPUTE, cores=0.5), neighbour=tiny)
    host.rule = shared_cpus({"victim": replace(COMPUTE, cores=0.5), "neighbour": tiny})
    waiting_for_the_host(host)
    assert found(host)[uuid_of("victim")].kind is Kind.HOST_CPU


def test_a_guest_that_uses_its_cpus_is_the_suspect_whatever_the_host_does():
    host = a_host()
    host.rule = shared_cpus({"victim": BUSY, "neighbour": BUSY})
    beside_host_processes(host, host.rule, {0: 0.3})
    one = found(host)[uuid_of("victim")]
    assert one.kind is Kind.CPU
    assert [suspect.guest_uuid for suspect in one.suspects] == [uuid_of("neighbour")]


def test_what_runs_on_other_cpus_explains_no_waiting():
    host = a_host(victim=replace(COMPUTE, cores=0.5))
    host.leave("neighbour")
    host.rule = shared_cpus({"victim": replace(COMPUTE, cores=0.5)})
    rule = starved(host.rule, "victim", ran_s=0.5, delay_s=0.5)
    beside_host_processes(host, rule, {1: 0.9})
    assert not found(host)


def test_too_little_of_the_host_explains_no_waiting():
    host = a_host(victim=replace(COMPUTE, cores=0.5))
    host.leave("neighbour")
    host.rule = shared_cpus({"victim": replace(COMPUTE, cores=0.5)})
    waiting_for_the_host(host, cores=0.1)
    assert not found(host)


def test_of_other_cpus_than_this_hosts_nothing_is_believed():
    """As where the kernel tells of the CPUs of the machine that this host is modelled on."""
    host = a_host(victim=replace(COMPUTE, cores=0.5))
    host.leave("neighbour")
    host.rule = shared_cpus({"victim": replace(COMPUTE, cores=0.5)})
    waiting_for_the_host(host, others=frozenset({7}))
    assert not found(host)


def test_guests_that_do_not_spread_evenly_are_not_taken_for_the_host():
    """A neighbour may run on both CPUs, and does on the victim's: all that is taken is vCPUs'."""
    host = a_host(victim=replace(COMPUTE, cores=0.5))
    host.change("neighbour", placement=frozenset({0, 1}))
    host.rule = shared_cpus({"victim": replace(COMPUTE, cores=0.5), "neighbour": LIGHT})
    rule = starved(host.rule, "victim", ran_s=0.5, delay_s=0.5)
    beside_host_processes(host, rule, {0: 0.15, 1: -0.15})
    one = found(host)[uuid_of("victim")]
    assert one.kind is Kind.CPU
    assert one.host_cores == pytest.approx(0.0, abs=0.02)


def test_other_threads_of_a_server_are_its_own_and_not_the_hosts():
    """Its I/O threads run where the victim waits, its vCPU hardly does."""
    host = a_host(victim=replace(COMPUTE, cores=0.5))
    alone = shared_cpus({"victim": replace(COMPUTE, cores=0.5)})

    def rule(host: Host) -> None:
        alone(host)
        give(host, "neighbour", ran=0.05, waited=0.0)
        host.run("neighbour", replace(COMPUTE, mips=5.0, cores=0.5))

    beside_host_processes(host, starved(rule, "victim", ran_s=0.5, delay_s=0.5), {})
    one = found(host)[uuid_of("victim")]
    assert one.kind is Kind.CPU
    assert [suspect.guest_uuid for suspect in one.suspects] == [uuid_of("neighbour")]
    assert one.host_cores == pytest.approx(0.0, abs=0.02)


def test_it_ends_when_the_host_leaves_the_cpus():
    host = a_host(victim=replace(COMPUTE, cores=0.5))
    host.leave("neighbour")
    alone = host.rule = shared_cpus({"victim": replace(COMPUTE, cores=0.5)})
    waiting_for_the_host(host)
    assert found(host)
    host.rule = alone
    assert not found(host, 20)


def test_once_the_neighbour_left_what_remains_is_the_hosts():
    host = a_host()
    busy(host)
    beside_host_processes(host, host.rule, {0: 0.4})
    since_s = found(host)[uuid_of("victim")].since_s
    host.leave("neighbour")
    host.rule = shared_cpus({"victim": replace(COMPUTE, cores=0.5)})
    waiting_for_the_host(host)
    one = found(host, 12)[uuid_of("victim")]
    assert (one.kind, one.since_s) == (Kind.HOST_CPU, since_s)


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
