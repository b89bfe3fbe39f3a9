# SPDX-License-Identifier: Apache-2.0
"""Who is degraded in its cache, and by whom: no controller is needed to see that."""

from dataclasses import replace

import pytest

from nova_vp.core.types.detection import Kind
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.sample import State
from tests.unit.core.build import CHASE, CHASE_HURT, COMPUTE, STREAM, Host, Rates, nodes_of, uuid_of
from tests.unit.core.hosts import NEIGHBOUR, a_quiet_pair, onset
from tests.unit.core.wishful import NOBODY, Mover, enabled


def suspects(decision) -> list[str]:
    return [suspect.guest_uuid for one in decision.detections for suspect in one.suspects]


def test_a_sample_that_straddles_the_onset_counts():
    host = a_quiet_pair()
    host.run("neighbour", replace(STREAM, mips=15))
    host.run("victim", Rates(mips=8, l2_mpki=77.0, mpki=35.0, cpi=7.0))
    assert host.tick().detections == ()
    onset(host)
    assert suspects(host.tick()) == [NEIGHBOUR]


def test_a_victim_is_not_written_off_before_the_guilty_ones_counters_come():
    host = a_quiet_pair()
    host.run("victim", CHASE_HURT)
    assert [d.detections for d in host.ticks(5)] == [()] * 5
    host.run("neighbour", STREAM)
    assert suspects(host.ticks(2)[-1]) == [NEIGHBOUR]


def test_who_outgrew_the_cache_before_a_neighbour_rose_blames_nobody():
    host = a_quiet_pair()
    host.run("victim", CHASE_HURT)
    host.ticks(10)
    host.run("neighbour", STREAM)
    assert all(d.detections == () for d in host.ticks(20))


def test_a_victim_that_outgrows_the_cache_alone_blames_nobody():
    host = a_quiet_pair()
    host.run("victim", CHASE_HURT)
    decisions = host.ticks(20)
    assert all(d.detections == () for d in decisions)
    assert host.view("victim", decisions[-1]).undisturbed.state == State.from_number(8)


HALF_HURT = Rates(mips=12, l2_mpki=77.0, mpki=20.0, cpi=8.0)
"""Of a sample in which the neighbour ran half of the time: its intensity rises, its factor not."""


def test_part_of_a_degradation_is_not_taken_for_the_vps_own_work():
    host = a_quiet_pair()
    alone = host.view("victim", host.tick()).undisturbed
    onset(host)
    host.tick()
    host.run("victim", HALF_HURT)
    host.run("neighbour", replace(STREAM, mips=STREAM.mips / 2))
    decision = host.ticks(2)[-1]
    assert decision.detections == ()
    assert host.view("victim", decision).undisturbed.cpi == pytest.approx(alone.cpi)
    onset(host)
    assert suspects(host.ticks(2)[-1]) == [NEIGHBOUR]


def test_samples_in_which_a_degradation_ends_do_not_count_as_undisturbed():
    """A neighbour that stalls now and then; otherwise what is told as lost would become less."""
    host = a_quiet_pair()
    alone = host.view("victim", host.tick()).undisturbed
    for _ in range(10):
        onset(host)
        assert suspects(host.ticks(5)[-1]) == [NEIGHBOUR]
        host.run("neighbour", COMPUTE)
        host.run("victim", Rates(mips=15, l2_mpki=77.0, mpki=4.0, cpi=5.0))
        assert host.ticks(4)[-1].detections == ()
    undisturbed = host.view("victim", host.tick()).undisturbed
    assert undisturbed.cpi == pytest.approx(alone.cpi)
    assert undisturbed.memory_factor == pytest.approx(alone.memory_factor)


def test_once_a_degradation_has_ended_new_samples_count_again():
    host = a_quiet_pair()
    onset(host)
    host.ticks(5)
    host.run("neighbour", COMPUTE)
    host.run("victim", replace(CHASE, cpi=4.5))
    host.ticks(60)
    assert host.view("victim", host.tick()).undisturbed.cpi == pytest.approx(4.5, rel=0.01)


def test_a_victim_that_grows_beside_a_steady_stream_blames_nobody():
    host = Host(policy=NOBODY)
    host.add("neighbour", STREAM, cpus={0})
    host.add("victim", CHASE, cpus={0})
    host.ticks(15)
    host.run("victim", CHASE_HURT)
    assert all(d.detections == () for d in host.ticks(20))


def test_rising_l2_misses_are_the_vps_own_phase():
    host = Host(policy=NOBODY)
    host.add("neighbour", COMPUTE, cpus={0})
    host.add("victim", Rates(mips=16, l2_mpki=20.0, mpki=0.1, cpi=2.0), cpus={0})
    host.ticks(6)
    onset(host)
    assert all(d.detections == () for d in host.ticks(10))


@pytest.mark.parametrize("what", [Rates(mips=0.1), replace(CHASE_HURT, cpi=0.0)])
def test_who_was_not_seen_for_long_is_not_taken_for_hurt(what):
    """Nor is anything done for it: it was left idle, or its counters stand still."""
    host = a_quiet_pair(mode=Mode.OBSERVE, policy=enabled(Mover()))
    onset(host)
    host.ticks(4)
    host.run("victim", what)
    decisions = host.ticks(20)
    window = int(host.policy.effect_window_s)
    assert all(d.detections for d in decisions[:window])
    assert not any(d.detections or d.proposals for d in decisions[window + 1 :])
    host.run("victim", CHASE_HURT)
    assert host.ticks(4)[-1].detections


def test_after_a_restart_the_known_profile_still_finds_the_guilty_one():
    host = a_quiet_pair()
    host.state = replace(type(host.state)(), profiles=host.state.undisturbed)
    onset(host)
    assert suspects(host.ticks(3)[-1]) == [NEIGHBOUR]


@pytest.mark.parametrize(("group", "suspects"), [("", ["sibling"]), ("store", [])])
def test_servers_of_one_vp_never_suspect_each_other(group, suspects):
    host = Host(nodes_of(0, 1), NOBODY)
    host.add("victim", CHASE, cpus={0, 1}, group=group)
    host.add("sibling", COMPUTE, cpus={0, 1}, group=group)
    host.ticks(6)
    host.run("victim", CHASE_HURT)
    host.run("sibling", STREAM)
    decisions = host.ticks(3)
    found = {
        s.guest_uuid
        for decision in decisions
        for detection in decision.detections
        if detection.kind is Kind.CACHE
        for s in detection.suspects
    }
    assert found == {uuid_of(name) for name in suspects}


def test_while_the_suspect_is_silent_nobody_is_blamed():
    host = a_quiet_pair()
    onset(host)
    assert suspects(host.ticks(3)[-1])
    host.run("neighbour", COMPUTE)
    decision = host.ticks(2)[-1]
    assert [d.suspects for d in decision.detections] == [()]
