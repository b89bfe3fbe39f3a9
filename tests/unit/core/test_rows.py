# SPDX-License-Identifier: Apache-2.0
"""Single rows of the stages: what the stories of the other files do not come across."""

from dataclasses import replace

import pytest

from nova_vp.core.controllers.rebalance.controller import _is_bearable
from nova_vp.core.escalation.escalate import escalations
from nova_vp.core.model.what_if import Gain
from nova_vp.core.pipeline.rate_limit import rate_limit
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Applied, Held, Knob, LlcShare, MembwShare
from nova_vp.core.types.policy import Controller, Homing, Policy
from nova_vp.core.types.reason import Reason, Rejection, Rung
from nova_vp.core.types.sample import State
from nova_vp.core.types.state import CoreState, VpState
from nova_vp.core.types.topology import Limits, LlcDomain, Topology
from nova_vp.core.types.want import Alternative, PredictedLoss, Setting, Want
from tests.unit.core.build import (
    ALL_KNOBS,
    CHASE,
    CHASE_HURT,
    COMPUTE,
    STREAM,
    Host,
    Rates,
    nodes_of,
    uuid_of,
)

POLICY = Policy(home_on_arrival=Homing.NEVER, rearrange_after_s=1e9)
STORE = Rates(mips=40, l2_mpki=40.0, mpki=14.0, cpi=2.0, cores=0.5)
STORM = Rates(mips=40, l2_mpki=70.0, mpki=60.0, cpi=2.0, cores=0.5)


def a_want(uuid: str, reason: Reason, cpus: set[int]) -> Want:
    setting = Setting(uuid, Knob.PLACEMENT, (frozenset(cpus),))
    return Want("vp", uuid, (setting,), (0,), reason, PredictedLoss(0.0, 0.0))


@pytest.mark.parametrize(
    ("reason", "cpus", "age_s", "why"),
    [
        (Reason.MOVE_AGGRESSOR, {0}, 899, Rejection.REVERSE_MOVE),
        (Reason.MOVE_AGGRESSOR, {0}, 900, None),
        (Reason.MOVE_AGGRESSOR, {1}, 0, None),
        (Reason.INEFFECTIVE, {0}, 0, None),
        (Reason.HOME, {0}, 0, None),
    ],
)
def test_nobody_goes_back_within_the_hold_but_by_undo(reason, cpus, age_s, why):
    vp = VpState("vm", left=((frozenset({0}), 1000.0),))
    state = CoreState(vps={"vm": vp})
    may, refused = rate_limit([a_want("vm", reason, cpus)], state, 1000.0 + age_s, POLICY)
    assert [r.rejection for r in refused] == ([why] if why else [])
    assert len(may) == (why is None)


@pytest.mark.parametrize(
    ("to", "age_s", "why"),
    [
        (((0, 1.0),), 899, Rejection.REVERSE_MOVE),
        (((0, 0.5), (1, 0.5)), 0, Rejection.REVERSE_MOVE),
        (((0, 1.0),), 900, None),
        (((2, 1.0),), 0, None),
    ],
)
def test_no_memory_goes_back_within_the_hold(to, age_s, why):
    state = CoreState(vps={"vm": VpState("vm", left_nodes=((frozenset({0}), 1000.0),))})
    want = replace(
        a_want("vm", Reason.BRING_HOME, set()), settings=(Setting("vm", Knob.MEMORY, to),)
    )
    may, refused = rate_limit([want], state, 1000.0 + age_s, POLICY)
    assert [r.rejection for r in refused] == ([why] if why else [])
    assert len(may) == (why is None)


def test_nobody_is_told_of_a_victim_that_is_well():
    refused = [Alternative("a", 0, Rejection.NO_FREE_CPU, victim_uuid="vm")]
    assert escalations(CoreState(vps={"vm": VpState("vm")}), refused, (), 1e6, 30.0) == ()
    assert escalations(CoreState(), refused, (), 1e6, 30.0) == ()


def crowd(*, victim: Unmanaged | None = None, **storm) -> Host:
    """All on one LLC and one node; the storm breaks out."""
    host = Host(nodes_of(0, cpus=4), POLICY, knobs=frozenset(Knob))
    host.add("victim", CHASE, cpus={0, 1, 2, 3}, node=0, priority=50.0, unmanaged=victim)
    host.add("storm", COMPUTE, cpus={0, 1, 2, 3}, node=0, **storm)
    host.ticks(6)
    host.run("victim", CHASE_HURT)
    host.run("storm", STREAM)
    return host


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


def test_who_has_the_smallest_corner_of_the_cache_already_is_capped():
    smallest = LlcShare(POLICY.partition_llc_ratio)
    host = crowd(cap_floor_ratio=0.2, llc=smallest)
    assert host.until(Reason.CAP).guest_uuid == uuid_of("storm")


def test_a_host_that_limits_bandwidth_alone_limits_no_cache():
    host = crowd(cap_floor_ratio=0.2)
    host.knobs = frozenset(Knob) - {Knob.LLC}
    assert host.until(Reason.CAP).guest_uuid == uuid_of("storm")


def test_a_victim_that_is_not_ours_stays_where_it_is():
    host = crowd(victim=Unmanaged.DEDICATED_CPUS)
    host.knobs = frozenset({Knob.PLACEMENT})
    refused = host.ticks(3)[-1].refused
    assert (uuid_of("victim"), Rejection.UNMANAGED) in {
        (r.guest_uuid, r.rejection) for r in refused
    }


def test_while_the_suspect_is_silent_nobody_is_moved_or_blamed():
    host = crowd()
    host.knobs = frozenset({Knob.PLACEMENT})
    assert host.ticks(3)[-1].refused
    host.run("storm", COMPUTE)
    decision = host.ticks(2)[-1]
    assert [d.suspects for d in decision.detections] == [()]
    assert (decision.refused, decision.actions) == ((), ())


def test_on_a_hot_controller_it_is_bandwidth_that_is_held_back():
    limits = Limits(node_misses_per_s=1e6)
    knobs = frozenset(Knob) - {Knob.LLC}
    host = Host(nodes_of(0, 0), POLICY, knobs=knobs, limits=limits)
    host.add("victim", STORE, cpus={0, 1}, node=0)
    host.add("storm", COMPUTE, cpus={2, 3}, node=0)
    host.ticks(6)
    host.run("victim", replace(STORE, mips=20, cpi=4.0))
    host.run("storm", STORM)
    action = host.until(Reason.PARTITION)
    storm = host.guest("storm")
    assert storm.membw == MembwShare(POLICY.partition_bandwidth_ratio)
    assert storm.llc == LlcShare()
    assert action.rung is Rung.PARTITION


def test_a_phase_that_misses_more_by_itself_is_not_the_controllers_doing():
    host = Host(nodes_of(0, 0), POLICY, limits=Limits(node_misses_per_s=5e5))
    host.add("vm", STORE, cpus={0, 1}, node=0)
    host.ticks(6)
    host.run("vm", Rates(mips=20, l2_mpki=80.0, mpki=60.0, cpi=4.0))
    decisions = host.ticks(20)
    assert all(d.detections == () for d in decisions)
    assert host.view("vm", decisions[-1]).undisturbed.state == State.from_number(8)


def test_an_arrangement_that_brings_nothing_is_undone_and_not_made_again():
    policy = replace(POLICY, rearrange_after_s=5.0, move_hold_s=200.0)
    limits = Limits(node_misses_per_s=2.4e6)
    host = Host(nodes_of(0, 1, 2, 3), policy, knobs=ALL_KNOBS, limits=limits)
    for name in ("a", "b", "c", "d"):
        host.add(name, replace(STORM, mips=20, cpi=4.0, cores=0.4), cpus={0, 1}, node=0)
    before = {name: host.guest(name).placement for name in ("a", "b", "c", "d")}
    first = host.until(Reason.SEPARATE)
    host.until(Reason.INEFFECTIVE)
    assert {name: host.guest(name).placement for name in before} == before
    assert all(host.nodes(name) == {0} for name in before)
    changes = [{(c.guest_uuid, c.to) for c in a.changes} for a in actions(host, 600)]
    assert {(c.guest_uuid, c.to) for c in first.changes} not in changes


def actions(host: Host, seconds: int):
    return [action for decision in host.ticks(seconds) for action in decision.actions]


MERLIN = replace(POLICY, controllers=frozenset({Controller.MERLIN}))
WORKER = Rates(mips=100, l2_mpki=0.5, mpki=0.1, cpi=1.0, cores=2.0)


def test_of_two_local_cpus_merlin_takes_the_one_that_hurts_less():
    host = Host(nodes_of(0, 0), MERLIN, knobs=ALL_KNOBS)
    storm = Rates(mips=20, l2_mpki=70.0, mpki=60.0, cpi=5.0, cores=0.5)
    host.add("worker", storm, cpus={0}, vcpus=2, node=0)
    host.add("store", replace(STORE, mips=20, mpki=30.0, cpi=4.0, cores=0.1), cpus={1}, node=0)
    host.ticks(6)
    host.run("worker", replace(storm, cores=2.0))
    action = host.until(Reason.MORE_CPU)
    assert host.placement("worker") == {0, 2}
    assert Rejection.NOT_BEST in {r.rejection for r in action.rejected}


def test_who_was_sent_elsewhere_has_no_cpu_to_give_back():
    """It has more than at first, but none of those that it had."""
    host = Host(nodes_of(0, 1), MERLIN, knobs=ALL_KNOBS)
    host.add("far", replace(COMPUTE, cores=0.6), cpus={2, 3}, vcpus=2, node=0)
    held = Held(
        Knob.PLACEMENT, (frozenset({2, 3}),), (frozenset({0}),), controller="merlin", action_id="x"
    )
    host.applied[uuid_of("far")] = Applied(uuid_of("far"), 1, (held,))
    host.add("asker", WORKER, cpus={2}, vcpus=2, node=1)
    host.change("asker", allowed_cpus=frozenset({2, 3}))
    assert actions(host, 20) == []


def test_a_hurt_guest_that_is_not_ours_stays_and_the_asker_goes_with_its_memory():
    host = Host(nodes_of(0, 1, cpus=4), MERLIN, knobs=ALL_KNOBS)
    alone = replace(STORE, cores=2.0)
    host.add("worker", replace(alone, cores=0.5), cpus={0}, vcpus=2, node=0, memory_kib=400_000)
    host.add("store", STORE, cpus={1}, node=0, unmanaged=Unmanaged.OPTED_OUT)
    host.ticks(6)

    def run(host: Host) -> None:
        many = host.share_a_cache("worker", "store") and len(host.placement("worker")) > 1
        host.run("worker", replace(alone, l2_mpki=70.0, mpki=30.0) if many else alone)
        host.run("store", replace(STORE, mips=20, mpki=30.0, cpi=4.0) if many else STORE)

    host.rule = run
    host.until(Reason.MORE_CPU)
    action = host.until(Reason.MORE_CPU)
    assert (action.rung, action.guest_uuid) == (Rung.MOVE_WITH_MEMORY, uuid_of("worker"))
    assert Kind.CACHE not in {d.kind for d in host.ticks(20)[-1].detections}


def test_what_cannot_be_measured_afterwards_is_left_as_it_is():
    """Everybody fell idle after the arrangement: nothing says that it was bad."""
    policy = replace(POLICY, rearrange_after_s=5.0)
    limits = Limits(node_misses_per_s=2.4e6)
    host = Host(nodes_of(0, 1, 2, 3), policy, knobs=ALL_KNOBS, limits=limits)
    names = ("a", "b", "c", "d")
    for name in names:
        host.add(name, replace(STORM, mips=20, cpi=4.0, cores=0.4), cpus={0, 1}, node=0)
    host.until(Reason.SEPARATE)
    for name in names:
        host.run(name, Rates(mips=0.1, cores=0.0))
    host.ticks(15)
    assert len(host.state.pending) == 1
    host.ticks(15)
    assert host.state.pending == ()
    assert len({frozenset(host.placement(name)) for name in names}) == 4


def test_links_are_loaded_by_those_alone_who_run():
    host = Host(nodes_of(0, 1), POLICY, knobs=ALL_KNOBS, limits=Limits(link_misses_per_s=1e6))
    host.add("vm", STORE, cpus={0, 1}, node=1)
    host.add("idle", Rates(mips=0.1), cpus={0, 1}, node=1)
    host.ticks(6)
    host.run("vm", replace(STORE, mips=80, cpi=3.0))
    detections = [x for d in host.ticks(15) for x in d.detections]
    assert detections[0].kind is Kind.LINK
    assert detections[0].suspects == ()


def test_a_victim_of_a_controller_that_is_not_ours_is_helped_by_moving_others():
    host = Host(nodes_of(0, 0, 1), POLICY, knobs=ALL_KNOBS, limits=Limits(node_misses_per_s=1.6e6))
    host.add("victim", STORE, cpus={0, 1}, node=0, unmanaged=Unmanaged.HUGEPAGES)
    host.add("storm", COMPUTE, cpus={2, 3}, node=0)
    host.ticks(6)
    host.run("victim", replace(STORE, mips=20, cpi=4.0))
    host.run("storm", STORM)
    moved = {c.guest_uuid for c in host.until(Reason.MOVE_AGGRESSOR).changes}
    assert moved == {uuid_of("storm")}


def test_two_victims_of_one_aggressor_want_the_same_thing_once():
    host = Host(nodes_of(0, 1), POLICY, knobs=ALL_KNOBS)
    for name in ("one", "two"):
        host.add(name, CHASE, cpus={0, 1}, node=0)
    host.add("storm", COMPUTE, cpus={0, 1}, node=0)
    host.ticks(6)
    for name in ("one", "two"):
        host.run(name, CHASE_HURT)
    host.run("storm", STREAM)
    decision = host.ticks(2)[-1]
    assert len(decision.detections) == 2
    assert [a.guest_uuid for a in decision.actions] == [uuid_of("storm")]
    assert [r.rejection for r in decision.refused] == [Rejection.OUTRANKED]


def test_whose_memory_cannot_move_is_rearranged_without_it():
    """Hurt from the first second, in the cache: no state changed, so nobody is detected."""
    host = Host(nodes_of(0, 1), replace(POLICY, rearrange_after_s=5.0), knobs=ALL_KNOBS)
    host.add("stream", STREAM, cpus={0, 1}, node=0, memory_obstacle="locked in memory")
    host.add("mixed", MIXED, cpus={0, 1}, node=0, memory_obstacle="locked in memory")
    host.add("pug", CHASE, cpus={0, 1}, node=0)
    action = host.until(Reason.REARRANGE, seconds=120)
    assert all(c.knob is Knob.PLACEMENT for c in action.changes)
    assert not host.share_a_cache("stream", "mixed")


MIXED = Rates(mips=40, l2_mpki=77.0, mpki=25.0, cpi=6.0, cores=0.3)


def two_at_odds(*, beside: int) -> Host:
    """On one of two LLCs with four CPUs each; on the other somebody in a light phase."""
    policy = replace(POLICY, rearrange_after_s=5.0)
    host = Host(nodes_of(0, 1, cpus=4), policy, knobs=ALL_KNOBS)
    for name, rates in (("stream", STREAM), ("mixed", MIXED)):
        host.add(name, rates, cpus={0, 1, 2, 3}, node=0)
    host.add("light", COMPUTE, cpus={4, 5, 6, 7}, node=1, vcpus=beside)
    return host


@pytest.mark.parametrize(("beside", "moves"), [(3, True), (4, False)])
def test_who_has_cpus_of_its_own_keeps_them_in_a_light_phase(beside, moves):
    host = two_at_odds(beside=beside)
    assert bool(actions(host, 60)) is moves


@pytest.mark.parametrize(("beside", "moves"), [(3, True), (4, False)])
def test_nobody_changes_places_with_who_shares_its_cpus(beside, moves):
    host = two_at_odds(beside=beside)
    host.add("also", COMPUTE, cpus={4, 5, 6, 7}, node=1)
    host.change("light", unmanaged=Unmanaged.OPTED_OUT)
    assert bool(actions(host, 60)) is moves


@pytest.mark.parametrize(("cpus", "moves"), [({4, 5, 6}, True), ({4, 5, 6, 7}, False)])
def test_who_was_given_fewer_cpus_than_vcpus_leaves_the_others_free(cpus, moves):
    host = two_at_odds(beside=4)
    host.change("light", placement=frozenset(cpus))
    assert bool(actions(host, 60)) is moves


@pytest.mark.parametrize(("beside", "moves"), [(3, True), (4, False)])
def test_who_shares_its_cpus_is_not_brought_to_who_does_not(beside, moves):
    policy = replace(POLICY, rearrange_after_s=5.0)
    host = Host(nodes_of(0, 1, 2, cpus=4), policy, knobs=ALL_KNOBS)
    bound = frozenset(range(8))
    for name, rates in (("stream", STREAM), ("mixed", MIXED), ("filler", COMPUTE)):
        host.add(name, rates, cpus={0, 1, 2, 3}, node=0, vcpus=3 if name == "filler" else 1)
        host.change(name, allowed_cpus=bound)
    host.add("light", COMPUTE, cpus={4, 5, 6, 7}, node=1, vcpus=beside, unmanaged=Unmanaged.LEAVING)
    assert bool(actions(host, 60)) is moves


@pytest.mark.parametrize(("beside", "moves"), [(2, True), (3, False)])
def test_who_would_have_more_cpus_elsewhere_counts_with_those(beside, moves):
    """It has six vCPUs on four CPUs, and would have eight to be on."""
    policy = replace(POLICY, rearrange_after_s=5.0)
    narrow, wide = LlcDomain(0, 0, frozenset(range(4))), LlcDomain(1, 1, frozenset(range(4, 12)))
    host = Host(Topology((narrow, wide)), policy, knobs=ALL_KNOBS)
    host.add("stream", STREAM, cpus={0, 1, 2, 3}, node=0)
    host.add("mixed", MIXED, cpus={0, 1, 2, 3}, node=0, vcpus=6)
    host.add("light", COMPUTE, cpus=set(wide.cpus), node=1, vcpus=beside)
    for name in ("stream", "light"):
        host.change(name, unmanaged=Unmanaged.OPTED_OUT)
    assert bool(actions(host, 60)) is moves


def test_where_vcpus_outnumber_the_cpus_of_the_host_what_is_used_counts():
    host = two_at_odds(beside=4)
    host.add("also", COMPUTE, cpus={4, 5, 6, 7}, node=1, vcpus=4)
    assert actions(host, 60)


def test_a_rearrangement_that_brought_nothing_is_made_again_only_after_the_hold():
    policy = replace(POLICY, rearrange_after_s=5.0, reverse_hold_s=300.0)
    host = Host(nodes_of(0, 1), policy, knobs=ALL_KNOBS)
    for name, rates in (("stream", STREAM), ("mixed", MIXED)):
        host.add(name, rates, cpus={0, 1}, node=0, memory_obstacle="locked in memory")
    first = host.until(Reason.REARRANGE)
    undone = host.until(Reason.INEFFECTIVE)
    again = host.until(Reason.REARRANGE, seconds=1000)
    assert set(again.changes) == set(first.changes)
    assert again.decided_s - undone.decided_s >= 300.0
    undone_again = host.until(Reason.INEFFECTIVE)
    assert len({action.id for action in (first, undone, again, undone_again)}) == 4


LONG = (
    (Rates(mips=16, l2_mpki=20, mpki=18, cpi=8, cores=0.2), 1, 1),
    (Rates(mips=40, l2_mpki=20, mpki=5, cpi=2, cores=0.2), 0, 0),
    (Rates(mips=40, l2_mpki=20, mpki=5, cpi=4, cores=0.2), 2, 2),
    (Rates(mips=40, l2_mpki=77, mpki=60, cpi=4, cores=0.2), 2, 2),
    (Rates(mips=5, l2_mpki=40, mpki=0.1, cpi=8, cores=0.2), 1, 2),
    (Rates(mips=16, l2_mpki=77, mpki=14, cpi=2, cores=0.9), 2, 1),
    (Rates(mips=5, l2_mpki=40, mpki=36, cpi=4, cores=0.2), 1, 0),
    (Rates(mips=5, l2_mpki=77, mpki=60, cpi=4, cores=0.5), 1, 0),
)
"""A host (rates, LLC, node of the memory) on which each pass finds one more thing to do."""


def test_a_plan_that_would_go_on_and_on_is_cut_short():
    host = Host(nodes_of(0, 1, 2), replace(POLICY, rearrange_after_s=3.0), knobs=ALL_KNOBS)
    for number, (rates, domain, node) in enumerate(LONG):
        cpus = {2 * domain, 2 * domain + 1}
        host.add(f"v{number}", rates, cpus=cpus, node=node)
    found = actions(host, 9)
    assert len(found) == 1
    assert len(found[0].changes) > 2


def test_a_partition_that_the_host_forgot_is_made_again():
    host = crowd()
    host.until(Reason.PARTITION)
    made = host.guest("storm").llc
    host.run("victim", CHASE)
    host.ticks(3)
    host.change("storm", llc=LlcShare())
    host.until(Reason.REAPPLY, seconds=20)
    assert host.guest("storm").llc == made


@pytest.mark.parametrize(
    ("won", "losses", "bears"),
    [
        ({"payer": -0.05, "other": 0.01}, {"payer": 0.3, "other": 0.0}, True),
        ({"payer": -0.06, "other": 0.11}, {"payer": 0.3, "other": 0.1}, False),
        ({"payer": -0.06, "other": 0.12}, {"payer": 0.1, "other": 0.1}, True),
        ({"payer": -0.06, "other": 0.12}, {"payer": 0.3, "other": 0.1}, False),
        ({"payer": -0.15, "other": 0.5}, {"payer": 0.2, "other": 0.0}, True),
        ({"payer": -0.16, "other": 0.9}, {"payer": 0.2, "other": 0.0}, False),
    ],
    ids=[
        "little",
        "more than half of what another gains",
        "half of it, by who stays better off",
        "half of it, by who ends worse off",
        "three times as much as anybody bears",
        "more than that, whatever it brings",
    ],
)
def test_what_one_may_pay_for_another(won, losses, bears):
    gain = Gain(won, sum(won.values()), 0.0, min(0.0, *won.values()), losses)
    assert _is_bearable(gain, Policy(most_hurt_ratio=0.05)) is bears
