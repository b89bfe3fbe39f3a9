# SPDX-License-Identifier: Apache-2.0
"""What an operator rejects is recorded, and not proposed again for a while; others may be."""

import pytest

from nova_vp.core.model.holds import subject
from nova_vp.core.pipeline.revert import done
from nova_vp.core.types.action import Result
from nova_vp.core.types.claim import Setting
from nova_vp.core.types.knob import CpuWeight, Knob, Quota
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.reason import Rejection
from nova_vp.core.types.topology import LlcDomain, Topology
from tests.policies import with_numbers
from tests.unit.core import hosts
from tests.unit.core.build import CHASE, CHASE_HURT, COMPUTE, STREAM, Host, uuid_of
from tests.unit.core.hosts import NEIGHBOUR
from tests.unit.core.wishful import Mover, enabled

HOLD_S = 100
MOVER = with_numbers(enabled(Mover()), rejected_hold_s=float(HOLD_S))


def a_hurt_pair(mode=Mode.ADVISE) -> tuple[Host, str]:
    """And the proposal for its victim."""
    host = hosts.a_hurt_pair(MOVER, host_mode=mode)
    [proposal] = host.ticks(3)[-1].proposals
    assert proposal.guest_uuid == NEIGHBOUR
    return host, proposal.id


def reject(host: Host, action_id: str, told: str = "rejected by me: not now"):
    host.rejected = {action_id: told}
    decision = host.tick()
    host.rejected = {}
    return decision


def proposed(host: Host, seconds: int) -> list[set[str]]:
    """Who would be changed, second by second."""
    return [{a.guest_uuid for a in d.proposals} for d in host.ticks(seconds)]


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_it_is_withdrawn_at_once_and_recorded_with_who_and_why(mode):
    host, action_id = a_hurt_pair(mode)
    assert reject(host, action_id).proposals == ()
    for name in ("victim", "neighbour"):
        [outcome] = host.state.vps[uuid_of(name)].history
        assert (outcome.action.id, outcome.result) == (action_id, Result.REJECTED)
        assert outcome.detail == "rejected by me: not now"


def test_it_is_not_proposed_again_within_the_hold():
    host, action_id = a_hurt_pair()
    reject(host, action_id)
    assert [one.rejection for one in host.tick().refused] == [Rejection.REJECTED]
    assert not any(proposed(host, HOLD_S - 10))


def test_of_two_that_are_rejected_at_once_neither_is_proposed_again():
    topology = Topology(tuple(LlcDomain(one, one, frozenset({one})) for one in range(3)))
    host = Host(topology, MOVER, Mode.ADVISE)
    for one in range(2):
        host.add(f"neighbour{one}", COMPUTE, cpus={one})
        host.add(f"victim{one}", CHASE, cpus={one})
    host.ticks(6)
    for one in range(2):
        host.run(f"neighbour{one}", STREAM)
        host.run(f"victim{one}", CHASE_HURT)
    found = host.ticks(3)[-1].proposals
    assert len(found) == 2
    host.rejected = {action.id: "rejected by me: not now" for action in found}
    host.tick()
    host.rejected = {}
    assert not any(proposed(host, 10))


def test_it_is_proposed_again_after_the_hold():
    host, action_id = a_hurt_pair()
    reject(host, action_id)
    assert any(NEIGHBOUR in uuids for uuids in proposed(host, HOLD_S + 5)[HOLD_S - 5 :])


def test_it_is_proposed_again_for_another_degradation():
    host, action_id = a_hurt_pair()
    reject(host, action_id)
    host.run("victim", CHASE)
    host.run("neighbour", COMPUTE)
    host.ticks(20)
    host.run("victim", CHASE_HURT)
    host.run("neighbour", STREAM)
    assert any(NEIGHBOUR in uuids for uuids in proposed(host, 10))


def test_another_proposal_stays():
    host, action_id = a_hurt_pair()
    assert [a.id for a in reject(host, "another").proposals] == [action_id]


def test_it_is_not_done_in_mode_enforce_either():
    host, action_id = a_hurt_pair()
    reject(host, action_id)
    host.mode = Mode.ENFORCE
    moved = {a.guest_uuid for d in host.ticks(20) for a in d.actions}
    assert NEIGHBOUR not in moved


def test_nothing_of_it_can_be_undone():
    host, action_id = a_hurt_pair()
    reject(host, action_id)
    history = host.state.vps[uuid_of("neighbour")].history
    assert action_id not in done(history)


def test_a_limit_of_another_value_is_the_same_proposal():
    def of(knob, value):
        return subject([Setting(NEIGHBOUR, knob, value)])

    assert of(Knob.CPU_CAP, Quota(90_000, 100_000)) == of(Knob.CPU_CAP, Quota(80_000, 100_000))
    assert of(Knob.PLACEMENT, (frozenset({0}),)) != of(Knob.PLACEMENT, (frozenset({1}),))
    assert of(Knob.CPU_CAP, Quota(90_000, 100_000)) != of(Knob.CPU_WEIGHT, CpuWeight(5))
