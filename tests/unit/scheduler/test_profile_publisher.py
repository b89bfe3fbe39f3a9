# SPDX-License-Identifier: Apache-2.0
"""What is learned of the projects' votes: the median class of enough of them, those first that most
vote on."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_vp import wire
from nova_vp.db.records import ClassCount
from nova_vp.newcomer_class import RANKS, median_class
from vp_scheduler.ingest.profile_publisher import learn


@pytest.mark.parametrize(
    ("label", "votes", "lesson"),
    [
        ("nothing measured", [], []),
        ("too few", [("m1", "i1", 4, 2)], []),
        ("no vote of its own", [("m1", "i1", 4, 3), ("m1", "i1", 2, 0)], [("m1", "i1", 4)]),
        ("most of them", [("m1", "i1", 4, 2), ("m1", "i1", 2, 1)], [("m1", "i1", 4)]),
        (
            "one is never decisive among three",
            [("m1", "i1", 0, 1), ("m1", "i1", 4, 1), ("m1", "i1", 2, 1)],
            [("m1", "i1", 4)],
        ),
        (
            "of two middle ones the more pressing",
            [("m1", "", 4, 2), ("m1", "", 1, 2)],
            [("m1", "", 1)],
        ),
        (
            "by cache pressure, not by number",
            [("m1", "", 2, 1), ("m1", "", 6, 1), ("m1", "", 8, 1)],
            [("m1", "", 8)],
        ),
        (
            "each image for itself, and all of a flavor",
            [("m1", "i1", 4, 3), ("m1", "i2", 0, 3), ("m2", "i1", 8, 1), ("m1", None, 3, 6)],
            [("m1", None, 3), ("m1", "i1", 4), ("m1", "i2", 0)],
        ),
    ],
)
def test_learn(
    label: str,
    votes: list[tuple[str, str | None, int, int]],
    lesson: list[tuple[str, str | None, int]],
) -> None:
    counts = [ClassCount(*kind, vps=100, projects=projects) for *kind, projects in votes]
    assert learn(counts, least_projects=3) == lesson, label


def test_no_more_than_a_message_takes_and_those_that_most_projects_vote_on() -> None:
    counts = [ClassCount(f"m{n}", "", 4, 9 * n, n) for n in range(3, wire.MAX_LEARNED + 100)]
    flavors = {flavor for flavor, _, _ in learn(counts, least_projects=3)}
    assert len(flavors) == wire.MAX_LEARNED
    assert "m99" not in flavors


@given(
    honest=st.lists(st.integers(0, 8), min_size=2),
    hostile=st.lists(st.integers(0, 8)),
)
def test_a_minority_moves_the_median_no_further_than_the_others_go(
    honest: list[int], hostile: list[int]
) -> None:
    del hostile[len(honest) - 1 :]
    ranks = [RANKS[number] for number in honest]
    assert min(ranks) <= RANKS[median_class(Counter(honest + hostile))] <= max(ranks)
