# SPDX-License-Identifier: Apache-2.0
"""What is flexible in a table shares the room that the rest leaves."""

import pytest

from vp_client import columns
from vp_client.columns import Cell, Flexible

ID = "1" * 36


def lines_of(*names):
    """The text of each flexible cell in a table of one row, beside an id and a state."""
    flexible = [columns.flexible(name) for name in names]
    headers = ["ID", "State", *("N" for _ in names)]
    _, [row] = columns.table(headers, [[ID, Cell(8, "8 bulldog, mf>0.6"), *flexible]])
    assert not any(isinstance(cell, Flexible) for cell in row)
    assert row[1].machine_readable() == 8
    return [cell.human_readable().split("\n") for cell in row[2:]]


@pytest.mark.parametrize(
    ("names", "widest"),
    [
        (["demo-neighbour", "vp1"], [14, 3]),
        (["n" * 17, "h" * 17], [17, 17]),
        (["n" * 30, "h" * 4], [30, 4]),
        (["n" * 200, "h" * 4], [30, 4]),
        (["n" * 200, "h" * 200], [17, 17]),
        (["n" * 200, "h" * 10, "f" * 200], [10, 10, 11]),
        (["n"] * 40, [1] * 40),
    ],
)
def test_names_break_only_where_there_is_no_room(names, widest):
    assert [max(map(len, lines)) for lines in lines_of(*names)] == widest


def test_a_code_breaks_at_its_hyphens():
    _, [row] = columns.table(["R", "X"], [[columns.code("undo-ineffective"), "x" * 80]])
    assert row[0].human_readable() == "undo-\nineffective"
    _, [row] = columns.table(["R", "X"], [[columns.code("undo-ineffective"), "x" * 77]])
    assert row[0].human_readable() == "undo-ineffective"


def test_a_table_without_rows():
    assert columns.table(["A", "B"], []) == (("A", "B"), [])


def test_a_header_that_is_wider_than_a_share_takes_from_the_others():
    headers = ["Server ID", "r" * 56, "Name", "Host", "Project"]
    names = [columns.code(ID), "", *(columns.flexible("n" * 40) for _ in range(3))]
    _, [row] = columns.table(headers, [names])
    texts = [cell.human_readable() for cell in (row[0], *row[2:])]
    assert [max(map(len, text.split("\n"))) for text in texts] == [9, 6, 6, 7]
    assert 9 + 56 + 6 + 6 + 7 + columns.BORDERS * 5 + 1 == columns.WIDTH


def test_a_wide_header_leaves_its_column_what_others_do_not_need():
    headers = ["Server ID", "r" * 63, "A", "B"]
    _, [row] = columns.table(
        headers, [[columns.flexible("s" * 40), "", *map(columns.flexible, "ab")]]
    )
    assert len(row[0].human_readable().split("\n")[0]) == 22


def test_a_header_counts():
    _, [row] = columns.table(["h" * 90, "N"], [["x", columns.flexible("n" * 20)]])
    assert row[1].human_readable().startswith("nnnnnn\n")
