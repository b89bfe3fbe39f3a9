# SPDX-License-Identifier: Apache-2.0
"""Every code that a decision can carry is told in words."""

import enum
from collections.abc import Mapping

import pytest

from nova_vp import controllers
from nova_vp.cli import labels
from nova_vp.core.types.action import Result
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.reason import Rejection, Rung
from nova_vp.core.types.sample import Incomplete

JUDGED = "it was applied; its effect is being measured"
TABLES = [
    ("REJECTIONS", Rejection),
    ("KINDS", Kind),
    ("RUNGS", Rung),
    ("RESULTS", Result),
    ("INCOMPLETES", Incomplete),
]


@pytest.mark.parametrize(("name", "codes"), TABLES)
def test_every_code_has_words(name: str, codes: type[enum.Enum]) -> None:
    table: Mapping[str, str] = getattr(labels, name)
    missing = {code.value for code in codes} - set(table)
    assert not missing, f"write these into nova_vp/cli/labels.py, {name}: {sorted(missing)}"
    unused = set(table) - {code.value for code in codes}
    assert not unused, f"nobody says these, take them out of {name}: {sorted(unused)}"


@pytest.mark.parametrize("name", [name for name, _ in TABLES])
def test_words_are_one_short_phrase_each_and_differ(name: str) -> None:
    told = list(getattr(labels, name).values())
    assert len(set(told)) == len(told)
    for phrase in told:
        assert len(phrase) <= 80
        assert not phrase.endswith(".")
        assert " " in phrase


def test_every_reason_has_one_short_phrase_for_each_reader() -> None:
    for code, reason in controllers.reasons().items():
        assert labels.reason(code) == reason.label
        for phrase in (reason.label, reason.own_label, reason.neighbour_label):
            assert len(phrase) <= 80
            assert not phrase.endswith(".")
            assert " " in phrase
    told = [reason.label for reason in controllers.reasons().values()]
    assert len(set(told)) == len(told)


def test_codes_of_a_newer_agent_are_told_as_they_are() -> None:
    assert labels.reason("new-reason") == "new-reason"
    assert labels.kind("new-kind") == "new-kind"
    assert labels.refusal("new-rung", "new-why") == "new-rung: new-why"


def test_a_refusal_names_what_was_refused_and_why() -> None:
    told = labels.refusal(Rung.MOVE.value, Rejection.NO_FREE_CPU.value)
    assert told == "moving its vCPUs: no CPU is free there"


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        *(
            (one.code, JUDGED if one.is_verified else "it was applied")
            for one in controllers.reasons().values()
        ),
        ("", "it was applied"),
    ],
)
def test_only_what_must_prove_itself_is_being_judged(reason: str, said: str) -> None:
    applied, mended = (
        {"result": one.value, "reason": reason} for one in (Result.APPLIED, Result.MENDED)
    )
    assert labels.outcome(applied) == said
    assert labels.outcome(mended) == labels.RESULTS["mended"]
