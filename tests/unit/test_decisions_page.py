# SPDX-License-Identifier: Apache-2.0
"""The page on decisions says what the core does: its codes, its order, its numbers."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from nova_vp import flavor_specs
from nova_vp.core.controllers.vp import controller
from nova_vp.core.model import cost, cpu_cap
from nova_vp.core.pipeline.arbitrate import arbitrate
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Controller, Policy
from nova_vp.core.types.reason import TRIED, Reason, Rung
from nova_vp.core.types.want import PredictedLoss, Setting, Want
from vp_agent.drivers.guest_pages import CHUNK_PAGES

PAGE = (Path(__file__).parents[2] / "doc/source/architecture/decisions.md").read_text()


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """Cells of every row below a heading; a page has no other lines that begin with a bar."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def first_codes(title: str) -> list[str]:
    return [code for row in rows(section(title)) for code in codes(row[0])]


def test_every_interference_point_is_explained() -> None:
    assert first_codes("Where interference is found") == [kind.value for kind in Kind]


def test_every_rung_is_explained() -> None:
    told = {*first_codes("The ladder"), *first_codes("Merlin")}
    assert told == {rung.value for rung in Rung}


def test_every_knob_has_its_row_and_the_lease_that_the_plan_gives_it() -> None:
    text = section("One owner per knob").split("Of several wants")[0]
    leases = {codes(row[0])[0]: row[3] for row in rows(text)[1:]}
    leased = {knob.value: "no" for knob in Knob} | {Knob.CPU_CAP.value: f"{cpu_cap.LEASE_S:.0f} s"}
    assert leases == leased
    assert {one.value for one in Controller} <= set(codes(text))


def order() -> list[tuple[list[str], str]]:
    text = section("One owner per knob").split("Of several wants")[1]
    return [(codes(row[0]), row[1]) for row in rows(text)[1:]]


def test_every_reason_stands_there_with_whether_it_is_judged() -> None:
    judged = {Reason(code): word == "yes" for reasons, word in order() for code in reasons}
    assert judged == {reason: reason in TRIED for reason in Reason}


def a_want(code: str) -> Want:
    setting = Setting("guest", Knob.PLACEMENT, (frozenset({0}),))
    return Want(code, "guest", (setting,), (0,), Reason(code), PredictedLoss(0.0, 0.0))


def test_of_two_wants_the_upper_one_wins() -> None:
    ranked = [reasons for reasons, _ in order()]
    for number, reasons in enumerate(ranked):
        for upper in reasons:
            for lower in (code for below in ranked[number + 1 :] for code in below):
                granted, _ = arbitrate([a_want(lower), a_want(upper)])
                assert [one.controller for one in granted] == [upper]


@pytest.mark.parametrize("reasons", [reasons for reasons, _ in order() if len(reasons) > 1])
def test_those_in_one_row_are_equals(reasons: list[str]) -> None:
    for first in (reasons, reasons[::-1]):
        granted, _ = arbitrate([a_want(code) for code in first])
        assert [one.controller for one in granted] == first[:1]


def test_every_number_of_the_policy_is_its_default() -> None:
    named = re.findall(r"`(\w+) = ([\w.]+)`", PAGE)
    assert len(named) > 20
    defaults = asdict(Policy())
    for name, told in named:
        assert json.loads(told) == defaults[name], name


def test_numbers_that_are_no_options_are_those_of_the_code() -> None:
    caps = section("Caps")
    assert f"| {cpu_cap.CAP_STEP:.0%}".replace("%", " %") in caps
    assert f"{flavor_specs.DEFAULT_CAP_FLOOR_RATIO:.0%} by".replace("%", " %") in caps
    assert f"| {cpu_cap.LEASE_S:.0f} s," in caps
    memory = section("Memory moves")
    assert f"| {CHUNK_PAGES} pages |" in memory
    assert f"for {cost.PRICED_S:.0f} s of copying" in memory
    assert f"{cost.COPY_NS_PER_PAGE:.0f} ns per page" in memory
    assert (controller.AT_ONCE == 2) is ("two in a tick" in section("The ladder"))


def test_what_is_off_by_default_is_said_to_be() -> None:
    assert {Controller.MERLIN} == set(Controller) - Policy().controllers
    assert "Off by default" in section("Merlin")
