# SPDX-License-Identifier: Apache-2.0
"""The page of `merlin` says what it does: its rungs, its numbers."""

from nova_vp.core.controllers.merlin import controller
from nova_vp.core.controllers.merlin.controller import Merlin
from nova_vp.core.types.reason import Rung
from tests.pages import check_page, codes, rows

OF_MITIGATION = {Rung.MOVE_MEMORY, Rung.PARTITION, Rung.CAP}
PAGE = check_page(Merlin())


def test_every_rung_is_explained() -> None:
    told = [code for row in rows(PAGE) if row[0].startswith("rung ") for code in codes(row[0])]
    assert len(told) == len(set(told))
    assert set(told) == {rung.value for rung in Rung if rung not in OF_MITIGATION}


def test_numbers_that_are_no_options_are_those_of_the_code() -> None:
    assert (controller.FORGET_EPOCHS, "for three epochs" in PAGE) == (3, True)
    assert (controller.SATISFIED, "less than half of them" in PAGE) == (0.5, True)


def test_it_is_off_by_default_and_says_so() -> None:
    assert not Merlin.is_default
    assert "off by default" in PAGE
