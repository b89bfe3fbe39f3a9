# SPDX-License-Identifier: Apache-2.0
"""When messages are due, by a clock the test moves."""

import math
from collections.abc import Iterator

import pytest

from vp_agent.publish.schedule import Intervals, Schedule

INTERVALS = Intervals(refresh_s=60.0, min_s=1.0)
NEWS, NO_NEWS = True, False


def a_pace(dice: float = 0.5) -> Schedule:
    return Schedule(INTERVALS, lambda: dice)


def test_the_first_message_is_due_at_once() -> None:
    assert a_pace().due_s(NO_NEWS) <= 0


def test_news_wait_for_the_least_interval_and_the_rest_for_the_refresh() -> None:
    pace = a_pace()
    pace.sent(100.0)
    assert pace.due_s(NEWS) == 101.0
    assert pace.due_s(NO_NEWS) == 160.0


@pytest.mark.parametrize(("dice", "due_s"), [(0.0, 154.0), (1.0, 166.0)])
def test_the_refresh_is_jittered_by_a_tenth(dice: float, due_s: float) -> None:
    pace = a_pace(dice)
    pace.sent(100.0)
    assert pace.due_s(NO_NEWS) == pytest.approx(due_s)


def test_a_failure_is_repeated_later_and_later() -> None:
    pace = a_pace(dice=0.0)
    waits = []
    for _ in range(9):
        pace.failed(100.0)
        waits.append(pace.due_s(NO_NEWS) - 100.0)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    pace.sent(200.0)
    pace.failed(300.0)
    assert pace.due_s(NEWS) == 301.0


def test_who_asks_is_answered_at_a_random_moment_but_not_too_soon() -> None:
    pace = a_pace(dice=0.5)
    pace.sent(100.0)
    pace.asked(110.0, within_s=4.0)
    assert pace.due_s(NO_NEWS) == 112.0
    pace.sent(112.0)
    pace.asked(112.1, within_s=0.0)
    assert pace.due_s(NO_NEWS) == 113.0


def test_who_asks_for_the_digest_alone_gets_no_report() -> None:
    pace = a_pace(dice=0.5)
    pace.sent(100.0)
    assert pace.digest_due_s() == math.inf
    pace.asked_for_digest(110.0, within_s=4.0)
    assert pace.digest_due_s() == 112.0
    assert pace.due_s(NO_NEWS) == 160.0
    pace.begun()
    assert pace.digest_due_s() == math.inf


def test_a_digest_that_failed_comes_with_the_rest() -> None:
    pace = a_pace(dice=0.0)
    pace.sent(100.0)
    pace.asked_for_digest(110.0, within_s=0.0)
    pace.begun()
    pace.failed(110.0)
    assert pace.due_s(NO_NEWS) == 111.0


def test_many_who_ask_at_once_do_not_draw_the_answer_nearer() -> None:
    def falling() -> Iterator[float]:
        yield from (0.9, 0.5, 0.1, 0.1, 0.1, 0.1)

    throws = falling()
    pace = Schedule(INTERVALS, lambda: next(throws))
    pace.sent(100.0)
    for n in range(4):
        pace.asked_for_digest(110.0 + n, within_s=10.0)
        pace.asked(110.0 + n, within_s=10.0)
    assert pace.digest_due_s() == 119.0
    assert pace.due_s(NO_NEWS) == 119.0
