# SPDX-License-Identifier: Apache-2.0
from datetime import UTC, datetime

import pytest

from vp_dashboard import comparison, timeline
from vp_dashboard.timeline import Series

SERIES = [
    Series("State", lambda row: row["state"] and row["state"]["number"], most=8.0),
    Series("MPKI", comparison.metric("mpki")),
]


LATER = datetime(2026, 1, 9, tzinfo=UTC)


def a_chart(rows, events=(), every=1, closer_hours=None, now=LATER):
    return timeline.chart(rows, SERIES, events, every, now, closer_hours)


def a_row(minute, mpki=10.0, state=8, hurt=False):
    return {
        "at": f"2026-01-02T03:{minute:02}:00Z",
        "state": {"number": state, "name": ""} if state is not None else None,
        "hurt_by_neighbour": hurt,
        "metrics": None if mpki is None else {"mpki": mpki, "cpi": 1.0, "cpu_cores": 2.0},
    }


def track(chart, label):
    return next(one for one in chart.tracks if one.label == label)


def points(line):
    return [tuple(map(float, point.split(","))) for point in line.split()]


def test_nothing_recorded_is_no_chart():
    assert a_chart([]) is None


def test_a_curve_of_which_nothing_is_recorded_is_left_out():
    chart = a_chart([a_row(0, mpki=None), a_row(1, mpki=None)])
    assert [one.label for one in chart.tracks] == ["State"]
    assert a_chart([a_row(0, mpki=None, state=None)]).tracks == ()


def test_a_coarse_drawing_ends_now():
    rows = [a_row(0), {**a_row(0, hurt=True), "at": "2026-01-02T04:00:00Z"}]
    chart = a_chart(rows, every=60, now=datetime(2026, 1, 2, 4, 20, tzinfo=UTC))
    (band,) = chart.bands
    assert band.x + band.width == timeline.RIGHT
    assert band.width == pytest.approx((timeline.RIGHT - timeline.LEFT) / 4, abs=0.2)


def test_the_highest_value_reaches_the_top_and_time_fills_the_width():
    chart = a_chart([a_row(0, mpki=5.0), a_row(1, mpki=10.0)])
    mpki = track(chart, "MPKI")
    (line,) = mpki.lines
    middle = (timeline.LEFT + timeline.RIGHT) / 2
    half = (mpki.top + mpki.bottom) / 2
    assert points(line) == [
        (timeline.LEFT, half),
        (middle, half),
        (middle, mpki.top),
        (timeline.RIGHT, mpki.top),
    ]
    assert mpki.highest == 10.0


def test_what_was_not_measured_is_a_gap():
    rows = [a_row(0), a_row(1, mpki=None, state=None), a_row(2), a_row(9)]
    chart = a_chart(rows)
    assert len(track(chart, "MPKI").lines) == len(track(chart, "State").lines) == 3


def test_a_minute_in_which_it_was_degraded_is_shaded():
    chart = a_chart([a_row(0), a_row(1, hurt=True), a_row(2, hurt=None)])
    third = (timeline.RIGHT - timeline.LEFT) / 3
    (band,) = chart.bands
    assert (band.x, band.width) == (timeline.LEFT + third, third)


def test_actions_of_that_time_are_marked():
    done = [("2026-01-02T03:00:30Z", "capped"), ("2026-01-02T02:59:59Z", "before")]
    chart = a_chart([a_row(0)], done)
    (mark,) = chart.marks
    assert (mark.text, mark.x) == ("capped", (timeline.LEFT + timeline.RIGHT) / 2)


def test_only_zeros_lie_on_the_axis():
    mpki = track(a_chart([a_row(0, mpki=0.0)]), "MPKI")
    assert {y for _, y in points(mpki.lines[0])} == {float(mpki.bottom)}


def test_a_track_with_a_scale_of_its_own_keeps_it():
    assert track(a_chart([a_row(0, state=2)]), "State").highest == 8.0


def test_each_part_of_the_drawing_is_as_long_as_a_closer_look():
    rows = [{**a_row(0), "at": f"2026-01-02T{hour:02}:00:00Z"} for hour in range(3, 13)]
    zooms = a_chart(rows, every=60, closer_hours=6).zooms
    assert [(zoom.begin[11:16], zoom.end[11:16]) for zoom in zooms] == [
        ("07:00", "13:00"),
        ("03:00", "07:00"),
    ]
    assert zooms[-1].x == timeline.LEFT
    assert round(sum(zoom.width for zoom in zooms), 1) == timeline.RIGHT - timeline.LEFT
    assert a_chart(rows, every=60).zooms == ()


def ticks(begin, end, every):
    rows = [{**a_row(0), "at": begin}, {**a_row(0), "at": end}]
    return [one.text for one in a_chart(rows, every=every).ticks]


def test_times_are_written_at_full_minutes_hours_and_days():
    at = "2026-01-02T03:{}:00Z".format
    assert ticks(at("57"), at("59"), 1) == ["03:57", "03:58", "03:59", "04:00"]
    assert ticks("2026-01-02T13:07:00Z", "2026-01-02T14:06:00Z", 1) == [
        f"{hour}:{minute}" for hour, minute in ((13, 10), (13, 20), (13, 30), (13, 40), (13, 50))
    ] + ["14:00"]
    assert ticks("2026-01-01T03:00:00Z", "2026-01-07T03:00:00Z", 60)[:2] == ["01-02", "01-03"]
    x = [one.x for one in a_chart([a_row(0), a_row(1)]).ticks]
    assert x == [timeline.LEFT, (timeline.LEFT + timeline.RIGHT) / 2, timeline.RIGHT]
