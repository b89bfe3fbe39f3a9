# SPDX-License-Identifier: Apache-2.0
"""The page of `permits` says what it does: how pollution is attributed, its numbers."""

from nova_vp.core.controllers.permits import controller, dedication
from nova_vp.core.controllers.permits.controller import Permits
from nova_vp.core.controllers.permits.declaration import How
from tests.pages import check_page, first_codes, section

PAGE = check_page(Permits())


def test_every_way_of_attribution_is_explained() -> None:
    assert first_codes(section(PAGE, "What is charged")) == [how.value for how in How]


def test_every_figure_is_explained() -> None:
    told = first_codes(section(PAGE, "Who sees it"))
    assert told == [figure.name for figure in Permits.figures]


def test_numbers_that_are_no_options_are_those_of_the_code() -> None:
    assert (controller.SAME_CAP, "differs by a fifth or more" in PAGE) == (0.2, True)
    assert (controller.UNUSED_CAP, "less than nine tenths of what its cap leaves it" in PAGE) == (
        0.9,
        True,
    )
    assert (Permits.flavor_keys[0].cap_floor_ratio, "`vp:cpu_floor` is 1 by default" in PAGE) == (
        0.01,
        True,
    )
    assert (dedication.SURE_RATIO, dedication.UNSURE_SAMPLES, dedication.REFILL_S) == (0.9, 10, 2.0)
    assert (controller.TICK_US, controller.LEAST_QUOTA_US) == (10_000, 1000)
    assert "10 ms, or as long as the kernel's least quota of 1 ms needs" in PAGE
    assert "less than 0.9 sure in ten samples in a row" in PAGE
    assert "the first 2 seconds" in PAGE


def test_it_is_off_by_default_and_says_so() -> None:
    assert not Permits.is_default
    assert "off by default" in PAGE
