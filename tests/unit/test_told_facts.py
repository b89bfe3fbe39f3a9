# SPDX-License-Identifier: Apache-2.0
"""Nova's facts on an agent: taken, kept over a restart, and used where a domain lacks its specs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nova_vp import wire
from nova_vp.core.types.guest import Isolation, Unmanaged
from nova_vp.host_facts import HostFacts, ServerGroup, facts_text, read_facts
from tests.domain_xml import a_domain, nova_metadata
from vp_agent.drivers.domain_xml import parse_description
from vp_agent.loop.state import StateFolder
from vp_agent.loop.told_facts import NOTHING_TOLD, STALE_AFTER_S, ToldFacts

NOW_S = 1_795_000_000.0
WEB, DB = "11111111-2222-4333-8444-000000000001", "11111111-2222-4333-8444-000000000002"
GROUP = ServerGroup("99999999-2222-4333-8444-000000000001", "anti-affinity", (WEB, DB))
STRICT = {"vp:isolation": "strict"}
FACTS = HostFacts(("fast", "ssd"), (GROUP,), {WEB: STRICT})


def told_in(folder: Path, now_s: float = NOW_S) -> ToldFacts:
    return ToldFacts(StateFolder(str(folder)), lambda: now_s)


def test_a_message_says_all_of_it() -> None:
    assert read_facts(facts_text(NOW_S, FACTS)) == (NOW_S, FACTS)


def test_equal_facts_have_one_checksum_in_whatever_order_nova_lists_them() -> None:
    other = HostFacts(("ssd", "fast"), (GROUP._replace(members=(DB, WEB)),), {WEB: STRICT})
    assert other.checksum == FACTS.checksum
    assert FACTS._replace(specs={}).checksum != FACTS.checksum


def a_message(**changes: Any) -> str:
    return json.dumps({**json.loads(facts_text(NOW_S, FACTS)), **changes})


REFUSED = {
    "no text": None,
    "no JSON": "{",
    "no facts": "{}",
    "another version": a_message(v=2),
    "no moment": a_message(read_at="now"),
    "no UUID": a_message(servers=[{"uuid": "../etc", "specs": {}}]),
    "no text of a spec": a_message(servers=[{"uuid": WEB, "specs": {"vp:priority": 2}}]),
    "too many aggregates": a_message(aggregates=["a"] * 257),
    "too large": " " * wire.MAX_FACTS_BYTES + a_message(),
    "of the future": a_message(read_at=NOW_S + wire.EXPIRE_S + 1),
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_changes_nothing(text: object, tmp_path: Path) -> None:
    told = told_in(tmp_path)
    told.take(facts_text(NOW_S, FACTS))
    with pytest.raises(wire.BadMessage):
        told.take(text)
    assert told.told.facts == FACTS
    assert told_in(tmp_path).told == told.told


def test_a_restart_keeps_them_and_older_ones_are_ignored(tmp_path: Path) -> None:
    told_in(tmp_path).take(facts_text(NOW_S, FACTS))
    again = told_in(tmp_path)
    again.take(facts_text(NOW_S - 1, HostFacts()))
    assert again.specs_of(WEB) == STRICT
    assert again.as_status()["aggregates"] == ["fast", "ssd"]
    again.take(facts_text(NOW_S + 1, HostFacts()))
    assert (again.specs_of(WEB), told_in(tmp_path).specs_of(WEB)) == ({}, {})


def test_a_restart_reads_the_same_whatever_the_order_of_the_message(tmp_path: Path) -> None:
    told = told_in(tmp_path)
    group = {"id": "f" * 32, "policy": "affinity", "members": ["b" * 32, "a" * 32]}
    told.take(a_message(aggregates=["v", "s"], groups=[group, {**group, "id": "e" * 32}]))
    assert told_in(tmp_path).told == told.told


@pytest.mark.parametrize(
    ("spoil", "now_s", "words"),
    [
        (lambda file: file.write_text("{"), NOW_S, "not readable"),
        (lambda file: None, NOW_S + STALE_AFTER_S + 1, "ignored"),
        (lambda file: None, NOW_S - wire.EXPIRE_S - 1, "ignored"),
    ],
)
def test_a_stale_or_unreadable_file_is_ignored_with_a_line_in_the_log(
    spoil: Callable[[Path], object],
    now_s: float,
    words: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    told_in(tmp_path).take(facts_text(NOW_S, FACTS))
    spoil(tmp_path / "facts.json")
    assert told_in(tmp_path, now_s).told == NOTHING_TOLD
    assert words in caplog.text


def of_old_nova() -> str:
    """Nova 31 and older write no such element."""
    return nova_metadata().replace("<nova:extraSpecs></nova:extraSpecs>", "")


def described(metadata: str, told: dict[str, str]):
    return parse_description(a_domain(uuid=WEB, metadata=metadata), frozenset({0, 1}), told)


def test_a_domain_without_extra_specs_has_those_that_were_told() -> None:
    about = described(of_old_nova(), {**STRICT, "vp:manage": "no"})
    assert about.spec.isolation is Isolation.STRICT
    assert about.obstacle
    assert about.obstacle.reason is Unmanaged.OPTED_OUT
    assert described(of_old_nova(), {}).spec.isolation is Isolation.NONE


def test_bad_values_that_were_told_leave_the_guest_alone() -> None:
    about = described(of_old_nova(), {"vp:isolation": "maybe"})
    assert about.obstacle
    assert about.obstacle.reason is Unmanaged.INVALID_SPEC


@pytest.mark.parametrize("specs", [{}, {"vp:isolation": "soft"}])
def test_what_the_domain_says_holds(specs: dict[str, str]) -> None:
    about = described(nova_metadata(extra_specs=specs), {**STRICT, "vp:priority": "3"})
    assert about.spec.isolation.value == specs.get("vp:isolation", "none")
    assert about.spec.priority == 1.0
