# SPDX-License-Identifier: Apache-2.0
"""Values in words, one row each."""

import pytest

from vp_client import words


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (words.age(0), "0 s"),
        (words.age(119), "119 s"),
        (words.age(120), "2 min"),
        (words.age(7200), "2 h"),
        (words.number(0), "0"),
        (words.number(0.6789), "0.679"),
        (words.number(1234), "1.23 k"),
        (words.number(2.5e6), "2.5 M"),
        (words.number(7e9), "7 G"),
        (words.percent(0.025), "2.5%"),
        (words.yes_no(None), "unknown"),
        (words.yes_no(False), "no"),
        (words.words([]), "none"),
        (words.words([0, 1]), "0, 1"),
        (words.unmanaged({"reason": "realtime", "detail": ""}), "yes, realtime"),
        (words.server({"server_id": "id", "name": None}), "id"),
        (words.actions([]), "none"),
    ],
)
def test_words(told, expected):
    assert told == expected


def test_long_lines_are_continued_with_an_indent():
    assert words.wrap("one two three", 8) == "one two\n  three"


def test_an_id_is_not_broken_at_its_hyphens():
    assert words.wrap("moved 1234-5678-9abc", 16) == "moved\n  1234-5678-9abc"


def test_a_word_longer_than_a_column_is_broken():
    assert max(map(len, words.wrap("x" * 40, 12).splitlines())) <= 12
