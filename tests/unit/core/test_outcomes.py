# SPDX-License-Identifier: Apache-2.0
"""What is kept of an action: when it was done, and what came of it at last."""

import pytest

from nova_vp.core.types.action import Outcome, Result
from nova_vp.core.types.guest import Unmanaged
from tests.unit.core.build import CHASE, COMPUTE, Host, uuid_of
from tests.unit.core.hosts import NEIGHBOUR
from tests.unit.core.test_ordered import a_hurt_pair, revoke
from tests.unit.core.wishful import MOVES, Wishful, enabled, place


def outcomes(host: Host, name: str) -> dict[str, Outcome]:
    return {o.action.id: o for o in host.state.vps[uuid_of(name)].history}


def recover(host: Host) -> None:
    host.run("victim", CHASE)
    host.ticks(12)


def leave_alone(host: Host) -> None:
    """As the agent does it: what stood before us is there again when the tick begins."""
    host.applied.pop(NEIGHBOUR, None)
    host.change("neighbour", unmanaged=Unmanaged.EXEMPT)
    host.tick()


@pytest.mark.parametrize(
    ("then", "result"),
    [
        (recover, Result.MENDED),
        (lambda host: host.ticks(12), Result.INEFFECTIVE),
        (lambda host: revoke(host, *outcomes(host, "neighbour")), Result.UNDONE),
        (leave_alone, Result.UNDONE),
    ],
)
def test_when_it_was_done_stays_whatever_comes_of_it(then, result):
    host = a_hurt_pair()
    action = host.until(MOVES)
    done_s = host.now_s
    then(host)
    outcome = outcomes(host, "neighbour")[action.id]
    assert (outcome.result, outcome.at_s) == (result, done_s)
    assert outcome.settled_s is not None
    assert done_s < outcome.settled_s <= host.now_s
    assert host.state.pending == ()


def test_what_nobody_is_left_to_judge_is_judged_no_more():
    host = a_hurt_pair()
    action = host.until(MOVES)
    host.leave("victim")
    host.tick()
    assert outcomes(host, "neighbour")[action.id].result is Result.UNJUDGED
    assert host.state.pending == ()


def test_a_home_goes_with_the_order_to_leave_its_server_alone():
    placer = Wishful("placer", 800)
    host = Host(policy=enabled(placer))
    uuids = [host.add(name, COMPUTE) for name in ("neighbour", "other")]
    placer.wish.groups = tuple(placer.group(place((frozenset({0}),), uuid)) for uuid in uuids)
    host.ticks(3)
    placer.wants()
    [homed] = outcomes(host, "neighbour").values()
    host.change("neighbour", unmanaged=Unmanaged.EXEMPT)
    host.tick()
    assert outcomes(host, "neighbour")[homed.action.id] == homed, "it stands"
    leave_alone(host)
    told = outcomes(host, "neighbour")[homed.action.id]
    assert (told.result, told.at_s) == (Result.UNDONE, homed.at_s)
    host.tick()
    assert outcomes(host, "neighbour")[homed.action.id] == told, "it was undone once"
    assert [o.result for o in outcomes(host, "other").values()] == [Result.APPLIED]


def test_what_was_replaced_since_was_not_undone_by_that_order():
    host = a_hurt_pair()
    first = host.until(MOVES)
    host.ticks(12)
    before = outcomes(host, "neighbour")
    assert before[first.id].result is Result.INEFFECTIVE
    leave_alone(host)
    assert outcomes(host, "neighbour")[first.id] == before[first.id]
