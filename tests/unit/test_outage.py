# SPDX-License-Identifier: Apache-2.0
"""One waits in vain, the others are refused, until a look is answered."""

import threading

import pytest

from nova_vp.service.outage import Outage, has_timed_out
from tests.waiting import wait_until


class BackEnd:
    """Hangs until it is told to answer, or to fail."""

    def __init__(self):
        self.goes_on = threading.Event()
        self.failing = None
        self.looks = 0
        self.was_refused = None

    def look(self):
        self.looks += 1
        self.was_refused = self.outage.is_on
        if not self.goes_on.wait(0.01):
            raise TimeoutError
        if self.failing:
            raise self.failing


@pytest.fixture
def back_end():
    back_end = BackEnd()
    back_end.outage = Outage("the example")
    yield back_end
    back_end.goes_on.set()
    wait_until(lambda: not back_end.outage.is_on, "the outage to end")


def wrapped(how):
    try:
        try:
            raise TimeoutError("timed out")
        except TimeoutError as exc:
            how(exc)
    except Exception as exc:
        return exc


def chained(exc):
    raise RuntimeError("no answer") from exc


def followed(exc):
    raise RuntimeError("no answer")


@pytest.mark.parametrize(
    ("exc", "timed_out"),
    [
        (TimeoutError(), True),
        (wrapped(chained), True),
        (wrapped(followed), True),
        (ConnectionRefusedError(), False),
        (RuntimeError(), False),
    ],
)
def test_a_wait_in_vain_is_known_however_it_is_wrapped(exc, timed_out):
    assert has_timed_out(exc) is timed_out


def test_it_is_on_until_a_look_is_answered(back_end):
    assert not back_end.outage.is_on
    back_end.outage.note(TimeoutError(), back_end.look)
    assert back_end.outage.is_on
    wait_until(lambda: back_end.looks > 1, "a second look")
    assert back_end.outage.is_on
    back_end.goes_on.set()
    wait_until(lambda: not back_end.outage.is_on, "the outage to end")


def test_who_looks_is_not_refused(back_end):
    back_end.outage.note(TimeoutError(), back_end.look)
    wait_until(lambda: back_end.was_refused is not None, "a look")
    assert back_end.was_refused is False


def test_an_error_is_an_answer(back_end):
    """A server that has ended refuses connections at once: nobody waits for it."""
    back_end.failing = ConnectionRefusedError()
    back_end.outage.note(TimeoutError(), back_end.look)
    back_end.goes_on.set()
    wait_until(lambda: not back_end.outage.is_on, "the outage to end")


def test_other_failures_are_none(back_end):
    back_end.outage.note(ConnectionRefusedError(), back_end.look)
    assert not back_end.outage.is_on
    assert back_end.looks == 0


def test_one_looks_for_all(back_end):
    others = []
    back_end.outage.note(TimeoutError(), back_end.look)
    back_end.outage.note(TimeoutError(), lambda: others.append("looked"))
    back_end.goes_on.set()
    wait_until(lambda: not back_end.outage.is_on, "the outage to end")
    assert not others
