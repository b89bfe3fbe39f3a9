# SPDX-License-Identifier: Apache-2.0
"""What a server lost before and after an action, and two times side by side."""

from datetime import UTC, datetime

import pytest

from vp_dashboard import comparison
from vp_dashboard.comparison import Effect, Line, Measured, Measurement, Times

AT = "2026-01-02T03:30:20Z"
DONE = {"at": AT, "result": "mended"}


def a_minute(minute, **fields):
    return {"at": f"2026-01-02T03:{minute:02}:00Z", "metrics": None, **fields}


def losing(minute, ratio):
    return a_minute(minute, degradation_ratio=ratio)


def test_an_effect_is_of_ten_minutes_before_and_after_without_that_of_the_action():
    rows = [
        losing(19, 0.9),
        losing(20, 0.2),
        losing(29, 0.4),
        losing(30, 0.9),
        losing(31, 0.1),
        losing(40, 0.0),
        losing(41, 0.9),
    ]
    found = comparison.effect(rows, DONE)
    assert found == Effect(pytest.approx(30.0), pytest.approx(5.0))
    assert str(found) == "30% → 5%"


def test_the_time_before_is_that_in_which_the_server_was_degraded_as_at_last():
    rows = [losing(27, 0.0), losing(28, 0.4), losing(29, 0.8), losing(31, 0.0)]
    assert comparison.effect(rows, DONE) == Effect(pytest.approx(60.0), 0.0)
    well = [losing(28, 0.4), losing(29, 0.0), losing(31, 0.2)]
    assert comparison.effect(well, DONE) == Effect(0.0, pytest.approx(20.0))


def test_neither_time_reaches_beyond_another_action():
    rows = [losing(minute, minute / 100) for minute in range(20, 41)]
    others = ["2026-01-02T03:26:10Z", AT, "2026-01-02T03:34:50Z"]
    found = comparison.effect(rows, DONE, others)
    assert found == Effect(pytest.approx(28.0), pytest.approx(32.0))


def test_where_another_action_leaves_no_minute_nothing_is_measured():
    rows = [BEFORE, AFTER]
    for other in ("2026-01-02T03:29:50Z", "2026-01-02T03:31:10Z"):
        found = comparison.measured(rows, DONE, LATER, [other])
        assert found == Measured(Measurement.TOO_CLOSE)


def test_actions_that_concern_a_server_changed_it_or_another_one_for_it():
    own, other = {"server_id": "A"}, {"server_id": "b"}
    actions = [
        {"at": "1", "result": "mended", "server": own, "victim": None},
        {"at": "2", "result": "applied", "server": other, "victim": own},
        {"at": "3", "result": "applied", "server": other, "victim": None},
        {"at": "4", "result": "proposed", "server": own, "victim": None},
    ]
    assert comparison.concerning(actions, "a") == ["1", "2"]


def test_what_was_not_recorded_is_unknown():
    assert str(comparison.effect([losing(29, 0.4), losing(31, None)], DONE)) == "40% → unknown"


@pytest.mark.parametrize("result", ["proposed", "withdrawn", "rejected", "failed"])
def test_what_was_not_done_has_no_effect(result):
    rows = [losing(29, 0.4), losing(31, 0.1)]
    assert comparison.effect(rows, {**DONE, "result": result}) is None


def test_a_server_that_has_just_arrived_lost_nothing_before_that_could_be_compared():
    assert comparison.effect([losing(31, 0.4)], DONE) is None


def test_without_a_history_by_minute_nothing_is_measured_unless_there_is_nothing_to_measure():
    assert comparison.measured(None, DONE, LATER) is None
    undone = comparison.measured(None, {"at": AT, "result": "undone"}, LATER)
    assert undone == Measured(Measurement.UNDONE)


def test_a_tenant_has_percent():
    rows = [a_minute(29, degradation_percent=20), a_minute(31, degradation_percent=0)]
    assert str(comparison.effect(rows, DONE)) == "20% → 0%"


def test_two_times_side_by_side():
    metrics = {"mpki": 10.0, "cpi": 2.0, "cpu_cores": 1.0}
    before = [
        a_minute(0, degradation_ratio=0.4, waiting_ratio=0.1, metrics=metrics),
        a_minute(1, degradation_ratio=0.2, waiting_ratio=None, metrics={**metrics, "cpi": 4.0}),
    ]
    lines = {line.key: line for line in comparison.compare(before, [])}
    assert lines["performance_percent"].before == pytest.approx(70.0)
    assert lines["waiting_percent"].before == pytest.approx(10.0)
    assert lines["cpi"] == Line("cpi", "CPI", 3.0, None)


@pytest.mark.parametrize(
    "asked",
    [{}, {"a": AT}, {"a": AT, "b": "x"}, {"a": "", "b": AT}, {"a": AT, "b": "9999-99-99"}],
)
def test_what_are_no_two_times(asked):
    assert comparison.times_of(asked) is None


def test_each_time_is_as_long_as_asked_or_ten_minutes():
    asked = {"a": AT, "b": AT}
    for minutes, expected in (("30", 30), ("31", 10), ("x", 10)):
        assert comparison.times_of({**asked, "minutes": minutes}).minutes == expected
    query = comparison.times_of(asked).query(AT)
    assert query == {"begin": AT, "end": "2026-01-02T03:40:20Z", "every": "1"}


def test_around_an_action_its_own_minute_is_left_out():
    times = comparison.around(AT)
    assert (times.a, times.b) == ("2026-01-02T03:20:00Z", "2026-01-02T03:31:00Z")


LATER = datetime(2026, 1, 2, 3, 45, tzinfo=UTC)
BEFORE, AFTER = losing(29, 0.477), losing(31, 0.0)


@pytest.mark.parametrize(
    ("result", "rows", "kind"),
    [
        ("mended", [BEFORE, AFTER], Measurement.KNOWN),
        ("applied", [BEFORE, AFTER], Measurement.KNOWN),
        ("applied", [AFTER], Measurement.NOT_BEFORE),
        ("applied", [BEFORE], Measurement.NOT_AFTER),
        ("undone", [BEFORE, AFTER], Measurement.UNDONE),
        ("proposed", [BEFORE, AFTER], Measurement.NOT_DONE),
        ("failed", [BEFORE, AFTER], Measurement.NOT_DONE),
    ],
)
def test_what_was_lost_before_and_after_or_why_that_is_not_known(result, rows, kind):
    found = comparison.measured(rows, {"at": AT, "result": result}, LATER)
    assert found.kind is kind
    if kind is Measurement.KNOWN:
        assert (found.before, found.after) == ("47.7%", "0%")


def test_until_the_next_record_it_waits():
    now = datetime(2026, 1, 2, 3, 31, 30, tzinfo=UTC)
    found = comparison.measured([BEFORE], DONE, now)
    assert found == Measured(Measurement.WAITING, found.effect, "2026-01-02T03:32:00Z")
    assert found.before == "47.7%"


def test_a_query_has_all_minutes_that_count():
    query = comparison.query_around(AT, "2026-01-02T03:50:30Z")
    assert query == {"begin": "2026-01-02T03:20:00Z", "end": "2026-01-02T04:01:00Z"}


def test_where_no_cycle_was_counted_there_is_no_rate():
    idle = a_minute(1) | {"metrics": {"cpi": 0.0, "mpki": 0.0, "cpu_cores": 0.01}}
    assert comparison.metric("cpi")(idle) is None
    assert comparison.metric("mpki")(idle) is None
    assert comparison.metric("cpu_cores")(idle) == 0.01


def test_a_server_that_is_younger_than_the_first_time():
    times = Times("2026-01-02T03:00:00Z", "2026-01-02T03:31:00Z", 10)
    assert comparison.younger_since(times, [], [AFTER]) == AFTER["at"]
    for before, history in (([BEFORE], [AFTER]), ([], []), ([], [losing(0, 0.1)])):
        assert comparison.younger_since(times, before, history) is None


def test_how_many_minutes_were_recorded_is_told():
    first, *_ = comparison.compare([BEFORE], [])
    assert (first.key, first.before, first.after) == ("recorded_minutes", 1, 0)
