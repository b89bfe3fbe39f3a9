# SPDX-License-Identifier: Apache-2.0
"""Copying memory without a storm, and telling the cluster when nothing on the node helps."""

from dataclasses import replace

import pytest

from nova_vp.core.types.action import Result
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Controller, Homing, Policy
from nova_vp.core.types.reason import Reason, Rejection, Rung
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
    slowed,
    uuid_of,
)

POLICY = Policy(home_on_arrival=Homing.NEVER, rearrange_after_s=1e9)
SENSITIVE = Rates(mips=50, l2_mpki=25.0, mpki=20.0, cpi=2.0, cores=0.5)
FULL, PHASED = (
    POLICY.memory_pace_kib_per_s,
    (POLICY.memory_pace_kib_per_s * POLICY.phased_pace_ratio),
)


def a_copy(limit_per_s: float | None, **bystander) -> Host:
    """A VP that was moved home is copying its memory from node 1; somebody else lives there."""
    limits = Limits(node_misses_per_s=limit_per_s)
    host = Host(nodes_of(0, 1), POLICY, knobs=ALL_KNOBS, limits=limits, copy_kib_per_s=5_000.0)
    host.add("mover", SENSITIVE, cpus={0, 1}, node=0)
    host.add("bystander", SENSITIVE, cpus={2, 3}, node=1, **bystander)
    host.rule = memory_system({"mover": SENSITIVE, "bystander": SENSITIVE})
    host.ticks(6)
    host.change("mover", memory_by_node=((1, host.guest("mover").memory_kib),))
    host.add("filler", replace(COMPUTE, cores=1.5), cpus={2, 3}, vcpus=2, node=0)
    host.until(Reason.BRING_HOME)
    assert host.memory_moves[uuid_of("mover")].left_kib > 0
    return host


def pace(host: Host) -> float:
    return host.tick().copy_rate_kib_per_s[uuid_of("mover")]


@pytest.mark.parametrize("limit", [None, 1e9])
def test_where_no_controller_is_busy_memory_is_copied_at_full_pace(limit):
    assert pace(a_copy(limit)) == FULL


def test_copying_is_phased_out_where_a_busy_controller_serves_somebody_sensitive():
    assert pace(a_copy(2.5e6)) == PHASED


def test_nobody_sensitive_on_the_busy_controller_lets_it_go_on():
    host = a_copy(2.5e6)
    quiet = replace(SENSITIVE, l2_mpki=200.0)
    host.rule = None
    host.run("bystander", quiet)
    host.ticks(6)
    assert not host.state.undisturbed[uuid_of("bystander")].sensitivity.memory
    assert pace(host) == FULL


@pytest.mark.parametrize(("priority", "expected"), [(0.5, FULL), (1.0, PHASED), (2.0, PHASED)])
def test_priority_decides_whether_the_mover_or_the_others_wait(priority, expected):
    assert pace(a_copy(2.5e6, priority=priority)) == expected


def test_a_copy_comes_to_its_end_and_is_judged_only_then():
    host = a_copy(None)
    while uuid_of("mover") in host.memory_moves:
        decision = host.tick()
        history = host.view("mover", decision).history
        assert Result.INEFFECTIVE not in {o.result for o in history}
        assert [m.guest_uuid for m in decision.memory_moves] in ([], [uuid_of("mover")])
    assert host.nodes("mover") == {0}
    assert [o.result for o in host.view("mover", host.ticks(20)[-1]).history] == [Result.MENDED]
    assert host.tick().copy_rate_kib_per_s == {}


def test_memory_under_way_is_not_sent_elsewhere():
    host = a_copy(None)
    actions = [a for d in host.ticks(5) for a in d.actions if a.guest_uuid == uuid_of("mover")]
    assert actions == []


def trapped(**fields) -> Host:
    """One LLC, one node, no caps: nothing can be done."""
    host = Host(nodes_of(0, cpus=4), POLICY, knobs=ALL_KNOBS)
    host.add("victim", CHASE, cpus={0, 1, 2, 3}, node=0)
    host.add("storm", COMPUTE, cpus={0, 1, 2, 3}, node=0, **fields)
    host.ticks(6)
    host.run("victim", CHASE_HURT)
    host.run("storm", STREAM)
    return host


def test_what_nothing_here_helps_is_told_to_the_cluster_with_its_evidence():
    host = trapped()
    decisions = host.ticks(60)
    onset_s = next(d for d in decisions if d.detections).at_s
    first = next(d for d in decisions if d.escalations)
    assert first.at_s - onset_s == pytest.approx(POLICY.escalate_after_s, abs=1)
    [escalation] = first.escalations
    assert (escalation.victim_uuid, escalation.kind) == (uuid_of("victim"), Kind.CACHE)
    assert escalation.since_s == onset_s
    assert escalation.evidence["measured_loss_ratio"] == pytest.approx(1 - 3.7 / 14)
    assert escalation.evidence["memory_factor_before"] < escalation.evidence["memory_factor_now"]
    rejected = {(r.guest_uuid, r.rejection) for r in escalation.rejected}
    assert (uuid_of("storm"), Rejection.SHARED_EVERYWHERE) in rejected
    assert (uuid_of("victim"), Rejection.SHARED_EVERYWHERE) in rejected
    assert (uuid_of("storm"), Rejection.NEVER_CAPPED) in rejected
    assert {r.rung for r in escalation.rejected} >= {Rung.MOVE, Rung.CAP}


def test_an_escalation_keeps_its_id_while_it_stands_and_ends_with_the_hurt():
    host = trapped()
    host.ticks(40)
    ids = {e.id for d in host.ticks(30) for e in d.escalations}
    assert len(ids) == 1
    host.run("victim", CHASE)
    assert all(d.escalations == () for d in host.ticks(5)[2:])
    host.run("victim", CHASE_HURT)
    again = {e.id for d in host.ticks(60) for e in d.escalations}
    assert not again & ids, "another hurt is another escalation"


def test_while_something_is_tried_nobody_is_told():
    host = trapped(cap_floor_ratio=0.5)
    host.guests[uuid_of("victim")] = host.guest("victim")._replace(priority=50.0)

    def run(host: Host) -> None:
        host.run("victim", slowed(CHASE_HURT, host.cap_ratio("storm")))

    host.rule = run
    host.run("storm", replace(STREAM, cores=1.0))
    for decision in host.ticks(120):
        assert not decision.escalations or host.state.pending == ()
    assert host.cap_ratio("storm") < 1.0


def test_the_host_that_has_partitions_uses_them_before_caps():
    host = trapped(cap_floor_ratio=0.5)
    host.knobs = frozenset(Knob)
    action = host.until(Reason.PARTITION)
    assert action.rung is Rung.PARTITION
    assert host.guest("storm").llc.ratio == POLICY.partition_llc_ratio


def test_two_controllers_never_turn_one_knob_in_one_tick():
    """Merlin would give the storm a CPU more just when it has to go."""
    both = replace(POLICY, controllers=frozenset(Controller))
    host = Host(nodes_of(0, 1, cpus=4), both, knobs=ALL_KNOBS)
    host.add("victim", CHASE, cpus={0, 1, 2, 3}, node=0)
    host.add("storm", COMPUTE, cpus={0, 1}, vcpus=4, node=0)
    host.ticks(6)
    host.run("victim", CHASE_HURT)
    host.run("storm", replace(STREAM, cores=0.5))
    host.tick()
    host.run("storm", replace(STREAM, cores=4.0))
    decision = host.tick()
    [action] = decision.actions
    assert action.reason is Reason.MOVE_AGGRESSOR
    assert Rejection.OUTRANKED in {r.rejection for r in decision.refused}
