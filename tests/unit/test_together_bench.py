# SPDX-License-Identifier: Apache-2.0
"""What the hour of all controllers counts as a fight, and as missed."""

import pytest

from tests.bench.best_effort_lab import Second
from tests.bench.together import FIGHT_S, STEPS, fights_in, missed_ratio, works_of

MOST_COMMAND_LINE = 1500
"""The kernel takes 2048 characters in all."""


def turned(at: float, controller: str, knob: str = "placement", uuid: str = "a"):
    return {"at": at, "controller": controller, "changes": [{"uuid": uuid, "knob": knob}]}


@pytest.mark.parametrize(
    ("label", "knob", "second", "fights"),
    [
        ("another controller, at once", "placement", turned(1.0, "rebalance"), 1),
        ("the same controller", "placement", turned(1.0, "vp"), 0),
        ("much later", "placement", turned(1.0 + FIGHT_S, "rebalance"), 0),
        ("another knob", "memory", turned(1.0, "rebalance"), 0),
        ("another server", "placement", turned(1.0, "rebalance", uuid="b"), 0),
        ("caps: the tightest holds", "cpu-cap", turned(1.0, "rebalance", knob="cpu-cap"), 0),
    ],
)
def test_who_turns_what_another_one_has_just_turned_fights(label, knob, second, fights):
    first = turned(0.5, "vp", knob)
    assert fights_in({"second": second, "first": first}) == fights, label


def test_a_second_in_which_nothing_was_answered_is_missed():
    seconds = [Second(1.0, 10, 19.0), Second(2.0, 10, 0.0), Second(3.0, 10, 21.0)]
    assert missed_ratio(seconds) == pytest.approx(2 / 3)


def test_an_hour_of_work_fits_on_the_kernels_command_line():
    assert all(len(work) < MOST_COMMAND_LINE for work in works_of(3600 // STEPS).values())
