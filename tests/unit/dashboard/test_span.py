# SPDX-License-Identifier: Apache-2.0
"""Which time a page shows, as its address says it."""

import pytest

from vp_dashboard.span import Span, span_of

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
