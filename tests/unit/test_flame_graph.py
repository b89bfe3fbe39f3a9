# SPDX-License-Identifier: Apache-2.0
"""Stacks become frames: shares, order, and what is left out."""

import xml.etree.ElementTree as ET

from tests.bench.flame_graph import Box, boxes, drawn, read

STACKS = [
    "main (a.py:1);tick (t.py:5);step (s.py:7) 60",
    "main (a.py:1);tick (t.py:6);read (r.py:1) 30",
    "main (a.py:1);tick (t.py:9) 10",
    "other (o.py:1) 900",
]


def test_only_what_runs_below_the_frame_counts():
    assert list(boxes(read(STACKS, "tick ("))) == [
        Box("tick (t.py)", 0, 0.0, 1.0),
        Box("read (r.py)", 1, 0.0, 0.3),
        Box("step (s.py)", 1, 0.3, 0.6),
    ]


def test_frames_too_narrow_to_be_seen_are_left_out_and_keep_their_room():
    narrow = [*STACKS[:3], "main (a.py:1);tick (t.py:6);aside (x.py:1) 0"]
    assert [box.name for box in boxes(read(narrow, "tick ("))][1:] == ["read (r.py)", "step (s.py)"]


def test_no_stack_no_boxes():
    assert list(boxes(read(STACKS, "nowhere"))) == []


def test_the_picture_has_a_box_and_a_tooltip_for_each_frame():
    svg = ET.fromstring(drawn(boxes(read(["<lambda> (<string>:1) 5"], "<lambda>"))))
    titles = [title.text for title in svg.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["<lambda> (<string>): 100.0%"]
