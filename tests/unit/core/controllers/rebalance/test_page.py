# SPDX-License-Identifier: Apache-2.0
"""The page of `rebalance` says what it does: its reasons, its numbers."""

from nova_vp.core.controllers.rebalance import controller
from nova_vp.core.controllers.rebalance.controller import Rebalance
from nova_vp.core.controllers.rebalance.declaration import REASONS
from nova_vp.core.model import arrangement
from tests.pages import check_page, codes, section

PAGE = check_page(Rebalance())


def test_every_reason_is_explained() -> None:
    text = section(PAGE, "What it claims")
    assert {reason.code for reason in REASONS} <= set(codes(text))


def test_numbers_that_are_no_options_are_those_of_the_code() -> None:
    when = section(PAGE, "When it looks")
    assert f"{controller.FIRST_WAIT_S:.0f} s later" in when
    longest_min = controller.FIRST_WAIT_S * 2**controller.MOST_DOUBLINGS / 60
    assert f"up to {longest_min:.0f} minutes" in when
    assert (arrangement.MOST_PAID_TIMES, "up to three times" in PAGE) == (3.0, True)
