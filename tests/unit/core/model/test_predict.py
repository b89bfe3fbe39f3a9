# SPDX-License-Identifier: Apache-2.0
"""Which class of newcomer a measured VP counts as when another host judges it."""

import pytest

from nova_vp.core.model.predict import newcomer_class, newcomers, predict, resident, typical
from nova_vp.core.types.guest import Isolation
from nova_vp.core.types.sample import State
from tests.policies import a_policy

CLOCK_HZ = 2e9
POLICY = a_policy()
STREAM = resident("s", typical(State.from_number(8), CLOCK_HZ, POLICY), Isolation.NONE, POLICY)


@pytest.mark.parametrize(
    ("state", "is_cache_sensitive", "expected"),
    [
        (0, False, 0),
        (0, True, 1),
        (3, True, 1),
        (6, False, 6),
        (1, True, 1),
        (4, True, 4),
        (8, False, 8),
    ],
)
def test_class_of_a_measured_vp(state: int, is_cache_sensitive: bool, expected: int):
    assert newcomer_class(State.from_number(state), is_cache_sensitive) == expected


def test_only_a_strict_resident_forbids_a_place():
    """Its loss is told apart from that of one that did not ask for it."""
    needy = newcomers(CLOCK_HZ, POLICY)[4]
    told = predict(STREAM, [needy, needy._replace(is_strict=True)])
    assert told.worst_strict_ratio == told.worst_resident_ratio > 0.05
    assert predict(STREAM, [needy]).worst_strict_ratio == 0.0


def test_a_pug_that_lives_off_the_cache_is_told_to_be_hurt_beside_a_stream():
    classes = newcomers(CLOCK_HZ, POLICY)
    sensitive = predict(classes[newcomer_class(State.from_number(0), True)], [STREAM])
    calm = predict(classes[newcomer_class(State.from_number(0), False)], [STREAM])
    assert calm.newcomer_ratio == 0.0
    assert sensitive.newcomer_ratio > 0.1
