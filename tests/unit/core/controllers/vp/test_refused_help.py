# SPDX-License-Identifier: Apache-2.0
"""A server that refuses help is restrained like any other, and nothing is done for its sake."""

import pytest

from nova_vp.core.controllers.vp.declaration import CAP, MOVE_AGGRESSOR, PARTITION
from nova_vp.core.types.decision import Role
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import NO_QUOTA
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import Rejection
from tests.policies import with_numbers
from tests.unit.core.build import Host, uuid_of
from tests.unit.core.controllers.vp.hosts import POLICY, a_quiet_pair, crowd, far_away
from tests.unit.core.controllers.vp.test_caps import a_crowd
from tests.unit.core.hosts import kinds, onset, trapped
from tests.unit.core.wishful import Helpless, Mover, enabled

UNPROBED = with_numbers(POLICY, cap_probe_s=600.0)
"""No cap is raised while a test looks."""


def capped(policy: Policy = UNPROBED) -> Host:
    host = a_crowd(policy=policy)
    host.until(CAP)
    return host


def test_an_aggressor_that_refuses_help_is_moved():
    host = a_quiet_pair()
    host.change("neighbour", refuses_help=True)
    onset(host)
    assert host.until(MOVE_AGGRESSOR).guest_uuid == uuid_of("neighbour")


def test_an_aggressor_that_refuses_help_is_capped():
    host = a_crowd(refuses_help=True)
    assert host.until(CAP).guest_uuid == uuid_of("stream")


def test_an_aggressor_that_refuses_help_keeps_only_a_part_of_the_cache():
    host = crowd(refuses_help=True)
    assert host.until(PARTITION).guest_uuid == uuid_of("storm")


def test_a_cap_stands_although_who_bears_it_refuses_help():
    host = capped()
    ratio = host.cap_ratio("stream")
    host.change("stream", refuses_help=True)
    host.ticks(60)
    assert host.cap_ratio("stream") <= ratio < 1.0


def test_an_aggressor_that_refuses_help_is_named_to_the_cluster():
    host = trapped(POLICY, refuses_help=True)
    [told] = host.ticks(60)[-1].escalations
    roles = {one.guest_uuid: one.role for one in told.candidates}
    assert roles[uuid_of("storm")] is Role.AGGRESSOR


def test_an_aggressor_that_is_novas_is_named_to_the_cluster():
    host = trapped(POLICY, unmanaged=Unmanaged.NUMA_TOPOLOGY)
    [told] = host.ticks(60)[-1].escalations
    [storm] = [one for one in told.candidates if one.guest_uuid == uuid_of("storm")]
    assert storm.role is Role.AGGRESSOR
    assert storm.relief_ratio > 0.0


def test_a_cap_ends_once_its_victim_refuses_help():
    host = capped()
    host.change("victim", refuses_help=True)
    host.ticks(20)
    assert host.guest("stream").quota == NO_QUOTA


def test_nobody_is_moved_for_a_victim_that_refuses_help():
    host = a_quiet_pair()
    host.change("victim", refuses_help=True)
    onset(host)
    decisions = host.ticks(60)
    assert any(d.detections for d in decisions), "it is degraded, and that is told"
    assert not any(d.actions or d.refused for d in decisions)


def test_a_victim_that_refuses_help_stays_away_from_its_memory():
    host = far_away(refuses_help=True)
    decisions = host.ticks(30)
    assert Kind.REMOTE in kinds(decisions)
    assert not any(d.actions or d.refused for d in decisions)


def test_no_controller_can_help_who_refuses_it():
    host = a_quiet_pair(policy=enabled(Mover()))
    host.change("victim", refuses_help=True)
    onset(host)
    decisions = host.ticks(20)
    assert not any(d.actions for d in decisions)
    assert {r.rejection for d in decisions for r in d.refused} == {Rejection.REFUSES_HELP}


@pytest.mark.parametrize("policy", [POLICY, enabled(Helpless())])
def test_no_controller_can_have_the_cluster_help_who_refuses_it(policy):
    host = trapped(policy)
    host.change("victim", refuses_help=True)
    assert not any(d.escalations for d in host.ticks(60))
