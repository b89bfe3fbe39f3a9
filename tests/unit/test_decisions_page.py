# SPDX-License-Identifier: Apache-2.0
"""The page on decisions says what the pipeline does: its codes, its order, its numbers.

What a controller decides is on its own page, and the tests of that are beside its others.
"""

from pathlib import Path

from nova_vp import flavor_specs
from nova_vp.core.model import cost
from nova_vp.core.model.limits import LIMITS, PLACES
from nova_vp.core.pipeline import plan
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Mode, Policy
from nova_vp.core.types.reason import PIPELINE_REASONS, Rejection
from tests.pages import codes, first_codes, rows, section, wrong_numbers
from vp_agent.drivers.guest_pages import CHUNK_PAGES

PAGE = (Path(__file__).parents[2] / "doc/source/architecture/decisions.md").read_text()


def test_every_interference_point_is_explained() -> None:
    text = section(PAGE, "Where interference is found")
    assert first_codes(text) == [kind.value for kind in Kind]


def test_every_knob_has_its_row_with_whether_limits_compose_and_its_lease() -> None:
    lease = f"{plan.LEASE_S:.0f} s"
    expected = [
        [
            f"`{knob.value}`",
            "none: limits compose" if knob in LIMITS else "one controller",
            "no" if knob in PLACES else lease,
        ]
        for knob in (
            Knob.PLACEMENT,
            Knob.MEMORY,
            Knob.CPU_CAP,
            Knob.CPU_WEIGHT,
            Knob.LLC,
            Knob.MEMBW,
            Knob.MEMORY_SIZE,
            Knob.EMULATOR_WEIGHT,
        )
    ]
    told = [row for row in rows(section(PAGE, "Claims")) if len(row) == 4][1:]
    assert [[knob, owner, until] for knob, _, owner, until in told] == expected
    assert len(expected) == len(Knob)


def test_every_reason_of_the_pipeline_stands_there_in_the_order_of_the_ranks() -> None:
    words = {True: "yes", False: "no"}
    told = [row for row in rows(section(PAGE, "Reasons")) if len(row) == 4][1:]
    assert [(codes(code)[0], verified, counted) for code, _, verified, counted in told] == [
        (one.code, words[one.is_verified], words[one.is_counted])
        for one in sorted(PIPELINE_REASONS, key=lambda reason: reason.rank)
    ]


def test_every_rank_that_the_pipeline_uses_is_in_the_table() -> None:
    told = [int(rank) for rank, _ in rows(section(PAGE, "One owner"))[1:]]
    assert told == sorted(told)
    assert {one.rank // 100 * 100 for one in PIPELINE_REASONS} <= set(told)


def test_why_claims_are_refused_is_told_by_its_code() -> None:
    known = {one.value for one in Rejection}
    arbitration = {
        Rejection.OUTRANKED,
        Rejection.REFUSES_HELP,
        Rejection.NOT_RELAXED,
        Rejection.HOLD,
        Rejection.REVOKED,
    }
    assert {one.value for one in arbitration} <= set(codes(PAGE)) & known


def test_what_each_mode_lets_happen_has_a_column_for_every_mode() -> None:
    header, *told = rows(section(PAGE, "Modes"))
    assert [codes(cell) for cell in header[1:]] == [[mode.value] for mode in Mode]
    named = {code for row in told for code in codes(row[0])}
    assert named == {one.code for one in PIPELINE_REASONS}


def test_every_number_of_the_policy_is_its_default() -> None:
    assert wrong_numbers(PAGE, Policy()) == {}


def test_numbers_that_are_no_options_are_those_of_the_code() -> None:
    limits = section(PAGE, "Limits compose")
    assert f"{flavor_specs.DEFAULT_CAP_FLOOR_RATIO:.0%} by".replace("%", " %") in limits
    assert f"| {plan.LEASE_S:.0f} s." in limits
    memory = section(PAGE, "Memory moves")
    assert f"| {CHUNK_PAGES} pages |" in memory
    assert f"for {cost.PRICED_S:.0f} s of copying" in memory
    assert f"{cost.COPY_NS_PER_PAGE:.0f} ns per page" in memory
