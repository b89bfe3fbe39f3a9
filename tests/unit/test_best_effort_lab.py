# SPDX-License-Identifier: Apache-2.0
"""`tests.bench.best_effort --lab`: which seconds count, and what is said of them."""

import pytest

from tests.bench.best_effort_lab import (
    BEGIN_S,
    FLASH,
    SECONDS,
    STEPS,
    TARGET_MS,
    Client,
    Run,
    Second,
    counted_seconds,
    met_ratio,
    numbers_of,
    summarize,
    work_of,
)

EACH = SECONDS // len(STEPS)
LINE = "RATE server t={}.003 epoch=1795529513.075 ops=120 vcpu=0 p50_us=900 p95_us=2500 p99_us=3000"


def a_run(p95_ms=5.0, missed=(), work=1.0):
    """All seconds but each step's last are reported; `missed` are those above the target."""
    seconds = [
        Second(BEGIN_S + at + 1.002, 120, 2 * TARGET_MS if at in missed else p95_ms)
        for at in range(EACH * len(STEPS))
        if (at + 1) % EACH
    ]
    return Run(seconds, {"stream": work, "compute": work}, 0.0)


def test_the_load_begins_when_all_have_booted_and_has_its_flash():
    items = work_of(SECONDS).split(",")
    assert items[0] == f"idle@until={BEGIN_S}"
    assert items[1].endswith(f"/~120@{EACH}")
    assert items[1 + FLASH].endswith(f"/~400@{EACH}")


def test_what_the_client_printed_is_read(tmp_path):
    console = tmp_path / "console"
    console.write_text("GUEST x\n" + LINE.format(21) + "\n" + LINE.format(22) + "\nRATE server t=2")
    assert Client(console).seconds() == [Second(21.003, 120, 2.5), Second(22.003, 120, 2.5)]


def test_seconds_that_the_server_alone_misses_do_not_count_nor_a_flashs_first():
    counted = counted_seconds(a_run(missed={3, 50}).seconds, SECONDS)
    assert counted.isdisjoint({3, 50, FLASH * EACH})
    assert FLASH * EACH + 1 in counted
    assert len(counted) == len(STEPS) * (EACH - 1) - 3


@pytest.mark.parametrize("silent", [False, True])
def test_a_second_above_the_target_or_without_an_answer_is_missed(silent):
    counted = counted_seconds(a_run().seconds, SECONDS)
    run = a_run(missed={4, 5})
    if silent:
        run = Run([one for one in a_run().seconds if one.uptime_s > BEGIN_S + 2], {}, 0.0)
    assert met_ratio(run.seconds, counted) == pytest.approx(1 - 2 / len(counted), abs=0.003)


def test_ours_is_held_against_the_best_that_was_published():
    runs = {"adaptive": a_run(work=2.0), "hybrid-tuned": a_run(work=3.0)}
    found = summarize({"stream": 10.0, "compute": 10.0}, a_run(), runs, SECONDS)
    numbers = numbers_of(found)
    assert numbers["less_work_than_tuned"] == pytest.approx(0.1)
    assert (numbers["missed_ratio"], numbers["intervals_lacking"]) == (0.0, 0)
