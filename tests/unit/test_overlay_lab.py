# SPDX-License-Identifier: Apache-2.0
"""`tests.bench.overlay --lab`: what is said of what was seen, and which of it is a miss."""

import pytest

from tests.bench.overlay_guests import Meter, layout_of, mean_and_deviation
from tests.bench.overlay_lab import (
    CAP_CORES,
    PARTS,
    benchmark,
    best_of,
    numbers_of,
)

ROW = {
    "completion_s": 40.0,
    "deviation_ratio": 0.05,
    "most_cores_of_2_s": 5.0,
    "cpus_borrowed_by_calls": 0.0,
    "cpus_borrowed_for_the_cap": 0.0,
    "debt_ratio": 0.0,
}
BARRIER = {
    "no_calls": {"barrier_s": 0.6, "deviation_ratio": 0.0, "neighbours_cores": 3.0},
    "trigger": {
        "barrier_s": 0.45,
        "deviation_ratio": 0.1,
        "neighbours_cores": 2.94,
        "debt_ratio": 0.02,
    },
    "static": {
        "1.05": {"barrier_s": 0.5, "neighbours_cores": 2.9},
        "8": {"barrier_s": 0.3, "neighbours_cores": 1.0},
    },
}
SEEN = {
    "cap": {
        "islands": ROW,
        "borrowing": {**ROW, "completion_s": 30.0, "deviation_ratio": 0.01},
        "best_static": {**ROW, "completion_s": 37.5},
    },
    "barrier": BARRIER,
    "busy-barrier": BARRIER,
    "last": {
        "priority": {"web_got_it": 1.0, "words_got_it": 0.0, "web_times": 3.0},
        "round-robin": {"web_got_it": 0.0, "words_got_it": 1.0, "web_times": 2.0},
    },
}


def missed(seen, *parts):
    bench = benchmark(parts or tuple(PARTS))
    return bench.missed(numbers_of(seen), 40.0)


def changed(part, case, **values):
    return {**SEEN, part: {**SEEN[part], case: {**SEEN[part][case], **values}}}


def test_what_was_seen_is_told_as_changes():
    numbers = numbers_of(SEEN)
    assert numbers["completion_change"] == pytest.approx(-0.25)
    assert numbers["completion_change_of_best_static"] == pytest.approx(-0.2)
    assert numbers["barrier_change"] == pytest.approx(-0.25)
    assert numbers["barrier_neighbours_loss"] == pytest.approx(0.02)
    assert numbers["busy_barrier_change_of_best_static"] == pytest.approx(-0.1)
    assert numbers["debt_ratio"] == 0.02
    assert missed(SEEN) == []


@pytest.mark.parametrize(
    ("seen", "name"),
    [
        (changed("cap", "islands", completion_s=32.0), "completion_change"),
        (changed("cap", "borrowing", most_cores_of_2_s=5.1), "over_cap_cores"),
        (changed("cap", "best_static", completion_s=31.0), "completion_change_of_best_static"),
        (changed("barrier", "trigger", barrier_s=0.55), "barrier_change"),
        (changed("barrier", "trigger", neighbours_cores=2.8), "barrier_neighbours_loss"),
        (
            changed("busy-barrier", "static", **{"2": {"barrier_s": 0.4, "neighbours_cores": 2.9}}),
            "busy_barrier_change_of_best_static",
        ),
        (changed("barrier", "trigger", debt_ratio=0.2), "debt_ratio"),
        (changed("last", "priority", web_got_it=0.0), "wrong_winners"),
        (changed("last", "round-robin", web_got_it=1.0), "wrong_winners"),
    ],
)
def test_each_budget_can_be_missed(seen, name):
    assert missed(seen) == [name]


def test_one_part_alone_is_judged_by_its_own_budgets():
    assert missed({"last": SEEN["last"]}, "last") == []


def test_the_best_static_limits_are_the_quickest_that_hold_the_cap():
    static = {
        "all and all": {**ROW, "completion_s": 20.0, "most_cores_of_2_s": CAP_CORES + 1},
        "2.5 and 2.5": {**ROW, "completion_s": 38.0},
        "3 and 2": ROW,
    }
    assert best_of(static) == "2.5 and 2.5"


def test_a_mean_over_two_seconds_is_the_most_of_any_two():
    granted = [0.0, 2.0, 10.0, 18.0, 20.0]
    looks = [(float(at_s), {"a": cores}, 0.5 * at_s) for at_s, cores in enumerate(granted)]
    meter = Meter(None, ("a",), looks)
    assert meter.most_cores == pytest.approx(8.0)
    assert meter.cores("a") == pytest.approx(5.0)
    assert meter.debt_ratio == pytest.approx(0.1)


def test_the_deviation_is_a_share_of_the_mean():
    assert mean_and_deviation([9.0, 10.0, 11.0]) == (10.0, pytest.approx(0.1))
    assert mean_and_deviation([9.0]) == (9.0, 0.0)


def test_islands_are_written_as_the_option_reads_them():
    assert layout_of({"a": (0, 1), "b": (2,)}, 1.5) == "a: 0-1 capped 1.5; b: 2 capped 1.5"
    assert layout_of({"a": (0, 1)}) == "a: 0-1 fair"
