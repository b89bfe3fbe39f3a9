# SPDX-License-Identifier: Apache-2.0
"""In which order ways to help are tried, and what is said where none helps."""

from dataclasses import replace

import pytest

from nova_vp.core.controllers.vp.declaration import MOVE_AGGRESSOR, SWAP
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.reason import Rejection, Rung
from tests.unit.core.build import CHASE, CHASE_HURT, COMPUTE, STREAM, Host, Rates, nodes_of, uuid_of
from tests.unit.core.controllers.vp.hosts import POLICY
from tests.unit.core.hosts import trapped


def test_what_nothing_here_helps_is_told_to_the_cluster_with_its_evidence():
    host = trapped(POLICY)
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


def a_way_for_each_rung(partner: Rates = COMPUTE) -> Host:
    """The storm could go elsewhere, change places, be parted or capped."""
    host = Host(nodes_of(0, 1), POLICY, knobs=frozenset(Knob))
    host.add("victim", CHASE, cpus={0, 1}, node=0, priority=50.0)
    host.add("storm", COMPUTE, cpus={0, 1}, node=0, cap_floor_ratio=0.2)
    host.add("partner", partner, cpus={2, 3}, node=1, vcpus=2)
    host.ticks(6)
    host.run("victim", CHASE_HURT)
    host.run("storm", STREAM)
    host.mode = Mode.OBSERVE
    host.ticks(9)
    host.mode = Mode.ENFORCE
    return host


def test_the_ladder_begins_with_a_move():
    [action] = a_way_for_each_rung().tick().actions
    assert action.reason is MOVE_AGGRESSOR


def test_where_nobody_can_move_places_are_changed_before_anything_is_taken():
    host = a_way_for_each_rung(partner=replace(COMPUTE, cores=1.75))
    [action] = host.tick().actions
    assert action.reason is SWAP
