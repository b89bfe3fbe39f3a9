# SPDX-License-Identifier: Apache-2.0
"""The whole step in closed loop and virtual time: who is hurt, who moves, what is left alone."""

from dataclasses import replace

import pytest

from nova_vp.core.pipeline.confirm import confirm
from nova_vp.core.types.action import Outcome, Result
from nova_vp.core.types.guest import Isolation, Unmanaged
from nova_vp.core.types.knob import Applied
from nova_vp.core.types.policy import Homing, Mode, Policy
from nova_vp.core.types.reason import Reason, Rejection
from nova_vp.core.types.sample import Incomplete, State
from nova_vp.core.types.topology import LlcDomain, Topology
from tests.unit.core.build import (
    CHASE,
    CHASE_HURT,
    COMPUTE,
    STREAM,
    Host,
    Rates,
    two_sockets,
    uuid_of,
)

NO_HOMING = Policy(home_on_arrival=Homing.NEVER)


def a_quiet_pair(**kwargs) -> Host:
    """A chase victim and a harmless neighbour in one LLC domain; an idle second domain."""
    host = Host(**{"policy": NO_HOMING, **kwargs})
    host.add("neighbour", COMPUTE, cpus={0})
    host.add("victim", CHASE, cpus={0})
    host.ticks(6)
    return host


def onset(host: Host) -> None:
    host.run("neighbour", STREAM)
    host.run("victim", CHASE_HURT)


def test_the_guilty_corunner_is_moved_within_two_samples():
    host = a_quiet_pair()
    onset(host)
    first, second = host.tick(), host.tick()
    assert first.actions == ()
    [action] = second.actions
    assert action.guest_uuid == uuid_of("neighbour")
    assert (action.reason, action.cpus) == (Reason.MOVE_AGGRESSOR, frozenset({1}))
    assert action.victim_uuid == uuid_of("victim")
    assert action.evidence["memory_factor_before"] < 0.25 < action.evidence["memory_factor_now"]


def test_a_sample_that_straddles_the_onset_counts():
    host = a_quiet_pair()
    host.run("neighbour", replace(STREAM, mips=15))
    host.run("victim", Rates(mips=8, l2_mpki=77.0, mpki=35.0, cpi=7.0))
    assert host.tick().actions == ()
    onset(host)
    assert [a.guest_uuid for a in host.tick().actions] == [uuid_of("neighbour")]


def test_a_victim_is_not_written_off_before_the_guilty_ones_counters_come():
    host = a_quiet_pair()
    host.run("victim", CHASE_HURT)
    assert [d.detections for d in host.ticks(5)] == [()] * 5
    host.run("neighbour", STREAM)
    assert host.until(Reason.MOVE_AGGRESSOR).guest_uuid == uuid_of("neighbour")


def test_who_outgrew_the_cache_before_a_neighbour_rose_blames_nobody():
    host = a_quiet_pair()
    host.run("victim", CHASE_HURT)
    host.ticks(10)
    host.run("neighbour", STREAM)
    assert all(d.actions == () and d.detections == () for d in host.ticks(20))


def test_recovery_is_recorded_as_mended():
    host = a_quiet_pair()
    onset(host)
    host.ticks(2)
    host.run("victim", CHASE)
    decision = host.ticks(4)[-1]
    assert decision.detections == ()
    history = host.view("victim", decision).history
    assert [o.result for o in history] == [Result.MENDED]
    assert host.view("neighbour", decision).history == history
    assert host.placement("neighbour") == {1}


def test_a_victim_that_outgrows_the_cache_alone_moves_nobody():
    host = a_quiet_pair()
    host.run("victim", CHASE_HURT)
    decisions = host.ticks(20)
    assert all(d.actions == () and d.detections == () for d in decisions)
    assert host.view("victim", decisions[-1]).undisturbed.state == State.from_number(8)


def test_a_victim_that_grows_beside_a_steady_stream_moves_nobody():
    host = Host(policy=NO_HOMING)
    host.add("neighbour", STREAM, cpus={0})
    host.add("victim", CHASE, cpus={0})
    host.ticks(15)
    host.run("victim", CHASE_HURT)
    assert all(d.actions == () for d in host.ticks(20))


def test_rising_l2_misses_are_the_vps_own_phase():
    host = Host(policy=NO_HOMING)
    host.add("neighbour", COMPUTE, cpus={0})
    host.add("victim", Rates(mips=16, l2_mpki=20.0, mpki=0.1, cpi=2.0), cpus={0})
    host.ticks(6)
    onset(host)
    assert all(d.actions == () and d.detections == () for d in host.ticks(10))


@pytest.mark.parametrize("what", [Rates(mips=0.1), replace(CHASE_HURT, cpi=0.0)])
def test_who_was_not_seen_for_long_is_not_taken_for_hurt(what):
    """Nor is anything done for it: it was left idle, or its counters stand still."""
    host = a_quiet_pair(mode=Mode.OBSERVE)
    onset(host)
    host.ticks(4)
    host.run("victim", what)
    decisions = host.ticks(20)
    window = int(host.policy.effect_window_s)
    assert all(d.detections for d in decisions[:window])
    assert not any(d.detections or d.proposals for d in decisions[window + 1 :])
    host.run("victim", CHASE_HURT)
    assert host.ticks(4)[-1].detections


def test_of_two_corunners_only_the_guilty_one_moves():
    host = Host(policy=NO_HOMING)
    for name in ("innocent", "neighbour"):
        host.add(name, COMPUTE, cpus={0})
    host.add("victim", CHASE, cpus={0})
    host.run("innocent", replace(STREAM, mips=4))
    host.ticks(15)
    onset(host)
    host.ticks(2)
    host.run("victim", CHASE)
    host.ticks(20)
    assert host.placement("neighbour") == {1}
    assert host.placement("innocent") == {0}


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_without_enforce_the_action_is_only_proposed(mode):
    host = a_quiet_pair(mode=mode)
    onset(host)
    decisions = host.ticks(5)
    assert all(d.actions == () for d in decisions)
    ids = {d.proposals[0].id for d in decisions[1:]}
    assert len(ids) == 1, "a proposal keeps its id while it stands"


def test_advise_applies_what_was_approved_and_observe_does_not():
    host = a_quiet_pair(mode=Mode.ADVISE)
    onset(host)
    proposal = host.ticks(3)[-1].proposals[0]
    host.approved = frozenset({proposal.id})
    host.mode = Mode.OBSERVE
    assert host.tick().actions == ()
    host.mode = Mode.ADVISE
    assert [a.id for a in host.tick().actions] == [proposal.id]


def test_what_is_applied_stays_frozen_in_observe():
    host = a_quiet_pair()
    onset(host)
    host.ticks(2)
    host.mode = Mode.OBSERVE
    host.change("neighbour", placement=frozenset({0, 1}))
    (held,) = host.applied[uuid_of("neighbour")].held
    found = replace(held, original=(frozenset({0, 1}),))
    host.applied[uuid_of("neighbour")] = Applied(uuid_of("neighbour"), 1, (found,))
    assert all(d.actions == () for d in host.ticks(15))


def test_a_placement_the_host_forgot_is_applied_again():
    host = a_quiet_pair()
    onset(host)
    host.ticks(2)
    host.run("victim", CHASE)
    host.ticks(15)
    host.change("neighbour", placement=frozenset({0}))
    assert [a.reason for a in host.tick().actions] == [Reason.REAPPLY]
    assert host.placement("neighbour") == {1}


def test_a_foreign_change_is_respected_until_the_next_boot():
    host = Host(topology=two_sockets(2), policy=NO_HOMING)
    host.add("neighbour", COMPUTE, cpus={0, 1})
    host.add("victim", CHASE, cpus={0, 1})
    host.ticks(6)
    onset(host)
    host.ticks(2)
    assert host.placement("neighbour") == {2, 3}
    host.change("neighbour", placement=frozenset({1}))
    decision = host.tick()
    assert decision.foreign == (uuid_of("neighbour"),)
    del host.applied[uuid_of("neighbour")]
    decision = host.ticks(12)[-1]
    assert host.view("neighbour", decision).guest.unmanaged is Unmanaged.FOREIGN_CHANGE
    assert host.placement("neighbour") == {1}
    host.change("neighbour", placement=frozenset({0, 1, 2, 3}), generation="2")
    assert host.view("neighbour", host.tick()).guest.unmanaged is None


def test_a_separation_that_mends_nothing_is_undone_and_not_tried_again():
    host = a_quiet_pair()
    onset(host)
    decisions = host.ticks(40)
    reasons = [a.reason for d in decisions for a in d.actions]
    assert reasons[:2] == [Reason.MOVE_AGGRESSOR, Reason.INEFFECTIVE]
    assert Reason.MOVE_AGGRESSOR not in reasons[2:]
    assert host.placement("neighbour") == {0}


def test_an_unmanaged_aggressor_is_left_and_the_victim_moves():
    host = Host(policy=NO_HOMING)
    host.add("neighbour", COMPUTE, cpus={0}, unmanaged=Unmanaged.DEDICATED_CPUS)
    host.add("victim", CHASE, cpus={0})
    host.ticks(6)
    onset(host)
    [action] = host.ticks(2)[-1].actions
    assert (action.reason, action.guest_uuid) == (Reason.MOVE_VICTIM, uuid_of("victim"))
    assert Rejection.UNMANAGED in {r.rejection for r in action.rejected}


def test_a_victim_that_moved_in_vain_is_not_moved_there_again_within_the_hold():
    host = Host(policy=replace(NO_HOMING, reverse_hold_s=120.0))
    for name, cpu in (("neighbour", 0), ("other", 1)):
        host.add(name, COMPUTE, cpus={cpu}, unmanaged=Unmanaged.DEDICATED_CPUS)
    host.add("victim", CHASE, cpus={0})
    host.ticks(6)
    onset(host)
    host.run("other", replace(STREAM, mips=2))
    decisions = host.ticks(100)
    assert [a.reason for d in decisions for a in d.actions] == [
        Reason.MOVE_VICTIM,
        Reason.INEFFECTIVE,
    ]
    assert Rejection.FAILED_BEFORE in {r.rejection for r in decisions[-1].refused}
    assert host.placement("victim") == {0}
    later = [a.reason for d in host.ticks(60) for a in d.actions]
    assert later[:1] == [Reason.MOVE_VICTIM], "the hold is over"


def test_no_free_cpu_elsewhere_means_no_move_and_the_reason():
    host = a_quiet_pair()
    host.add("filler", replace(COMPUTE, cores=0.95), cpus={1})
    host.ticks(3)
    onset(host)
    decision = host.ticks(3)[-1]
    assert decision.actions == ()
    assert decision.detections
    assert {r.rejection for r in decision.refused} == {Rejection.NO_FREE_CPU}
    assert {r.victim_uuid for r in decision.refused} == {uuid_of("victim")}


def test_no_move_where_it_would_hurt_more():
    host = a_quiet_pair()
    host.add("other", CHASE, cpus={1})
    host.ticks(6)
    onset(host)
    host.run("victim", Rates(mips=14, l2_mpki=77.0, mpki=24.0, cpi=3.9))
    decision = host.ticks(3)[-1]
    assert decision.actions == ()
    assert Rejection.HURTS_MORE in {r.rejection for r in decision.refused}


def test_no_way_back_within_the_hold():
    policy = replace(NO_HOMING, move_hold_s=2.0, effect_window_s=3.0)
    host = Host(policy=policy)
    host.add("neighbour", COMPUTE, cpus={0})
    host.add("victim", CHASE, cpus={0})
    host.add("second", Rates(mips=30, l2_mpki=11.0, mpki=0.1, cpi=3.0), cpus={1})
    host.ticks(6)
    onset(host)
    host.ticks(2)
    host.run("victim", CHASE)
    host.ticks(4)
    host.run("second", Rates(mips=20, l2_mpki=11.0, mpki=10.0, cpi=4.6))
    host.ticks(5)
    assert host.placement("neighbour") == {1}


def test_the_move_budget_holds():
    policy = replace(NO_HOMING, moves_per_minute=1)
    topology = Topology(tuple(LlcDomain(i, i, frozenset({i})) for i in range(4)))
    host = Host(policy=policy, topology=topology)
    for i in range(2):
        host.add(f"neighbour{i}", COMPUTE, cpus={i})
        host.add(f"victim{i}", CHASE, cpus={i})
    host.ticks(6)
    for i in range(2):
        host.run(f"neighbour{i}", STREAM)
        host.run(f"victim{i}", CHASE_HURT)
    decisions = host.ticks(5)
    assert sum(len(d.actions) for d in decisions) == 1
    assert any(r.rejection is Rejection.BUDGET for d in decisions for r in d.refused)


def test_a_failed_action_is_an_outcome_and_is_tried_again_after_the_hold():
    host = a_quiet_pair()
    host.refuse = True
    onset(host)
    host.ticks(2)
    assert [o.result for o in host.outcomes] == [Result.FAILED]
    host.refuse = False
    host.ticks(8)
    assert host.placement("neighbour") == {0}
    host.ticks(4)
    assert host.placement("neighbour") == {1}


def test_after_a_restart_the_known_profile_still_finds_the_guilty_one():
    host = a_quiet_pair()
    host.state = replace(type(host.state)(), profiles=host.state.undisturbed)
    onset(host)
    assert [a.guest_uuid for d in host.ticks(3) for a in d.actions] == [uuid_of("neighbour")]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"vcpus_read": 0}, Incomplete.PARTIAL),
        ({"running_ratio": 0.3}, Incomplete.MULTIPLEXED),
        ({"generation": "2"}, Incomplete.RESET),
    ],
)
def test_poor_numbers_mean_no_action_and_say_why(change, why):
    host = a_quiet_pair()
    onset(host)
    host.counts[uuid_of("victim")] = host.counts[uuid_of("victim")]._replace(**change)
    if why is Incomplete.PARTIAL:
        host.counts[uuid_of("victim")] = host.counts[uuid_of("victim")]._replace(vcpus_read=1)
        host.change("victim", vcpus=2)
    decision = host.tick()
    assert host.view("victim", decision).incomplete is why
    assert decision.actions == ()


def test_a_counter_that_restarts_at_zero_is_never_a_negative_rate():
    host = a_quiet_pair()
    host.counts[uuid_of("victim")] = host.counts[uuid_of("victim")]._replace(
        instructions=0, cycles=0, llc_references=0, llc_misses=0
    )
    view = host.view("victim", host.tick())
    assert (view.sample, view.incomplete) == (None, Incomplete.RESET)
    assert host.view("victim", host.tick()).incomplete is None


def test_idle_and_stopped_guests_are_not_classified():
    host = Host(policy=NO_HOMING)
    host.add("idle", Rates(mips=0.1, l2_mpki=50, mpki=50), cpus={0})
    host.add("stopped", CHASE, cpus={0})
    host.change("stopped", is_running=False)
    decision = host.ticks(4)[-1]
    assert host.view("idle", decision).incomplete is Incomplete.IDLE
    assert host.view("idle", decision).state is None
    assert host.view("stopped", decision).incomplete is Incomplete.STOPPED


def test_a_pause_longer_than_a_sample_may_last_is_no_sample():
    host = a_quiet_pair()
    assert host.view("victim", host.tick(span_s=30.0)).incomplete is Incomplete.LATE


def test_a_full_host_homes_victim_and_neighbour_into_one_domain():
    host = Host()
    host.add("filler", COMPUTE, vcpus=2)
    host.ticks(3)
    host.add("victim", CHASE)
    host.ticks(5)
    host.add("neighbour", COMPUTE)
    host.ticks(5)
    assert host.placement("filler") == {0}
    assert host.placement("victim") == host.placement("neighbour") == {1}


def test_homing_at_the_same_moment_spreads_by_cpu():
    host = Host(topology=two_sockets(4))
    for i in range(4):
        host.add(f"vm{i}", COMPUTE, vcpus=2)
    host.tick()
    placed = [frozenset(host.placement(f"vm{i}")) for i in range(4)]
    assert sorted(map(sorted, placed)) == [[0, 1, 2, 3]] * 2 + [[4, 5, 6, 7]] * 2


def test_a_newcomer_is_homed_away_from_a_stream_where_cpu_allows():
    host = Host(topology=two_sockets(4))
    host.add("stream", STREAM)
    host.ticks(5)
    host.add("newcomer", CHASE)
    host.ticks(2)
    assert not host.placement("stream") & host.placement("newcomer")


@pytest.mark.parametrize(
    ("homing", "mode", "homed"),
    [
        (Homing.NEVER, Mode.ENFORCE, False),
        (Homing.ENFORCE, Mode.ENFORCE, True),
        (Homing.ENFORCE, Mode.OBSERVE, False),
        (Homing.ENFORCE, Mode.ADVISE, False),
        (Homing.ALWAYS, Mode.OBSERVE, True),
        (Homing.ALWAYS, Mode.ADVISE, True),
    ],
)
def test_who_is_homed_when(homing, mode, homed):
    host = Host(policy=Policy(home_on_arrival=homing), mode=mode)
    host.add("vm", COMPUTE)
    host.ticks(2)
    assert (len(host.placement("vm")) == 1) is homed


def test_in_advise_homing_is_proposed_and_applied_on_request():
    host = Host(mode=Mode.ADVISE)
    host.add("vm", COMPUTE)
    [proposal] = host.tick().proposals
    assert proposal.reason is Reason.HOME
    host.approved = frozenset({proposal.id})
    host.tick()
    assert len(host.placement("vm")) == 1


def test_floating_guests_share_every_domain_and_the_refusal_says_so():
    host = Host(policy=NO_HOMING)
    host.add("neighbour", COMPUTE)
    host.add("victim", CHASE)
    host.ticks(6)
    onset(host)
    decision = host.ticks(3)[-1]
    assert decision.detections
    assert decision.actions == ()
    assert {r.rejection for r in decision.refused} == {Rejection.SHARED_EVERYWHERE}


def test_opted_out_guests_are_neither_homed_nor_moved():
    host = Host()
    host.add("vm", COMPUTE, unmanaged=Unmanaged.OPTED_OUT)
    host.ticks(3)
    assert host.placement("vm") == {0, 1}


def test_who_lives_in_one_domain_already_has_a_home():
    host = Host(topology=two_sockets(4))
    host.add("placed", COMPUTE, cpus={0, 1})
    for number in range(6):
        host.add(f"later{number}", COMPUTE)
        host.tick()
    assert host.placement("placed") == {0, 1}


def test_a_guest_bound_to_one_domain_needs_no_home():
    host = Host()
    host.add("bound", COMPUTE)
    host.change("bound", allowed_cpus=frozenset({1}), placement=frozenset({1}))
    assert host.tick().actions == ()


def test_a_guest_without_counters_is_shown_as_unreadable():
    host = a_quiet_pair()
    del host.counts[uuid_of("victim")], host.rates[uuid_of("victim")]
    view = host.view("victim", host.tick())
    assert (view.sample, view.incomplete) == (None, Incomplete.UNREADABLE)


def test_whose_cycles_stand_still_is_not_judged_by():
    host = a_quiet_pair()
    host.run("victim", replace(CHASE, cpi=0.0))
    assert host.view("victim", host.tick()).incomplete is Incomplete.UNREADABLE


def test_a_guest_that_left_while_it_was_placed_is_forgotten():
    host = a_quiet_pair()
    onset(host)
    [action] = host.ticks(2)[-1].actions
    state = replace(host.state, vps={})
    assert confirm(state, [Outcome(action, Result.APPLIED, host.now_s)]).vps == {}


def test_a_strict_resident_that_would_be_hurt_is_told_apart():
    host = Host(policy=NO_HOMING)
    host.add("any", CHASE, cpus={0})
    host.add("strict", CHASE, cpus={1}, isolation=Isolation.STRICT)
    plain, strict = host.ticks(5)[-1].domains
    assert plain.table[9].worst_resident_ratio > 0.05
    assert plain.table[9].worst_strict_ratio == 0
    assert strict.table[9].worst_strict_ratio == strict.table[9].worst_resident_ratio > 0.05


def test_what_moves_leave_behind_stays_bounded():
    host = a_quiet_pair()
    onset(host)
    [action] = host.ticks(2)[-1].actions
    state = host.state
    for second in range(1000):
        state = confirm(state, [Outcome(action, Result.APPLIED, host.now_s + second)])
    assert len(state.moves_at_s) <= 60
    assert len(state.vps[action.guest_uuid].left) <= 8
    assert len(state.vps[action.guest_uuid].history) <= 8


def test_a_reboot_makes_a_guest_an_arrival_again():
    host = Host()
    host.add("vm", COMPUTE)
    host.ticks(2)
    host.change("vm", placement=frozenset({0, 1}), generation="2")
    host.applied.clear()
    host.tick()
    assert len(host.placement("vm")) == 1


def test_a_wide_guest_takes_the_fewest_domains_of_one_node():
    domains = tuple(LlcDomain(i, i // 2, frozenset({2 * i, 2 * i + 1})) for i in range(4))
    host = Host(topology=Topology(domains))
    host.add("wide", COMPUTE, vcpus=4)
    host.tick()
    assert host.placement("wide") in ({0, 1, 2, 3}, {4, 5, 6, 7})


def test_the_host_without_guests_has_empty_domains_in_its_decision():
    decision = Host().tick()
    assert [d.free_cores for d in decision.domains] == [1, 1]
    assert all(h.worst_ratio == 0 for d in decision.domains for h in d.table)


def test_a_streaming_domain_forbids_itself_to_unknown_newcomers():
    host = Host(policy=NO_HOMING)
    host.add("stream", STREAM, cpus={0})
    decision = host.ticks(5)[-1]
    hostile, free = decision.domains
    assert hostile.table[9].newcomer_ratio > 0.05
    assert free.table[9].newcomer_ratio == 0


def test_who_has_never_done_anything_is_no_danger_and_who_was_never_seen_may_be():
    host = Host(policy=NO_HOMING)
    host.add("asleep", replace(CHASE, mips=0.1), cpus={0})
    host.add("unread", CHASE, cpus={1})
    del host.counts[uuid_of("unread")], host.rates[uuid_of("unread")]
    decision = host.ticks(7)[-1]
    assert host.view("asleep", decision).incomplete is Incomplete.IDLE
    asleep, unread = decision.domains
    living_off_cache = 4
    assert asleep.table[living_off_cache].newcomer_ratio < 0.01
    assert unread.table[living_off_cache].newcomer_ratio > 0.05


def test_a_host_whose_cycles_are_not_counted_is_judged_all_the_same():
    host = Host(policy=NO_HOMING)
    host.add("asleep", replace(CHASE, mips=0.1), cpus={0})
    host.add("uncounted", replace(COMPUTE, cpi=0.0), cpus={1})
    assert len(host.ticks(7)[-1].domains) == 2


@pytest.mark.parametrize("mpki", [2, 20])
def test_who_is_well_beside_quiet_neighbours_is_not_taken_for_safe_beside_a_storm(mpki):
    host = Host(topology=two_sockets(cpus=2), policy=NO_HOMING)
    host.add("neighbour", COMPUTE, cpus={0, 1})
    host.add("victim", CHASE, cpus={0, 1})
    host.add("quiet", replace(CHASE, mpki=0.0), cpus={2, 3})
    host.add("drizzle", Rates(mips=2, l2_mpki=mpki, mpki=mpki), cpus={2, 3})
    host.ticks(40)
    onset(host)
    decisions = host.ticks(4)
    assert any(decision.detections for decision in decisions)
    assert not host.share_a_cache("neighbour", "quiet")


def test_domains_are_told_as_homing_leaves_them():
    host = Host()
    host.add("first", COMPUTE)
    taken, free = host.tick().domains
    assert (taken.allocated_vcpus, free.allocated_vcpus) == (1, 0)
    assert free.table[9].worst_ratio == 0


def test_a_guest_that_fills_its_node_has_nowhere_else_to_go():
    one_node = Topology((LlcDomain(0, 0, frozenset({0})), LlcDomain(1, 0, frozenset({1}))))
    host = Host(topology=one_node)
    host.add("wide", COMPUTE, vcpus=2)
    host.add("narrow", COMPUTE)
    assert [a.guest_uuid for a in host.tick().actions] == [uuid_of("narrow")]


def test_a_foreign_guest_that_also_migrates_is_called_migrating():
    host = Host(topology=two_sockets(2))
    host.add("vm", COMPUTE)
    host.tick()
    host.change("vm", placement=frozenset({0}))
    host.tick()
    host.change("vm", unmanaged=Unmanaged.MIGRATING)
    view = host.view("vm", host.tick())
    assert view.guest.unmanaged is Unmanaged.MIGRATING


def test_who_becomes_sensitive_knows_its_corunners_as_they_are():
    """Its profile had no pressures while nobody could hurt it."""
    host = Host(policy=replace(NO_HOMING, sensitive_hits_pki=10.0))
    host.add("stream", STREAM, cpus={0})
    host.add("vm", Rates(mips=16, l2_mpki=9.0, mpki=0.1, cpi=1.5), cpus={0})
    host.ticks(5)
    host.run("vm", Rates(mips=16, l2_mpki=12.0, mpki=0.1, cpi=1.5))
    host.ticks(5)
    profile = host.state.undisturbed[uuid_of("vm")]
    assert profile.sensitivity.cache
    assert profile.pressures[uuid_of("stream")] == pytest.approx(30 * 45 * 1000)
