# SPDX-License-Identifier: Apache-2.0
"""Calls of overlays on their way through the pipeline, in a tick and between two ticks.

What a call leads to is a controller's; here it is the tests' own (`Answering`).
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from nova_vp.core.controllers.base import Answer
from nova_vp.core.types.action import Result
from nova_vp.core.types.claim import ClaimKey, Setting
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import NO_MEMORY_SIZE, CpuWeight, Knob, MemorySize
from nova_vp.core.types.overlay import Call, CallAnswer, Nack, Verb
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.reason import REAPPLY, RELEASED
from tests.unit.core.build import COMPUTE, Host, nodes_of
from tests.unit.core.wishful import KNOBS, OTHER, VM, Wishful, cap, enabled, place

CALL = Call("c1", "shop", Verb.TUNE)
MIB = 1024


class Answering(Wishful):
    """Grants every call, and claims for them what its wish says."""

    answers_calls = True
    needs_counters = False
    restates: frozenset[ClaimKey] = frozenset()

    def run(self, view, state, settings):
        ids = tuple(call.id for call in view.picture.calls)
        groups = tuple(replace(group, call_ids=ids) for group in self.wish.groups)
        answers = tuple(CallAnswer(call_id, None, "done") for call_id in ids)
        return Answer(state, groups, self.wish.releases, restates=self.restates, answers=answers)


class World:
    """Two guests, a controller that answers calls, and one of a lower rank that does not."""

    def __init__(self, **flags: bool) -> None:
        self.first, self.second = Wishful("first", 200), Answering("second", 300, **flags)
        self.host = Host(nodes_of(0, 1), enabled(self.first, self.second), knobs=KNOBS)
        for name in ("vm", "other"):
            self.host.add(name, COMPUTE, cpus={0, 1}, node=0, cap_floor_ratio=0.1)
            self.host.change(name, cpu_weight=CpuWeight(100))
        self.host.ticks(2)

    @property
    def weight(self) -> int:
        return self.host.guest("vm").cpu_weight.number


@pytest.fixture
def world() -> World:
    return World()


def weight(number: int, uuid: str = VM) -> Setting:
    return Setting(uuid, Knob.CPU_WEIGHT, CpuWeight(number))


def at_once(host: Host) -> Decision:
    return host.answer(CALL)


def in_a_tick(host: Host) -> Decision:
    host.calls.append(CALL)
    return host.tick()


BOTH = pytest.mark.parametrize("answer", [at_once, in_a_tick])
Way = Callable[[Host], Decision]


@BOTH
def test_a_call_is_granted_and_done(world: World, answer: Way) -> None:
    world.second.wants(weight(400))
    decision = answer(world.host)
    assert decision.answers == (CallAnswer("c1", None, "done"),)
    assert [action.call_ids for action in decision.actions] == [("c1",)]
    assert world.weight == 400


@BOTH
def test_a_call_is_refused_where_the_mode_lets_nobody_act(world: World, answer: Way) -> None:
    world.host.mode = Mode.ADVISE
    world.second.wants(weight(400))
    decision = answer(world.host)
    assert [one.nack for one in decision.answers] == [Nack.MODE]
    assert [action.call_ids for action in decision.proposals] == [("c1",)]
    assert world.weight == 100


@BOTH
def test_a_call_is_refused_where_another_controller_has_the_knob(world: World, answer: Way) -> None:
    world.first.wants(weight(50))
    world.host.tick()
    world.second.wants(weight(400))
    assert [one.nack for one in answer(world.host).answers] == [Nack.OUTRANKED]
    assert world.weight == 50


@BOTH
def test_a_call_is_refused_for_who_may_not_be_changed(world: World, answer: Way) -> None:
    world.host.change("vm", unmanaged=Unmanaged.OPTED_OUT)
    world.second.wants(weight(400))
    assert [one.nack for one in answer(world.host).answers] == [Nack.UNMANAGED]


@BOTH
def test_a_call_is_refused_for_who_refuses_help(world: World, answer: Way) -> None:
    world.host.change("vm", refuses_help=True)
    world.second.wants(weight(400))
    assert [one.nack for one in answer(world.host).answers] == [Nack.UNMANAGED]


def test_a_call_is_refused_for_seconds_after_the_host_did_not_do_it(world: World) -> None:
    world.second.wants(weight(400))
    world.host.refuse = True
    [failed] = world.host.answer(CALL).actions
    assert failed.call_ids == ("c1",)
    assert world.host.outcomes[-1].result is Result.FAILED
    world.host.refuse = False
    assert [one.nack for one in world.host.answer(CALL).answers] == [Nack.HOST_REFUSED]


def test_a_call_is_refused_where_a_server_was_just_moved(world: World) -> None:
    world.second.wants(place())
    world.host.answer(CALL)
    world.second.wants(place((frozenset({1}),)))
    assert [one.nack for one in world.host.answer(CALL).answers] == [Nack.TOO_SOON]


@BOTH
def test_a_call_is_refused_where_nobody_answers_any(world: World, answer: Way) -> None:
    world.host.policy = enabled(world.first)
    assert [one.nack for one in answer(world.host).answers] == [Nack.DISABLED]


def test_between_two_ticks_no_claim_of_others_ends(world: World) -> None:
    world.first.wants(cap(0.5))
    world.host.tick()
    world.first.wants()
    runs = world.first.wish.runs
    world.second.wants(weight(400))
    world.host.answer(CALL)
    assert world.first.wish.runs == runs
    assert world.host.guest("vm").quota.cores == 0.5
    world.host.tick()
    assert world.host.guest("vm").quota.cores == 1.0


def test_between_two_ticks_nothing_of_others_is_put_right(world: World) -> None:
    world.first.wants(cap(0.5, OTHER))
    world.host.tick()
    world.host.change("other", quota=world.host.guest("vm").quota)
    world.second.wants(weight(400))
    assert [action.guest_uuid for action in world.host.answer(CALL).actions] == [VM]
    assert OTHER in {action.guest_uuid for action in world.host.tick().actions}


def test_between_two_ticks_a_limit_that_ended_goes_back_as_far_as_others_let_it() -> None:
    world = World()
    world.first.wants(cap(0.7))
    world.second.wants(cap(0.5))
    world.host.tick()
    assert world.host.guest("vm").quota.cores == 0.5
    world.second.wants()
    assert [action.reason for action in world.host.answer().actions] == [RELEASED]
    assert world.host.guest("vm").quota.cores == 0.7


def test_a_claim_may_be_restated_by_its_key_alone(world: World) -> None:
    world.second.wants(weight(400))
    world.host.answer(CALL)
    world.second.wants()
    world.second.restates = frozenset({(VM, Knob.CPU_WEIGHT)})
    assert world.host.answer().actions == ()
    world.host.tick()
    assert world.weight == 400
    world.second.restates = frozenset()
    world.host.tick()
    assert world.weight == 100


def test_what_a_call_led_to_ends_also_of_who_cannot_be_measured(world: World) -> None:
    world.second.wants(weight(400))
    world.host.answer(CALL)
    del world.host.counts[VM], world.host.rates[VM]
    world.host.tick()
    world.second.wants()
    world.host.tick()
    assert world.weight == 100


def test_what_is_looser_than_what_stands_is_granted_and_changes_nothing(world: World) -> None:
    world.first.wants(cap(0.5))
    world.host.tick()
    world.second.wants(cap(0.7))
    decision = world.host.answer(CALL)
    assert ([one.nack for one in decision.answers], decision.actions) == ([None], ())
    assert len(world.host.state.claims[VM, Knob.CPU_CAP]) == 2


def balloon(world: World, kib: int = 40 * MIB, **about: object) -> tuple[Nack | None, ...]:
    fields = {
        "memory_kib": 96 * MIB,
        "memory_size": MemorySize(96 * MIB),
        "memory_used_kib": 32 * MIB,
        **about,
    }
    world.host.change("vm", **fields)
    world.second.wants(Setting(VM, Knob.MEMORY_SIZE, MemorySize(kib)))
    return tuple(one.nack for one in world.host.answer(CALL).answers)


def test_a_memory_size_has_one_owner_a_lease_and_goes_back_exactly(world: World) -> None:
    assert balloon(world) == (None,)
    assert world.host.guest("vm").memory_size == MemorySize(40 * MIB)
    held = world.host.applied[VM].of(Knob.MEMORY_SIZE)
    assert held.original == MemorySize(96 * MIB)
    assert held.until_s is not None
    world.host.ticks(100)
    assert world.host.guest("vm").memory_size == MemorySize(40 * MIB), "its lease is renewed"
    world.second.wants()
    world.host.tick()
    assert world.host.guest("vm").memory_size == MemorySize(96 * MIB)
    assert world.host.applied == {}


@pytest.mark.parametrize(
    ("kib", "about"),
    [
        (97 * MIB, {}),
        (32 * MIB, {}),
        (0, {}),
        (40 * MIB, {"memory_used_kib": None, "memory_size": NO_MEMORY_SIZE}),
        (40 * MIB, {"balloon_obstacle": "a device is passed through"}),
    ],
)
def test_a_memory_size_is_above_what_is_used_and_at_most_the_flavors(
    world: World, kib: int, about: dict[str, object]
) -> None:
    assert balloon(world, kib, **about) == (Nack.OUTRANKED,)
    assert world.host.applied == {}


def test_a_balloon_that_is_still_filling_is_left_to_do_so(world: World) -> None:
    balloon(world)
    world.host.change("vm", memory_size=MemorySize(60 * MIB))
    decision = world.host.tick()
    assert (decision.actions, decision.foreign) == ((), ())


def test_a_balloon_that_a_reboot_emptied_is_filled_again(world: World) -> None:
    balloon(world)
    world.host.change("vm", memory_size=MemorySize(96 * MIB))
    assert [action.reason for action in world.host.tick().actions] == [REAPPLY]
    assert world.host.guest("vm").memory_size == MemorySize(40 * MIB)
