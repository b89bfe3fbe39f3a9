# SPDX-License-Identifier: Apache-2.0
"""Which time a page shows, as its address says it."""

from datetime import UTC, datetime

import pytest

from vp_dashboard.span import Span, around, earlier_end, latest_moment, moment_of, span_of

END = "2026-01-02T03:00:00Z"


@pytest.mark.parametrize(
    ("asked", "span"),
    [
        ({}, Span(1, None)),
        ({"hours": "6"}, Span(6, None)),
        ({"hours": "7", "end": "y"}, Span(1, None)),
        ({"hours": "24", "end": END}, Span(24, END)),
    ],
)
def test_what_is_no_time_is_as_if_it_were_absent(asked, span):
    assert span_of(asked) == span


def test_the_last_hour_asks_no_clock():
    assert Span(1, None).query == {}
    assert Span(6, END).query == {"begin": "2026-01-01T21:00:00Z", "end": END}


def test_later_and_closer():
    assert Span(6, END).later == "2026-01-02T09:00:00Z"
    assert Span(6, None).later is None
    assert [Span(hours, None).closer_hours for hours in (1, 6, 24, 168)] == [None, 1, 6, 24]


@pytest.mark.parametrize(
    "text",
    [
        END,
        "2026-01-02 03:00 UTC",
        "2026-01-02 03:00:00 UTC",
        "2026-01-02T03:00",
        "2026-01-02 03:00 ",
    ],
)
def test_a_time_can_be_typed_as_pages_show_it(text):
    assert moment_of(text) == END


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("14:10", "2026-01-01T14:10:00Z"),
        ("03:00", END),
        ("02:59:30", "2026-01-02T02:59:30Z"),
        ("2026-01-02 03:00 UTC", END),
        ("25:00", None),
        ("noon", None),
    ],
)
def test_a_time_of_day_is_the_latest_one(text, moment):
    assert latest_moment(text, datetime(2026, 1, 2, 3, 4, tzinfo=UTC)) == moment


def test_around_a_moment():
    expected = {"begin": "2026-01-02T02:50:00Z", "end": "2026-01-02T03:10:00Z"}
    assert around(END, 10) == expected


@pytest.mark.parametrize(
    ("shown", "before", "expected"),
    [
        ([{"at": END}], [{"at": "2026-01-02T01:00:00Z"}], END),
        ([{"at": END}], [], None),
        ([], [1], None),
    ],
)
def test_earlier_is_where_something_is_recorded(shown, before, expected):
    asked = []

    def ask(**query):
        asked.append(query)
        return before

    assert earlier_end(shown, Span(6, None), ask) == expected
    wanted = {"every": "1", "begin": "2026-01-01T21:00:00Z", "end": END}
    assert asked == ([wanted] if shown else [])
