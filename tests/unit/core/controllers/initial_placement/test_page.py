# SPDX-License-Identifier: Apache-2.0
"""The page of `initial_placement` says what it does: when, and in which modes."""

import pytest

from nova_vp import flavor_specs
from nova_vp.core.controllers.initial_placement.controller import InitialPlacement
from nova_vp.core.controllers.initial_placement.declaration import (
    MEMORY_SPLIT,
    Homing,
    PlacementSettings,
)
from nova_vp.core.types.policy import Mode
from tests.pages import check_page, codes, rows

PAGE = check_page(InitialPlacement())
TABLE = [row for row in rows(PAGE.split("## Which cache")[0]) if len(row) == 4]


def test_every_value_of_its_option_stands_there_for_every_mode() -> None:
    header, *told = TABLE
    assert [codes(cell) for cell in header[1:]] == [[mode.value] for mode in Mode]
    assert [codes(row[0])[0] for row in told] == [homing.value for homing in Homing]


@pytest.mark.parametrize("homing", Homing)
def test_where_it_places_newcomers_it_says_so(homing: Homing) -> None:
    [told] = [row[1:] for row in TABLE if codes(row[0]) == [homing.value]]
    for mode, word in zip(Mode, told, strict=True):
        places = InitialPlacement().places_newcomers(mode, PlacementSettings(homing))
        assert places == (word == "placed")


def test_the_values_of_its_flavor_key_stand_there() -> None:
    assert MEMORY_SPLIT.expected in PAGE
    example = MEMORY_SPLIT.expected.rpartition(" ")[2]
    assert flavor_specs.fault(MEMORY_SPLIT.key, example) is None
