# SPDX-License-Identifier: Apache-2.0
"""What the comparisons with tempest and Watcher make of what they see, without a cloud."""

import struct
from pathlib import Path

import pytest

from testbed.lab.monitor import Rate
from tests.bench.watcher import well_again
from tests.tempest.__main__ import compare
from tests.watcher import gnocchi, occupancy

BEGAN_AT, RELIEVED_OPS = 100.0, 90.0


def rates(*ops: int) -> list[Rate]:
    """One a second from when it began."""
    return [Rate(BEGAN_AT + n, "chase", each, 0.0) for n, each in enumerate(ops, 1)]


@pytest.mark.parametrize(
    ("label", "ops", "seconds"),
    [
        ("never hurt", (100,) * 9, None),
        ("still hurt", (100, 40, 40, 40, 40, 40), None),
        ("well since the fourth", (100, 40, 40, 95, 95, 95, 95, 95), 4.0),
        ("a single good rate is no relief", (40, 95, 40, 95, 95, 95, 95, 95, 95), 4.0),
        ("not seen for long enough", (40, 95, 95, 95, 95), None),
    ],
)
def test_relief_begins_when_the_victim_is_well_for_good(label, ops, seconds) -> None:
    at = well_again(rates(*ops), BEGAN_AT, RELIEVED_OPS)
    assert (at and at - BEGAN_AT) == seconds, label


@pytest.mark.parametrize(
    ("label", "with_ours", "is_good"),
    [
        ("the same", {"a": "passed", "live migration: b": "passed"}, True),
        ("one fails", {"a": "passed", "live migration: b": "failed"}, False),
        ("one is skipped", {"a": "skipped", "live migration: b": "passed"}, False),
        ("one is not there", {"a": "passed"}, False),
    ],
)
def test_a_cloud_behaves_the_same_if_the_same_tests_pass(label, with_ours, is_good) -> None:
    without = {"a": "passed", "live migration: b": "passed"}
    runs = {"without": without, "with": with_ours}
    result = compare(runs, {"without": 0, "with": 7}, {"our API: c": "passed"})
    assert result["good"] is is_good, label
    assert bool(result["different"]) is not is_good
    assert result["runs"]["without"]["live_migrations_passed"] == 1


@pytest.mark.parametrize(("outcome", "is_good"), [("passed", True), ("skipped", False)])
def test_every_test_of_our_plugin_must_pass_and_differs_from_nothing(outcome, is_good) -> None:
    runs = {"without": {"a": "passed"}, "with": {"a": "passed"}}
    result = compare(runs, {"without": 0, "with": 7}, {"our API: c": outcome})
    assert (result["good"], result["different"]) == (is_good, {})
    assert result["ours"][outcome] == 1


@pytest.mark.parametrize("judged", [{"without": 0, "with": 0}, {"without": 7, "with": 7}])
def test_a_run_whose_scheduler_was_not_as_it_is_named_proves_nothing(judged) -> None:
    runs = {"without": {"a": "passed"}, "with": {"a": "passed"}}
    assert not compare(runs, judged, {})["good"]


def test_tests_that_are_skipped_in_both_runs_prove_nothing() -> None:
    skipped = {"a": "skipped"}
    runs = {"without": skipped, "with": skipped}
    assert not compare(runs, {"without": 0, "with": 7}, {})["good"]


def test_what_a_guest_holds_of_a_cache_is_counted_in_its_tags(tmp_path: Path) -> None:
    folder = tmp_path
    header = occupancy.LLC_HEADER.pack(1, 1, 64, 2, 2, 8).ljust(64, b"\0")
    tags = struct.pack("<4I", 3 << 24 | 1, 3 << 24 | 2, 7 << 24 | 1, 0)
    (folder / "llc.0").write_bytes(header + tags)
    (folder / "vm.instance-00000001").write_bytes(
        struct.pack("<28xI", 3).ljust(128, b"\0") + b"instance-00000001".ljust(256, b"\0")
    )
    assert occupancy.held_in(folder) == {"instance-00000001": 2 * 64 * 8}


def test_measures_are_the_mean_of_the_span_that_is_asked_for() -> None:
    measures = gnocchi.Measures(dict)
    measures.close()
    for at, value in ((10.0, 1.0), (20.0, 3.0), (30.0, 100.0)):
        measures.add("server", at, value)
    assert measures.mean("server", 5, 25) == 2.0
    assert measures.mean("server", 40, 50) is None
