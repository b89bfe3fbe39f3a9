# SPDX-License-Identifier: Apache-2.0
"""What is learned of measured servers: the usual class of enough of them, the most used first."""

import pytest

from nova_vp import wire
from nova_vp.db.records import ClassCount
from vp_scheduler.ingest.profile_publisher import learn


@pytest.mark.parametrize(
    ("label", "counts", "lesson"),
    [
        ("nothing measured", [], []),
        ("too few", [("m1", "i1", 4, 2)], []),
        (
            "enough of different classes",
            [("m1", "i1", 4, 2), ("m1", "i1", 7, 1)],
            [("m1", "i1", 4)],
        ),
        ("as many: the more demanding", [("m1", "", 4, 2), ("m1", "", 1, 2)], [("m1", "", 4)]),
        (
            "each image for itself",
            [("m1", "i1", 4, 3), ("m1", "i2", 0, 3), ("m2", "i1", 8, 1)],
            [("m1", "i1", 4), ("m1", "i2", 0)],
        ),
    ],
)
def test_learn(
    label: str, counts: list[tuple[str, str, int, int]], lesson: list[tuple[str, str, int]]
) -> None:
    assert learn([ClassCount(*count) for count in counts], least_vps=3) == lesson, label


def test_no_more_than_a_message_takes_and_those_that_are_used_most() -> None:
    counts = [ClassCount(f"m{n}", "", 4, n) for n in range(3, wire.MAX_LEARNED + 100)]
    flavors = {flavor for flavor, _, _ in learn(counts, least_vps=3)}
    assert len(flavors) == wire.MAX_LEARNED
    assert "m99" not in flavors
