# SPDX-License-Identifier: Apache-2.0
"""Calls on their way to the tick's thread: what is too much is refused there and then."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from nova_vp.core.types.overlay import Call, CallAnswer, Nack, Verb, held_off
from tests.waiting import wait_until
from vp_agent.loop.call_queue import (
    ANSWERS_KEPT_OF_ONE,
    BURST,
    CALLS_PER_S,
    KEPT_S,
    MOST_WAITING,
    MOST_WAITING_OF_ONE,
    CallQueue,
)


class Desk:
    def __init__(self) -> None:
        self.clock = SimpleNamespace(now_s=0.0)
        self.queue = CallQueue(lambda: self.clock.now_s)
        self.pool = ThreadPoolExecutor(MOST_WAITING + 8)

    def ask(
        self, id_: str = "c1", of: str = "shop", verb: Verb = Verb.TRIGGER
    ) -> Future[CallAnswer]:
        """Returns once it waits, or is refused."""
        future = self.pool.submit(self.queue.ask, Call(id_, of, verb), 20.0)
        wait_until(lambda: future.done() or (of, id_) in self.queue._waiting, "it is made")
        return future

    def crowd(self, id_: str) -> None:
        """As many calls as a host takes at once, of eight overlays."""
        for number in range(MOST_WAITING):
            call = Call(f"{id_}-{number}", f"mill-{number % 8}", Verb.TRIGGER)
            self.pool.submit(self.queue.ask, call, 20.0)
        wait_until(lambda: len(self.queue._waiting) == MOST_WAITING, "all are made")

    def grant_all(self) -> tuple[Call, ...]:
        calls = self.queue.take()
        self.queue.answer([CallAnswer(call.id, None) for call in calls])
        return calls


@pytest.fixture
def desk():
    desk = Desk()
    yield desk
    desk.grant_all()
    desk.pool.shutdown()


def test_each_caller_gets_the_answer_to_its_call(desk):
    first, second = desk.ask("c1"), desk.ask("c2", "mill")
    calls = desk.queue.take()
    assert [call.id for call in calls] == ["c1", "c2"]
    answers = [CallAnswer("c1", Nack.NO_ROOM), CallAnswer("c2", None)]
    desk.queue.answer(answers)
    assert [first.result(5), second.result(5)] == answers
    assert desk.queue.totals() == {Nack.NO_ROOM: 1, None: 1}


def test_a_call_wakes_whoever_waits_for_it(desk):
    woken = desk.pool.submit(desk.queue.wait, 20.0)
    desk.ask()
    woken.result(5)


def test_somebody_else_wakes_it_too(desk):
    woken = desk.pool.submit(desk.queue.wait, 20.0)
    desk.queue.wake()
    woken.result(5)
    assert desk.queue.take() == ()


def test_an_overlay_has_so_many_calls_that_wait_and_leaves_room_for_others(desk):
    waiting = [desk.ask(f"c{n}") for n in range(MOST_WAITING_OF_ONE)]
    refused = desk.ask("one more").result(5)
    assert refused.nack is Nack.TOO_MANY_CALLS
    assert not desk.ask("c1", "mill").done()
    assert not any(one.done() for one in waiting)


def test_a_host_has_so_many_calls_that_wait(desk):
    for n in range(MOST_WAITING):
        desk.ask("c", f"overlay-{n}")
    assert desk.ask("c", "another").result(5).nack is Nack.TOO_MANY_CALLS


def test_an_overlay_has_a_rate_and_gets_it_again_with_time(desk):
    for n in range(int(BURST)):
        desk.ask(f"c{n}")
        desk.grant_all()
    assert desk.ask("too soon").result(5).nack is Nack.TOO_MANY_CALLS
    desk.clock.now_s += 1 / CALLS_PER_S
    assert not desk.ask("in time").done()
    assert desk.ask("again too soon").result(5).nack is Nack.TOO_MANY_CALLS


def test_a_call_that_is_repeated_gets_its_answer_for_a_while(desk):
    first, again = desk.ask("c1"), desk.pool.submit(desk.queue.ask, Call("c1", "shop", Verb.TUNE))
    assert len(desk.grant_all()) == 1
    assert first.result(5) is again.result(5) is desk.ask("c1").result(5)
    assert not desk.ask("c1", "mill").done(), "ids are an overlay's own"
    desk.clock.now_s += KEPT_S + 1
    desk.ask("c2")
    desk.grant_all()
    assert not desk.ask("c1").done()


def test_no_overlay_costs_another_its_answers_by_many_calls_of_its_own(desk):
    desk.ask("c1")
    desk.grant_all()
    for number in range(10):
        desk.crowd(f"m{number}")
        desk.grant_all()
        desk.clock.now_s += 1.0
    assert desk.ask("c1").done(), "it is known"
    assert not desk.queue.take()


def test_of_one_overlay_the_latest_answers_are_kept(desk):
    for number in range(ANSWERS_KEPT_OF_ONE + 1):
        desk.ask(f"c{number}")
        desk.grant_all()
        desk.clock.now_s += 0.01
    assert desk.ask("c1").done()
    assert not desk.ask("c0").done()


def test_a_call_that_nobody_begins_with_is_withdrawn(desk):
    assert desk.queue.ask(Call("c1", "shop", Verb.TUNE), 0.01).nack is Nack.HOST_REFUSED
    assert desk.queue.take() == ()


def test_a_call_that_was_begun_with_may_still_be_done(desk):
    taken = threading.Event()

    def take() -> None:
        desk.queue.wait(20)
        desk.queue.take()
        taken.set()

    desk.pool.submit(take)
    answer = desk.queue.ask(Call("c1", "shop", Verb.TUNE), 1.0)
    assert taken.is_set()
    assert answer.nack is Nack.HOST_REFUSED
    assert "too late" in answer.detail
    desk.queue.answer([CallAnswer("c1", None)])


def test_an_overlay_that_is_held_off_is_refused_without_the_tick_but_gives_back(desk):
    waits = desk.ask("c1")
    desk.queue.take()
    refusal = held_off("c1", 0.4)
    desk.queue.answer([refusal])
    assert waits.result(5) == refusal
    desk.clock.now_s += 0.3
    refused = desk.ask("c2").result(5)
    assert (refused.nack, refused.detail) == (
        Nack.TOO_MANY_CALLS,
        "call less often; try again in 0.1 s",
    )
    assert not desk.ask("c3", "mill").done(), "another overlay is not held off"
    assert not desk.ask("c4", verb=Verb.RELEASE).done()
    desk.clock.now_s += 0.2
    assert not desk.ask("c5").done()
