# SPDX-License-Identifier: Apache-2.0
"""Beyond the cache in closed loop: memory controllers, links, remote memory, and who may follow.

The physics are the tests' own (`memory_system`): a node that serves more than it can makes all
who keep memory there wait, and memory on another node is farther away.
"""

import math
from dataclasses import replace

import pytest

from nova_vp.core.model.holds import signature
from nova_vp.core.model.host import build_host
from nova_vp.core.model.what_if import location_of
from nova_vp.core.types.action import Action, Result
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.guest import MemoryMove, Unmanaged
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Homing, Policy
from nova_vp.core.types.reason import Reason, Rejection, Rung
from nova_vp.core.types.sample import State
from nova_vp.core.types.topology import Limits
from tests.unit.core.build import (
    ALL_KNOBS,
    CHASE,
    CHASE_HURT,
    COMPUTE,
    STREAM,
    Host,
    Rates,
    memory_system,
    nodes_of,
    uuid_of,
)

NEVER_S = 1e9
POLICY = Policy(home_on_arrival=Homing.NEVER, rearrange_after_s=NEVER_S)
LIMIT = 3e6
"""Misses per second that a node serves."""
LIMITS = Limits(node_misses_per_s=0.8 * LIMIT)
SENSITIVE = Rates(mips=50, l2_mpki=25.0, mpki=20.0, cpi=2.0, cores=0.5)
"""State 8: it lives off memory."""
STORM = Rates(mips=60, l2_mpki=70.0, mpki=60.0, cpi=2.0, cores=1.0)
"""3.6 million misses per second."""


def a_node(*nodes: int, limits: Limits = LIMITS, policy: Policy = POLICY, **aggressor) -> Host:
    """A sensitive VP and a quiet one, an LLC each, memory on node 0; then the quiet one storms."""
    host = Host(nodes_of(*nodes), policy, knobs=ALL_KNOBS, limits=limits)
    host.add("victim", SENSITIVE, cpus={0, 1}, node=0)
    host.add("storm", COMPUTE, cpus={2, 3}, node=0, **aggressor)
    host.rule = memory_system({"victim": SENSITIVE, "storm": COMPUTE}, LIMIT)
    host.ticks(6)
    return host


def break_out(host: Host, **others: Rates) -> None:
    host.rule = memory_system({"victim": SENSITIVE, "storm": STORM, **others}, LIMIT)


def kinds(decisions) -> set[Kind]:
    return {detection.kind for d in decisions for detection in d.detections}


def test_a_hot_controller_is_found_and_unloaded_although_no_memory_factor_moved():
    host = a_node(0, 0, 1)
    break_out(host)
    decisions = host.ticks(20)
    assert kinds(decisions) == {Kind.CONTROLLER}
    [first] = [a for d in decisions for a in d.actions]
    assert first.victim_uuid == uuid_of("victim")
    assert first.evidence["memory_factor_now"] == pytest.approx(
        first.evidence["memory_factor_before"]
    )
    assert host.nodes("victim") != host.nodes("storm")
    assert host.outcomes[-1].result is Result.APPLIED
    history = host.view("victim", decisions[-1]).history
    assert [o.result for o in history] == [Result.MENDED]
    assert host.ticks(30)[-1].detections == ()


def test_the_suspect_is_who_loads_the_node_most():
    host = a_node(0, 0)
    host.add("murmur", COMPUTE, cpus={2, 3}, node=0)
    break_out(host, murmur=replace(STORM, mips=6.5))
    detection = next(d for d in host.ticks(20) if d.detections).detections[0]
    assert [s.guest_uuid for s in detection.suspects] == [uuid_of("storm")]


def test_without_a_measured_limit_no_controller_is_called_hot():
    host = a_node(0, 0, 1, limits=Limits())
    break_out(host)
    decisions = host.ticks(30)
    assert kinds(decisions) == set()
    assert not any(d.actions for d in decisions)
    assert not any(node.is_hot for node in decisions[-1].nodes)


@pytest.mark.parametrize("limits", [Limits(), Limits(node_misses_per_s=9e9)])
def test_the_thesiss_threshold_needs_no_measured_limit(limits):
    by_mpki = replace(POLICY, hot_node_by_mpki=True, hot_node_mpki=70.0)
    host = a_node(0, 0, 1, limits=limits, policy=by_mpki)
    assert not host.tick().nodes[0].is_hot
    break_out(host)
    assert kinds(host.ticks(20)) == {Kind.CONTROLLER}
    assert host.tick().nodes[0].is_hot


def test_who_is_slow_while_nothing_is_loaded_is_not_hurt():
    host = a_node(0, 0, 1)
    host.rule = None
    host.run("victim", replace(SENSITIVE, mips=25, cpi=4.0))
    assert kinds(host.ticks(20)) == set()


def test_where_all_memory_is_one_node_nobodys_memory_moves_and_caps_help():
    """SMP: several LLCs, one controller."""
    host = a_node(0, 0, cap_floor_ratio=0.5)
    host.guests[uuid_of("victim")] = host.guest("victim")._replace(priority=20.0)
    break_out(host)
    decisions = host.ticks(120)
    actions = [a for d in decisions for a in d.actions]
    assert kinds(decisions) == {Kind.CONTROLLER}
    assert Reason.CAP in {a.reason for a in actions}
    assert all(c.knob is not Knob.MEMORY for a in actions for c in a.changes)
    assert host.cap_ratio("storm") < 1.0
    assert decisions[-1].detections == ()


HALF_A_STORM = replace(STORM, mips=30)


def two_storms(**second) -> Host:
    """Together they fill the controller of a host that has only one."""
    host = a_node(0, 0, cap_floor_ratio=0.5)
    host.guests[uuid_of("victim")] = host.guest("victim")._replace(priority=20.0)
    host.add("second", COMPUTE, cpus={2, 3}, node=0, **{"cap_floor_ratio": 0.5, **second})
    quiet = {"victim": SENSITIVE, "storm": HALF_A_STORM, "second": COMPUTE}
    host.rule = memory_system(quiet, LIMIT)
    host.ticks(10)
    storms = {"storm": HALF_A_STORM, "second": HALF_A_STORM}
    host.rule = memory_system({"victim": SENSITIVE, **storms}, LIMIT)
    return host


def capped_in(action: Action) -> set[str]:
    return {c.guest_uuid for c in action.changes if c.knob is Knob.CPU_CAP}


def test_who_fill_a_controller_together_are_capped_together():
    host = two_storms()
    assert capped_in(host.until(Reason.CAP)) == {uuid_of("storm"), uuid_of("second")}
    assert host.ticks(120)[-1].detections == ()
    assert host.cap_ratio("storm") == host.cap_ratio("second") < 1.0


def test_where_a_step_of_all_would_be_unfair_the_others_are_capped():
    host = two_storms(priority=1000.0)
    assert capped_in(host.until(Reason.CAP)) == {uuid_of("storm")}
    assert host.cap_ratio("second") == 1.0


def test_caps_that_mend_nothing_acquit_all_who_were_capped():
    host = two_storms()
    host.until(Reason.CAP)
    host.rule = None
    assert capped_in(host.until(Reason.INEFFECTIVE)) == {uuid_of("storm"), uuid_of("second")}
    decisions = host.ticks(60)
    assert decisions[-1].detections
    assert not any(a.reason is Reason.CAP for d in decisions for a in d.actions)


def test_while_a_cap_is_on_trial_nobody_else_caps_the_same_guests():
    """The storms slow each other, too."""
    host = two_storms()
    first = host.until(Reason.CAP)
    decisions = host.ticks(int(POLICY.effect_window_s))
    assert {d.victim_uuid for one in decisions for d in one.detections} > {first.victim_uuid}
    assert not any(a.reason is Reason.CAP for d in decisions for a in d.actions)


def test_a_cap_is_not_judged_before_enough_was_seen_since():
    host = two_storms()
    host.until(Reason.CAP)
    host.ticks(int(POLICY.effect_window_s) - 2)
    host.state = replace(host.state, placed_at_s=host.now_s)  # Somebody else was placed.
    decisions = host.ticks(20)
    results = [o.result for o in host.view("victim", decisions[-1]).history]
    assert Result.INEFFECTIVE not in results


def test_a_cap_of_which_too_little_is_ever_seen_goes_back():
    host = two_storms()
    host.until(Reason.CAP)
    host.policy = replace(host.policy, settle_samples=1000)
    undo = host.until(Reason.INEFFECTIVE)
    assert capped_in(undo) == {uuid_of("storm"), uuid_of("second")}


@pytest.mark.parametrize(("share", "still_hurt"), [(0.95, True), (0.85, False)])
def test_who_is_hurt_stays_so_until_the_load_is_well_below_the_limit(share, still_hurt):
    host = a_node(0, 0)
    break_out(host)
    host.ticks(10)
    slow = replace(SENSITIVE, mips=25, cpi=4.0)
    load = share * LIMITS.node_misses_per_s - slow.mips * slow.mpki * 1000
    host.rule = None
    host.run("victim", slow)
    host.run("storm", replace(STORM, mips=load / STORM.mpki / 1000))
    decisions = host.ticks(20)
    assert not decisions[-1].nodes[0].is_hot
    assert bool(decisions[-1].detections) == still_hurt


def test_a_suspect_that_left_while_its_victim_could_not_be_seen_is_none():
    host = a_node(0, 0, cap_floor_ratio=0.5)
    break_out(host)
    host.ticks(3)
    host.rule = None
    host.run("victim", replace(SENSITIVE, mips=0.01))
    host.leave("storm")
    assert [d.suspects[0].guest_uuid for d in host.tick().detections] == [uuid_of("storm")]


def test_a_crossed_link_is_found_and_its_user_brought_home():
    """Both keep memory on node 1 and run on node 0: what they cross is the link."""
    limits = Limits(link_misses_per_s=1.4e6)
    host = Host(nodes_of(0, 0, 1), POLICY, knobs=ALL_KNOBS, limits=limits)
    for name, rates, cpus in (("victim", SENSITIVE, {0, 1}), ("storm", COMPUTE, {2, 3})):
        host.add(name, rates, cpus=cpus, node=1)
    host.ticks(6)

    def crowded(host: Host) -> None:
        crossing = all(host.nodes(n) == {1} for n in ("victim", "storm")) and all(
            not host.domains(n) & {2} for n in ("victim", "storm")
        )
        host.run("storm", STORM)
        host.run("victim", replace(SENSITIVE, mips=25, cpi=4.0) if crossing else SENSITIVE)

    host.rule = crowded
    decisions = host.ticks(20)
    assert next(d for d in decisions if d.detections).detections[0].kind is Kind.LINK
    assert any(a.victim_uuid == uuid_of("victim") for d in decisions for a in d.actions)
    assert host.ticks(20)[-1].detections == ()


def test_who_runs_on_no_cpu_that_is_known_is_not_far_from_its_memory():
    """A CPU came online after the topology was read; where its memory lies was not read."""
    host = Host(nodes_of(0, 1), POLICY, limits=LIMITS)
    host.add("stray", SENSITIVE, cpus={9})
    decisions = host.ticks(6)
    assert decisions[-1].vps[0].undisturbed.memory_ratio == 1.0


def far_away(policy: Policy = POLICY, **victim) -> Host:
    """A victim whose memory was at home, until somebody moved it to node 1."""
    host = Host(nodes_of(0, 1), policy, knobs=ALL_KNOBS)
    host.add("victim", SENSITIVE, cpus={0, 1}, node=0, **victim)
    host.rule = memory_system({"victim": SENSITIVE})
    host.ticks(6)
    kib = host.guest("victim").memory_kib
    host.change("victim", memory_by_node=((1, kib),))
    return host


def test_remote_memory_brings_the_vcpus_to_it():
    host = far_away()
    action = host.until(Reason.BRING_HOME)
    assert (action.rung, host.placement("victim"), host.nodes("victim")) == (
        Rung.MOVE,
        {2, 3},
        {1},
    )
    assert host.ticks(20)[-1].detections == ()


def test_nobody_goes_to_its_memory_while_that_is_coming_to_it():
    """As after an undo, which nobody judges."""
    host = far_away()
    uuid, kib = uuid_of("victim"), host.guest("victim").memory_kib
    host.copy_kib_per_s = kib / 20
    host.memory_moves = {uuid: MemoryMove(uuid, ((0, 1.0),), moved_kib=0, left_kib=kib)}
    decisions = host.ticks(30)
    assert kinds(decisions) == {Kind.REMOTE}
    assert not any(d.actions for d in decisions)
    assert (host.nodes("victim"), decisions[-1].detections) == ({0}, ())


def test_plans_go_by_where_memory_will_be():
    host = far_away()
    uuid, kib = uuid_of("victim"), host.guest("victim").memory_kib
    host.memory_moves = {uuid: MemoryMove(uuid, ((0, 1.0),), moved_kib=0, left_kib=kib)}
    seen = build_host(host.picture(), host.state.vps, host.state.undisturbed)
    assert (seen.memory_of(uuid), location_of(seen, uuid).memory) == ({1: 1.0}, {0: 1.0})


def test_where_no_cpu_is_free_there_the_memory_comes_to_the_vcpus():
    host = far_away()
    host.add("filler", replace(COMPUTE, cores=2.0), cpus={2, 3}, vcpus=2, node=1)
    host.rule = memory_system({"victim": SENSITIVE, "filler": replace(COMPUTE, cores=2.0)})
    action = host.until(Reason.BRING_HOME)
    assert (action.rung, host.placement("victim"), host.nodes("victim")) == (
        Rung.MOVE_MEMORY,
        {0, 1},
        {0},
    )


def test_memory_that_is_too_dear_to_bring_stays_and_that_is_said():
    host = far_away()
    host.policy = replace(host.policy, memory_move_price_ratio=1e6)
    host.add("filler", replace(COMPUTE, cores=2.0), cpus={2, 3}, vcpus=2, node=1)
    host.rule = memory_system({"victim": SENSITIVE, "filler": replace(COMPUTE, cores=2.0)})
    refused = [r.rejection for r in host.ticks(20)[-1].refused]
    assert refused == [Rejection.GAINS_TOO_LITTLE]


def test_an_unmanaged_guest_with_remote_memory_is_left_and_that_is_said():
    host = far_away(unmanaged=Unmanaged.HUGEPAGES)
    decisions = host.ticks(20)
    assert not any(d.actions for d in decisions)
    assert kinds(decisions) == {Kind.REMOTE}
    assert Rejection.UNMANAGED in {r.rejection for r in decisions[-1].refused}


def test_remote_memory_that_can_go_nowhere_is_said():
    host = far_away(memory_obstacle="locked in memory")
    host.add("filler", replace(COMPUTE, cores=2.0), cpus={2, 3}, vcpus=2, node=1)
    host.rule = memory_system({"victim": SENSITIVE, "filler": replace(COMPUTE, cores=2.0)})
    decisions = host.ticks(40)
    assert kinds(decisions) == {Kind.REMOTE}
    assert not any(d.actions for d in decisions)
    assert [r.rejection for r in decisions[-1].refused] == [Rejection.NO_FREE_CPU]
    assert [e.victim_uuid for e in decisions[-1].escalations] == [uuid_of("victim")]


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
    host.until(Reason.MOVE_VICTIM)
    assert host.placement("victim") == host.placement("sibling") == {2, 3}
    assert host.nodes("sibling") == ({1} if number in (4, 5, 7, 8) else {0})


def a_full_host(**fields) -> Host:
    """One CPU for each LLC, and on neither as much free as anybody uses."""
    host = Host(nodes_of(0, 1, cpus=1), POLICY, knobs=ALL_KNOBS)
    host.add("storm", replace(COMPUTE, cores=0.6), cpus={0}, node=0)
    host.add("victim", CHASE, cpus={0}, node=0)
    host.add("partner", replace(COMPUTE, cores=0.725), cpus={1}, node=1, **fields)
    host.ticks(6)

    def beside(host: Host) -> None:
        host.run("storm", replace(STREAM, cores=0.6))
        together = host.share_a_cache("victim", "storm")
        host.run("victim", CHASE_HURT if together else CHASE)

    host.rule = beside
    return host


def test_where_no_cpu_is_free_a_suspect_changes_places_with_who_minds_it_less():
    host = a_full_host()
    action = host.until(Reason.SWAP)
    assert action.rung is Rung.SWAP
    assert (host.placement("storm"), host.placement("partner")) == ({1}, {0})
    assert {c.guest_uuid for c in action.changes} == {uuid_of("storm"), uuid_of("partner")}
    assert host.ticks(20)[-1].detections == ()


def test_nobody_changes_places_with_a_guest_that_is_not_ours():
    host = a_full_host(unmanaged=Unmanaged.REALTIME)
    assert not any(d.actions for d in host.ticks(20))


def test_an_action_that_does_not_help_is_undone_with_all_its_changes():
    """vCPUs and memory of both partners go back, and the pair is not tried again."""
    host = a_node(0, 0, 1)
    host.rule = None
    host.run("storm", STORM)
    host.run("victim", replace(SENSITIVE, mips=25, cpi=4.0))
    tried = host.until(Reason.MOVE_AGGRESSOR)
    assert {c.knob for c in tried.changes} == {Knob.PLACEMENT, Knob.MEMORY}
    assert (host.placement("storm"), host.nodes("storm")) == ({4, 5}, {1})
    undone = host.until(Reason.INEFFECTIVE)
    assert undone.is_undo
    assert (host.placement("storm"), host.nodes("storm")) == ({2, 3}, {0})
    assert host.applied == {}
    later = [a for d in host.ticks(60) for a in d.actions if a.guest_uuid == uuid_of("storm")]
    assert later == []


def eights(*cpus: set[int], topology) -> Host:
    """State-8 VPs that start on one node, hurt from the first second."""
    policy = replace(POLICY, rearrange_after_s=10.0)
    host = Host(topology, policy, knobs=ALL_KNOBS, limits=LIMITS)
    work = replace(STORM, mips=30, cores=0.5)
    for number, where in enumerate(cpus):
        host.add(f"vp{number}", work, cpus=where, node=0)
    host.rule = memory_system({guest.name: work for guest in host.guests.values()}, LIMIT)
    return host


def test_state_8_vps_of_a_hot_node_are_separated_with_vcpus_and_memory():
    host = eights({0, 1}, {0, 1}, {0, 1}, {0, 1}, topology=nodes_of(0, 1, 2, 3))
    action = host.until(Reason.SEPARATE)
    assert {c.knob for c in action.changes} == {Knob.PLACEMENT, Knob.MEMORY}
    names = ("vp0", "vp1", "vp2", "vp3")
    assert {frozenset(host.placement(n)) for n in names} == {d.cpus for d in host.topology.domains}
    assert [host.nodes(n) for n in names] == [{min(host.placement(n)) // 2} for n in names]
    rest = host.ticks(60)
    assert [a for d in rest for a in d.actions] == []
    assert not any(node.is_hot for node in rest[-1].nodes)


def test_a_plan_that_failed_lately_does_not_stand_in_the_way_of_the_next_best():
    places, topology = [{0, 1}] * 4, nodes_of(0, 1, 2, 3)
    failed = signature(eights(*places, topology=topology).until(Reason.SEPARATE).changes)
    host = eights(*places, topology=topology)
    host.state = replace(host.state, failed_plans={failed: math.inf})
    assert signature(host.until(Reason.SEPARATE).changes) != failed


def test_what_may_not_go_back_yet_does_not_hold_up_the_others():
    host = eights({0, 1}, {0, 1}, {0, 1}, {0, 1}, topology=nodes_of(0, 1, 2, 3))
    host.tick()
    left = ((frozenset({1, 2, 3}), host.now_s),)
    stays = host.state.vps[uuid_of("vp1")]._replace(left_nodes=left)
    host.state = replace(host.state, vps={**host.state.vps, stays.guest_uuid: stays})
    changes = {(c.guest_uuid, c.knob) for c in host.until(Reason.SEPARATE).changes}
    assert (uuid_of("vp0"), Knob.MEMORY) in changes or (uuid_of("vp2"), Knob.MEMORY) in changes
    assert (uuid_of("vp1"), Knob.MEMORY) not in changes


def test_a_state_8_vp_that_leaves_no_hot_node_is_not_separated_but_rearranged():
    """Its memory was far from it from the first second."""
    host = Host(nodes_of(0, 1), replace(POLICY, rearrange_after_s=10.0), knobs=ALL_KNOBS)
    bound = frozenset({0, 1})
    host.add("vp", replace(STORM, cores=0.5), cpus={0, 1}, node=1, allowed_cpus=bound)
    host.until(Reason.REARRANGE)
    assert host.nodes("vp") == {0}


def test_with_one_node_nobody_can_be_separated():
    host = eights({0, 1}, {2, 3}, topology=nodes_of(0, 0))
    assert not any(d.actions for d in host.ticks(60))
