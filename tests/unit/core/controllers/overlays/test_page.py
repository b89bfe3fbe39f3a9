# SPDX-License-Identifier: Apache-2.0
"""The page of `overlays` says what it does: its calls, its refusals, its numbers."""

from nova_vp.core.controllers.overlays import (
    accounts,
    bandwidth,
    borrow,
    caps,
    concede,
    emulator_weight,
    grant,
    lending,
    memory_size,
    standing,
    tune,
    weights,
)
from nova_vp.core.controllers.overlays.controller import Overlays
from nova_vp.core.types.island import Scheduler
from nova_vp.core.types.overlay import CallResource, Nack, Verb
from tests.pages import check_page, codes, first_codes, section

PAGE = check_page(Overlays())


def test_every_call_and_resource_is_explained() -> None:
    told = set(codes(section(PAGE, "Calls")))
    assert {one.value for one in (*Verb, *CallResource)} <= told


def test_every_refusal_is_explained_but_those_of_a_host_without_it_and_of_none() -> None:
    told = first_codes(section(PAGE, "Refusals"))
    assert set(told) == {one.value for one in Nack} - {"disabled", "unreachable"}


def test_numbers_that_are_no_options_are_those_of_the_code() -> None:
    assert (tune.WEIGHT_STEP, "multiplied by 1.25" in PAGE) == (1.25, True)
    assert (tune.MOST_TIMES, "up to eight times in a row" in PAGE) == (1.25**8, True)
    assert (tune.LEAST_TIMES, "by up to six steps" in PAGE) == (1.25**-6, True)
    assert (grant.MOST_TURNS, "more than three times" in PAGE) == (3, True)
    assert (standing.QUICK_S, "each within 5 s" in PAGE) == (5.0, True)
    assert (memory_size.STEP_RATIO, "a tenth of the flavor's memory" in PAGE) == (0.1, True)
    assert (memory_size.SPARE_RATIO, "what it uses and a tenth more" in PAGE) == (0.1, True)
    assert (emulator_weight.STEP_TIMES, "twice as much, or half as much" in PAGE) == (2.0, True)
    assert (emulator_weight.MOST_STEPS, "after three steps" in PAGE) == (3, True)
    assert (weights.UNSET_FLOOR, "keeps a tenth of each vCPU" in PAGE) == (0.1, True)
    assert (accounts.BURST_S, "twice as often once" in PAGE) == (2.0, True)
    assert (accounts.LEAST_HOLD_S, "refused for 0.1 s" in PAGE) == (0.1, True)
    assert (accounts.MOST_HOLD_S, "up to 10 s" in PAGE) == (10.0, True)
    assert (concede.INTERVAL_S, "one in 30 ms" in PAGE) == (0.03, True)
    assert (concede.WAITS_RATIO, "for less than 1 %" in PAGE) == (0.01, True)
    assert (concede.SETTLES_S, "After 1 s at the soonest" in PAGE) == (1.0, True)
    assert (grant.LEAST_LEASE_S, "down to 0.1 s" in PAGE) == (0.1, True)
    assert (concede.UNMET_S, "refused for 60 s" in PAGE) == (60.0, True)
    assert (caps.HEADROOM, "what it wants and a quarter more" in PAGE) == (1.25, True)
    assert (caps.DEAD_RATIO, "by more than 2 % of what Nova gave" in PAGE) == (0.02, True)
    assert (caps.FULL_RATIO, "more than 98 % of its cap" in PAGE) == (0.98, True)
    assert (caps.LOAN_S, "2 s after the island last wanted it" in PAGE) == (2.0, True)
    assert (lending.SPARE_RATIO, "a tenth of its CPUs" in PAGE) == (0.1, True)
    assert (lending.NEED_RATIO, "more than nine tenths of what it has" in PAGE) == (0.9, True)
    assert (bandwidth.BUSY_RATIO, "nine tenths of its [measured limit]" in PAGE) == (0.9, True)
    assert (borrow.WAITS_S, "are refused for 10 s: another CPU" in PAGE) == (10.0, True)


def test_every_kind_of_island_is_explained() -> None:
    assert first_codes(section(PAGE, "Islands")) == [one.value for one in Scheduler]


def test_it_is_off_by_default_and_says_so() -> None:
    assert not Overlays.is_default
    assert "off\nby default" in PAGE
