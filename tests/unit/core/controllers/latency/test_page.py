# SPDX-License-Identifier: Apache-2.0
"""The page of `latency` says what it does: its loops, its rulings, its numbers."""

from nova_vp.core.controllers.latency import adaptive, shares
from nova_vp.core.controllers.latency.controller import Latency
from nova_vp.core.controllers.latency.declaration import Loop, Ruling
from tests.pages import check_page, codes, first_codes, section

PAGE = check_page(Latency())


def test_every_loop_is_explained() -> None:
    told = first_codes(section(PAGE, "The source's loops"))
    assert [*told, "adaptive"] == [one.value for one in Loop][1:] + [Loop.ADAPTIVE.value]


def test_every_figure_and_ruling_is_explained() -> None:
    seen = section(PAGE, "Who sees it")
    assert first_codes(seen) == [figure.name for figure in Latency.figures]
    assert {one.value for one in Ruling} <= set(codes(seen))


def test_numbers_that_are_no_options_are_those_of_the_code() -> None:
    assert (adaptive.CEILING, "0.95 of the target" in PAGE) == (0.95, True)
    assert (adaptive.STEP_RATIO, "at most a sixteenth" in PAGE) == (1 / 16, True)
    assert (adaptive.STEP_RISE, "by more than a tenth" in PAGE) == (0.1, True)
    assert (adaptive.CUT, "halves" in PAGE) == (0.5, True)
    assert (adaptive.RECOVERY_S, "again for 10 s" in PAGE) == (10.0, True)
    assert (adaptive.LEFT_OVER, "at most 0.15" in PAGE) == (0.15, True)
    assert (adaptive.MOST_JUMP, "up to 5 %" in PAGE) == (0.05, True)
    assert (shares.LEAST_QUOTA_US, "quota of 1000 µs" in PAGE) == (1000, True)
    assert (shares.LC_SHARES, "get 200000 shares" in PAGE) == (200_000, True)


def test_it_is_off_by_default_and_says_so() -> None:
    assert not Latency.is_default
    assert "off by default" in PAGE
