# SPDX-License-Identifier: Apache-2.0
"""A cache is shared: a suspect leaves it, else the victim, or it is said why nobody can."""

from dataclasses import replace

import pytest

from nova_vp.core.controllers.vp.declaration import CAP, MOVE_AGGRESSOR, MOVE_VICTIM
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Mode, Policy
from nova_vp.core.types.reason import INEFFECTIVE, Rejection
from nova_vp.core.types.sample import State
from tests.unit.core.build import (
    ALL_KNOBS,
    CHASE,
    CHASE_HURT,
    COMPUTE,
    STREAM,
    Host,
    Rates,
    nodes_of,
    two_sockets,
    uuid_of,
)
from tests.unit.core.controllers.vp.hosts import POLICY, a_quiet_pair, crowd, with_own
from tests.unit.core.hosts import onset
from tests.unit.core.wishful import Wishful, place


def test_the_guilty_corunner_is_moved_within_two_samples():
    host = a_quiet_pair()
    onset(host)
    first, second = host.tick(), host.tick()
    assert first.actions == ()
    [action] = second.actions
    assert action.guest_uuid == uuid_of("neighbour")
    assert (action.reason, action.cpus) == (MOVE_AGGRESSOR, frozenset({1}))
    assert action.victim_uuid == uuid_of("victim")
    assert action.evidence["memory_factor_before"] < 0.25 < action.evidence["memory_factor_now"]


def test_of_two_corunners_only_the_guilty_one_moves():
    host = Host(policy=POLICY)
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


def test_a_separation_that_mends_nothing_is_undone_and_not_tried_again():
    host = a_quiet_pair()
    onset(host)
    decisions = host.ticks(40)
    reasons = [a.reason for d in decisions for a in d.actions]
    assert reasons[:2] == [MOVE_AGGRESSOR, INEFFECTIVE]
    assert MOVE_AGGRESSOR not in reasons[2:]
    assert host.placement("neighbour") == {0}


def test_an_unmanaged_aggressor_is_left_and_the_victim_moves():
    host = Host(policy=POLICY)
    host.add("neighbour", COMPUTE, cpus={0}, unmanaged=Unmanaged.DEDICATED_CPUS)
    host.add("victim", CHASE, cpus={0})
    host.ticks(6)
    onset(host)
    [action] = host.ticks(2)[-1].actions
    assert (action.reason, action.guest_uuid) == (MOVE_VICTIM, uuid_of("victim"))
    assert Rejection.UNMANAGED in {r.rejection for r in action.rejected}


def test_a_victim_that_moved_in_vain_is_not_moved_there_again_within_the_hold():
    host = Host(policy=POLICY)
    for name, cpu in (("neighbour", 0), ("other", 1)):
        host.add(name, COMPUTE, cpus={cpu}, unmanaged=Unmanaged.DEDICATED_CPUS)
    host.add("victim", CHASE, cpus={0})
    host.ticks(6)
    onset(host)
    host.run("other", replace(STREAM, mips=2))
    decisions = host.ticks(100)
    assert [a.reason for d in decisions for a in d.actions] == [
        MOVE_VICTIM,
        INEFFECTIVE,
    ]
    assert Rejection.FAILED_BEFORE in {r.rejection for r in decisions[-1].refused}
    assert host.placement("victim") == {0}
    later = [a.reason for d in host.ticks(840) for a in d.actions]
    assert later[:1] == [MOVE_VICTIM], "the hold is over"


def test_after_a_move_in_vain_the_next_best_place_is_tried():
    host = Host(nodes_of(0, 0, 0), POLICY)
    for name, cpus in (("neighbour", {0, 1}), ("one", {2, 3}), ("two", {4, 5})):
        host.add(name, COMPUTE, cpus=cpus, unmanaged=Unmanaged.DEDICATED_CPUS)
    host.add("victim", CHASE, cpus={0, 1})
    host.ticks(6)
    onset(host)
    host.run("one", replace(STREAM, mips=2))
    host.run("two", replace(STREAM, mips=3))
    actions = [a for d in host.ticks(100) for a in d.actions if a.reason is MOVE_VICTIM]
    assert [sorted(action.cpus) for action in actions] == [[2, 3], [4, 5]]


def test_after_a_rejected_move_the_next_best_place_is_proposed():
    host = Host(nodes_of(0, 0, 0), POLICY, mode=Mode.ADVISE)
    for name, cpus in (("neighbour", {0, 1}), ("one", {2, 3}), ("two", {4, 5})):
        host.add(name, COMPUTE, cpus=cpus, unmanaged=Unmanaged.DEDICATED_CPUS)
    host.add("victim", CHASE, cpus={0, 1})
    host.ticks(6)
    onset(host)
    host.run("one", replace(STREAM, mips=2))
    host.run("two", replace(STREAM, mips=3))
    [first] = host.ticks(3)[-1].proposals
    host.rejected = {first.id: "rejected by me"}
    host.tick()
    host.rejected = {}
    [second] = host.tick().proposals
    assert [sorted(one.cpus) for one in (first, second)] == [[2, 3], [4, 5]]
    assert Rejection.REJECTED in {one.rejection for one in second.rejected}


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


def test_floating_guests_share_every_domain_and_the_refusal_says_so():
    host = Host(policy=POLICY)
    host.add("neighbour", COMPUTE)
    host.add("victim", CHASE)
    host.ticks(6)
    onset(host)
    decision = host.ticks(3)[-1]
    assert decision.detections
    assert decision.actions == ()
    assert {r.rejection for r in decision.refused} == {Rejection.SHARED_EVERYWHERE}


@pytest.mark.parametrize("mpki", [2, 20])
def test_who_is_well_beside_quiet_neighbours_is_not_taken_for_safe_beside_a_storm(mpki):
    host = Host(topology=two_sockets(cpus=2), policy=POLICY)
    host.add("neighbour", COMPUTE, cpus={0, 1})
    host.add("victim", CHASE, cpus={0, 1})
    host.add("quiet", replace(CHASE, mpki=0.0), cpus={2, 3})
    host.add("drizzle", Rates(mips=2, l2_mpki=mpki, mpki=mpki), cpus={2, 3})
    host.ticks(40)
    onset(host)
    decisions = host.ticks(4)
    assert any(decision.detections for decision in decisions)
    assert not host.share_a_cache("neighbour", "quiet")


@pytest.mark.parametrize(("interval_s", "victims"), [(0.5, 4), (1.0, 4), (2.0, 4), (5.0, 5)])
def test_of_many_victims_each_has_its_turn(interval_s, victims):
    """Nobody has anywhere to go, so that each look is a refusal."""
    host = Host(nodes_of(*[0] * victims), POLICY)
    for number in range(victims):
        cpus = {2 * number, 2 * number + 1}
        host.add(f"victim {number}", CHASE, cpus=cpus, unmanaged=Unmanaged.OPTED_OUT)
        host.add(f"storm {number}", COMPUTE, cpus=cpus, unmanaged=Unmanaged.OPTED_OUT)
    for _ in range(6):
        host.tick(interval_s)
    for number in range(victims):
        host.run(f"victim {number}", CHASE_HURT)
        host.run(f"storm {number}", STREAM)
    decisions = [host.tick(interval_s) for _ in range(16)]
    assert len(decisions[-1].detections) == victims
    assert len({one.victim_uuid for d in decisions for one in d.refused}) == victims


def test_a_victim_that_is_not_ours_stays_where_it_is():
    host = crowd(victim=Unmanaged.DEDICATED_CPUS)
    host.knobs = frozenset({Knob.PLACEMENT})
    refused = host.ticks(3)[-1].refused
    assert (uuid_of("victim"), Rejection.UNMANAGED) in {
        (r.guest_uuid, r.rejection) for r in refused
    }


def follower(number: int) -> Rates:
    """Work in a state by its number."""
    state = State.from_number(number)
    mpki = (1.0, 8.0, 30.0)[state.intensity]
    return Rates(mips=40, l2_mpki=mpki / (0.12, 0.4, 0.85)[state.factor], mpki=mpki, cores=0.4)


@pytest.mark.parametrize("number", range(9))
def test_memory_follows_the_vcpus_only_in_states_4_5_7_and_8(number):
    """The storm is bound to the shared LLC, so it is the victim that has to leave it."""
    host = Host(nodes_of(0, 1), POLICY, knobs=ALL_KNOBS)
    host.add("neighbour", COMPUTE, cpus={0, 1}, node=0, unmanaged=Unmanaged.DEDICATED_CPUS)
    host.add("victim", CHASE, cpus={0, 1}, node=0, group="vp")
    host.add("sibling", follower(number), cpus={0, 1}, node=0, group="vp")
    host.ticks(6)

    def beside(host: Host) -> None:
        host.run("neighbour", STREAM)
        together = host.share_a_cache("victim", "neighbour")
        host.run("victim", CHASE_HURT if together else CHASE)

    host.rule = beside
    host.until(MOVE_VICTIM)
    assert host.placement("victim") == host.placement("sibling") == {2, 3}
    assert host.nodes("sibling") == ({1} if number in (4, 5, 7, 8) else {0})


def three_caches(policy: Policy = POLICY, **about) -> Host:
    """A victim and two that are quiet so far, in one of three caches."""
    host = Host(nodes_of(0, 1, 2), policy, **about)
    for name, rates in (("victim", CHASE), ("mild", COMPUTE), ("storm", COMPUTE)):
        host.add(name, rates, cpus={0, 1})
    host.ticks(6)
    return host


def both_break_out(host: Host) -> None:
    host.run("mild", replace(STREAM, mips=20))
    host.run("storm", replace(STREAM, mips=30))
    host.run("victim", CHASE_HURT)


def moved(decisions) -> list[str]:
    names = {uuid_of(name): name for name in ("victim", "mild", "storm", "sibling")}
    return [names[a.guest_uuid] for d in decisions for a in d.actions]


def test_the_worst_suspect_is_moved_first():
    host = three_caches()
    both_break_out(host)
    assert moved(host.ticks(2)) == ["storm"]


def test_while_a_move_is_on_trial_no_other_suspect_is_moved():
    host = three_caches()
    both_break_out(host)
    host.ticks(2)
    assert moved(host.ticks(int(host.policy.effect_window_s))) == []
    assert {"mild"} <= set(moved(host.ticks(5))), "it is, once that brought nothing"


def test_of_several_places_the_one_where_least_is_lost():
    host = three_caches()
    host.add("resident", replace(CHASE, l2_mpki=12.0, cores=0.1), cpus={2, 3})
    host.ticks(6)
    host.run("storm", STREAM)
    host.run("victim", CHASE_HURT)
    host.ticks(2)
    assert host.placement("storm") == {4, 5}


def test_who_was_moved_in_vain_is_not_moved_to_a_third_place_either():
    """The other one is guilty all the time, so that the victim stays degraded."""
    host = three_caches()
    host.change("mild", unmanaged=Unmanaged.OPTED_OUT)
    host.change("victim", allowed_cpus=frozenset({0, 1}))
    both_break_out(host)
    assert moved(host.ticks(60)) == ["storm", "storm"], "there and back"


def test_servers_of_one_vp_move_together():
    host = Host(nodes_of(0, 1), POLICY)
    host.add("victim", CHASE, cpus={0, 1})
    for name in ("storm", "sibling"):
        host.add(name, COMPUTE, cpus={0, 1}, group="vp")
    host.ticks(6)
    host.run("storm", STREAM)
    host.run("victim", CHASE_HURT)
    host.ticks(2)
    assert host.placement("storm") == host.placement("sibling") == {2, 3}


def test_a_server_is_moved_only_to_cpus_that_nova_gave_it():
    host = Host(nodes_of(0, 1), POLICY)
    host.add("victim", CHASE, cpus={0, 1})
    host.add("storm", COMPUTE, cpus={0}, allowed_cpus=frozenset({0, 2}))
    host.ticks(6)
    host.run("storm", STREAM)
    host.run("victim", CHASE_HURT)
    host.ticks(2)
    assert host.placement("storm") == {2}


def test_a_light_phase_makes_no_room():
    host = a_quiet_pair()
    host.add("filler", replace(COMPUTE, cores=0.95), cpus={1})
    host.ticks(7)
    host.run("filler", replace(COMPUTE, cores=0.1))
    host.tick()
    onset(host)
    decision = host.ticks(3)[-1]
    assert decision.actions == ()
    assert {r.rejection for r in decision.refused} == {Rejection.NO_FREE_CPU}


FAR_SIGHTED = Rates(mips=60, l2_mpki=100.0, mpki=20.0, cpi=4.0)
"""State 2: its class says that it does not mind where its memory is, the model that it would."""


@pytest.mark.parametrize(("cpi", "goes"), [(4.5, False), (14.0, True)])
def test_nobody_pays_more_than_half_of_what_the_victim_loses(cpi, goes):
    """The suspect would leave its memory behind."""
    host = Host(nodes_of(0, 1), POLICY)
    host.add("victim", CHASE, cpus={0, 1}, node=0, allowed_cpus=frozenset({0, 1}))
    host.add("storm", COMPUTE, cpus={0, 1}, node=0)
    host.ticks(6)
    host.run("storm", FAR_SIGHTED)
    host.run("victim", replace(CHASE_HURT, cpi=cpi))
    decisions = host.ticks(6)
    assert (moved(decisions) == ["storm"]) is goes
    refused = {r.rejection for d in decisions for r in d.refused}
    assert (Rejection.HURTS_OTHERS in refused) is not goes


def test_an_unmanaged_suspect_is_not_touched_at_all():
    host = crowd(cap_floor_ratio=0.2)
    host.change("storm", unmanaged=Unmanaged.HUGEPAGES)
    decisions = host.ticks(20)
    assert not any(d.actions for d in decisions)
    assert (uuid_of("storm"), Rejection.UNMANAGED) in {
        (r.guest_uuid, r.rejection) for r in decisions[-1].refused
    }


def test_past_a_suspect_that_is_not_ours_the_next_one_is_limited():
    host = crowd(cap_floor_ratio=0.2)
    host.add("breeze", COMPUTE, cpus={0, 1, 2, 3}, node=0, cap_floor_ratio=0.2)
    host.run("victim", CHASE)
    host.run("storm", COMPUTE)
    host.ticks(20)
    host.change("storm", unmanaged=Unmanaged.HUGEPAGES)
    host.run("victim", CHASE_HURT)
    host.run("storm", STREAM)
    host.run("breeze", replace(STREAM, mips=20))
    decisions = host.ticks(20)
    assert {a.guest_uuid for d in decisions for a in d.actions} == {uuid_of("breeze")}


def test_nobody_is_moved_back_within_the_hold():
    """Where it came from there is nobody any more, and room."""
    host = a_quiet_pair()
    host.add("second", CHASE, cpus={1})
    host.change("second", allowed_cpus=frozenset({1}), is_running=False)
    onset(host)
    host.ticks(2)
    assert host.placement("neighbour") == {1}
    host.run("victim", CHASE)
    host.run("neighbour", COMPUTE)
    host.ticks(15)
    host.leave("victim")
    host.change("second", is_running=True)
    host.ticks(15)
    host.run("neighbour", STREAM)
    host.run("second", CHASE_HURT)
    decisions = host.ticks(8)
    assert not any(d.actions for d in decisions)
    assert Rejection.REVERSE_MOVE in {r.rejection for d in decisions for r in d.refused}


def test_once_it_is_judged_a_move_keeps_nobody_from_a_better_place():
    other = Wishful("other", 500)
    host = a_quiet_pair(topology=nodes_of(0, 1, 2, cpus=1), policy=with_own(other))
    onset(host)
    host.ticks(2)
    assert host.placement("neighbour") == {1}
    other.wants(place((frozenset({2}),), uuid_of("neighbour")))
    assert {r.rejection for r in host.ticks(3)[-1].refused} == {Rejection.OUTRANKED}
    host.run("victim", CHASE)
    host.ticks(15)
    assert host.placement("neighbour") == {2}


def test_while_two_victims_suspect_the_same_its_cap_is_tried_for_one_of_them():
    host = crowd(cap_floor_ratio=0.2)
    host.knobs = frozenset({Knob.PLACEMENT, Knob.CPU_CAP})
    host.add("second", CHASE, cpus={0, 1, 2, 3}, node=0, priority=50.0)
    host.run("storm", COMPUTE)
    host.run("victim", CHASE)
    host.ticks(15)
    for name in ("victim", "second"):
        host.run(name, CHASE_HURT)
    host.run("storm", replace(STREAM, cores=1.0))
    host.until(CAP)
    assert not any(d.actions for d in host.ticks(int(host.policy.effect_window_s)))


def test_two_victims_of_one_aggressor_claim_the_same_once():
    host = a_quiet_pair()
    host.add("second", CHASE, cpus={0})
    host.ticks(6)
    onset(host)
    host.run("second", CHASE_HURT)
    decision = host.ticks(2)[-1]
    assert len(decision.detections) == 2
    assert [a.guest_uuid for a in decision.actions] == [uuid_of("neighbour")]
    assert [r.rejection for r in decision.refused] == [Rejection.OUTRANKED]
