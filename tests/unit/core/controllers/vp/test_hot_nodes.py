# SPDX-License-Identifier: Apache-2.0
"""A memory controller or a link carries too much: memory moves, or all who fill it are capped."""

from dataclasses import replace

import pytest

from nova_vp.core.controllers.vp.declaration import CAP, MOVE_AGGRESSOR
from nova_vp.core.types.action import Action, Result
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.reason import INEFFECTIVE
from nova_vp.core.types.topology import Limits
from tests.unit.core.build import ALL_KNOBS, COMPUTE, Host, Rates, memory_system, nodes_of, uuid_of
from tests.unit.core.controllers.vp.hosts import POLICY, a_node
from tests.unit.core.hosts import LIMIT, SENSITIVE, STORM, break_out, kinds


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


def test_where_all_memory_is_one_node_nobodys_memory_moves_and_caps_help():
    """SMP: several LLCs, one controller."""
    host = a_node(0, 0, cap_floor_ratio=0.5)
    host.guests[uuid_of("victim")] = host.guest("victim")._replace(priority=20.0)
    break_out(host)
    decisions = host.ticks(120)
    actions = [a for d in decisions for a in d.actions]
    assert kinds(decisions) == {Kind.CONTROLLER}
    assert CAP in {a.reason for a in actions}
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
    assert capped_in(host.until(CAP)) == {uuid_of("storm"), uuid_of("second")}
    assert host.ticks(120)[-1].detections == ()
    assert host.cap_ratio("storm") == host.cap_ratio("second") < 1.0


def test_where_a_step_of_all_would_be_unfair_the_others_are_capped():
    host = two_storms(priority=1000.0)
    assert capped_in(host.until(CAP)) == {uuid_of("storm")}
    assert host.cap_ratio("second") == 1.0


def test_caps_that_mend_nothing_acquit_all_who_were_capped():
    host = two_storms()
    host.until(CAP)
    host.rule = None
    assert capped_in(host.until(INEFFECTIVE)) == {uuid_of("storm"), uuid_of("second")}
    decisions = host.ticks(60)
    assert decisions[-1].detections
    capped_for = {a.victim_uuid for d in decisions for a in d.actions if a.reason is CAP}
    assert uuid_of("victim") not in capped_for


def test_while_a_cap_is_on_trial_nobody_else_caps_the_same_guests():
    """The storms slow each other, too."""
    host = two_storms()
    first = host.until(CAP)
    decisions = host.ticks(int(POLICY.effect_window_s))
    assert {d.victim_uuid for one in decisions for d in one.detections} > {first.victim_uuid}
    assert not any(a.reason is CAP for d in decisions for a in d.actions)


def test_a_cap_is_not_judged_before_enough_was_seen_since():
    host = two_storms()
    host.until(CAP)
    host.ticks(int(POLICY.effect_window_s) - 2)
    host.state = replace(host.state, placed_at_s=host.now_s)  # Somebody else was placed.
    decisions = host.ticks(20)
    results = [o.result for o in host.view("victim", decisions[-1]).history]
    assert Result.INEFFECTIVE not in results


def test_a_cap_of_which_too_little_is_ever_seen_goes_back():
    host = two_storms()
    host.until(CAP)
    host.policy = replace(host.policy, settle_samples=1000)
    undo = host.until(INEFFECTIVE)
    assert capped_in(undo) == {uuid_of("storm"), uuid_of("second")}


def test_a_crossed_link_is_found_and_its_user_brought_home():
    """Both keep memory on node 1 and run on node 0: what they cross is the link."""
    limits = Limits(link_misses_per_s=1.4e6)
    host = Host(nodes_of(0, 0, 1), POLICY, knobs=ALL_KNOBS, limits=limits)
    for name, rates, cpus in (("victim", SENSITIVE, {0, 1}), ("storm", COMPUTE, {2, 3})):
        host.add(name, rates, cpus=cpus, node=0)
    host.ticks(6)
    for name in ("victim", "storm"):
        host.change(name, memory_by_node=((1, host.guest(name).memory_kib),))

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


def test_an_action_that_does_not_help_is_undone_with_all_its_changes():
    """vCPUs and memory of both partners go back, and the pair is not tried again."""
    host = a_node(0, 0, 1)
    host.rule = None
    host.run("storm", STORM)
    host.run("victim", replace(SENSITIVE, mips=25, cpi=4.0))
    tried = host.until(MOVE_AGGRESSOR)
    assert {c.knob for c in tried.changes} == {Knob.PLACEMENT, Knob.MEMORY}
    assert (host.placement("storm"), host.nodes("storm")) == ({4, 5}, {1})
    undone = host.until(INEFFECTIVE)
    assert undone.is_undo
    assert (host.placement("storm"), host.nodes("storm")) == ({2, 3}, {0})
    assert host.applied == {}
    later = [a for d in host.ticks(60) for a in d.actions if a.guest_uuid == uuid_of("storm")]
    assert later == []


STORE = Rates(mips=40, l2_mpki=40.0, mpki=14.0, cpi=2.0, cores=0.5)


def test_a_victim_of_a_controller_that_is_not_ours_is_helped_by_moving_others():
    host = Host(nodes_of(0, 0, 1), POLICY, knobs=ALL_KNOBS, limits=Limits(node_misses_per_s=1.6e6))
    host.add("victim", STORE, cpus={0, 1}, node=0, unmanaged=Unmanaged.HUGEPAGES)
    host.add("storm", COMPUTE, cpus={2, 3}, node=0)
    host.ticks(6)
    host.run("victim", replace(STORE, mips=20, cpi=4.0))
    host.run("storm", STORM)
    moved = {c.guest_uuid for c in host.until(MOVE_AGGRESSOR).changes}
    assert moved == {uuid_of("storm")}


def test_off_a_hot_controller_memory_goes_along_whoever_it_is():
    """Its class does not mind where its memory is: its memory has to leave all the same."""
    host = a_node(0, 0, 1)
    reusing = replace(STORM, l2_mpki=300.0)
    host.rule = memory_system({"victim": SENSITIVE, "storm": reusing}, LIMIT)
    action = host.until(MOVE_AGGRESSOR)
    assert Knob.MEMORY in {c.knob for c in action.changes}
    assert host.nodes("victim") != host.nodes("storm")


def test_a_suspect_that_left_is_not_tried():
    """Its victim could not be seen since."""
    host = a_node(0, 0, cap_floor_ratio=0.5)
    break_out(host)
    host.ticks(3)
    host.rule = None
    host.run("victim", replace(SENSITIVE, mips=0.01))
    host.leave("storm")
    decision = host.tick()
    assert [d.suspects[0].guest_uuid for d in decision.detections] == [uuid_of("storm")]
    assert uuid_of("storm") not in {r.guest_uuid for r in decision.refused}
