# SPDX-License-Identifier: Apache-2.0
"""Many who ask for the same, and a look that takes long: one takes it, for all."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from nova_vp.service.last_look import FRESH_S, LastLook
from tests.waiting import wait_until

CALLERS = 4
DEADLINE_S = 20


class Look:
    """Goes on when it may; counts, and answers with the count."""

    def __init__(self):
        self.taken = 0
        self.may_go_on = threading.Event()
        self.failing = None

    def __call__(self):
        self.taken += 1
        taken = self.taken
        assert self.may_go_on.wait(DEADLINE_S)
        if self.failing:
            raise self.failing
        return taken


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def look():
    look = Look()
    yield look
    look.may_go_on.set()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def callers():
    with ThreadPoolExecutor(CALLERS) as pool:
        yield pool


def test_the_first_look_is_waited_for_by_all(look, clock, callers):
    last_look = LastLook(look, clock)
    asking = [callers.submit(last_look) for _ in range(CALLERS)]
    wait_until(lambda: look.taken, "a look")
    look.may_go_on.set()
    assert {one.result(DEADLINE_S) for one in asking} == {1}
    assert look.taken == 1


def test_while_one_looks_the_others_are_told_of_the_last_look(look, clock, callers):
    last_look = LastLook(look, clock)
    look.may_go_on.set()
    last_look()
    look.may_go_on.clear()
    clock.now_s += FRESH_S
    looking = callers.submit(last_look)
    wait_until(lambda: look.taken == 2, "the second look")
    others = [callers.submit(last_look) for _ in range(CALLERS - 1)]
    assert {one.result(DEADLINE_S) for one in others} == {1}
    look.may_go_on.set()
    assert looking.result(DEADLINE_S) == 2
    assert look.taken == 2


def test_a_look_is_fresh_from_its_end_on(look, clock, callers):
    """However long it took: else those who ask would take nothing but looks."""
    last_look = LastLook(look, clock)
    looking = callers.submit(last_look)
    wait_until(lambda: look.taken, "a look")
    clock.now_s += 2 * FRESH_S
    look.may_go_on.set()
    looking.result(DEADLINE_S)
    assert last_look() == 1
    clock.now_s += FRESH_S
    assert last_look() == 2


def test_a_look_that_fails_is_taken_again(look, clock):
    last_look = LastLook(look, clock)
    look.may_go_on.set()
    look.failing = RuntimeError("no look")
    with pytest.raises(RuntimeError, match="no look"):
        last_look()
    look.failing = None
    assert last_look() == 2
