# SPDX-License-Identifier: Apache-2.0
"""The page of `vp` says what it does: its rungs, its numbers."""

from nova_vp.core.controllers.vp import controller, partners, relocate
from nova_vp.core.controllers.vp.controller import Vp
from nova_vp.core.model import cpu_cap
from nova_vp.core.types.reason import Rung
from tests.pages import check_page, first_codes, section

OF_DEMANDS = {Rung.RAISE_CAP, Rung.LOCAL_CPU, Rung.REMOTE_CPU}
PAGE = check_page(Vp())


def test_every_rung_is_explained_in_its_order() -> None:
    assert first_codes(section(PAGE, "The ladder")) == [
        rung.value
        for rung in (
            Rung.MOVE,
            Rung.MOVE_WITH_MEMORY,
            Rung.MOVE_MEMORY,
            Rung.SWAP,
            Rung.PARTITION,
            Rung.CAP,
        )
    ]
    assert set(first_codes(section(PAGE, "The ladder"))) == {
        rung.value for rung in Rung if rung not in OF_DEMANDS
    }


def test_numbers_that_are_no_options_are_those_of_the_code() -> None:
    assert f"| {cpu_cap.CAP_STEP:.0%}".replace("%", " %") in section(PAGE, "Caps")
    assert f"{partners.PARTNERS} quietest" in section(PAGE, "The ladder")
    assert (controller.AT_ONCE, "at most two\nvictims" in PAGE) == (2, True)
    assert (relocate.SUSPECTS, "three worst suspects" in PAGE) == (3, True)
