# SPDX-License-Identifier: Apache-2.0
"""The panel *Proposals*: what waits, why, and accepting or rejecting several."""

from collections.abc import Callable, Iterator

import oslo_messaging
import pytest

from nova_vp.action_results import NO_PROPOSAL
from tests.dashboard import comparisons
from tests.dashboard.conftest import Site
from tests.dashboard.dashboard import User, values, words
from tests.unit.api import cloud

PROPOSALS = "/admin/vp_proposals/"


def test_proposals_and_waiting_migrations_are_those_of_the_command_line(
    site: Site, admin: User
) -> None:
    assert site.told("action list --result proposed")
    comparisons.proposals(site.told, admin.get(PROPOSALS))


def test_ticked_proposals_are_accepted(site: Site, admin: User) -> None:
    keys = admin.get(PROPOSALS).tree.xpath("//input[@name='action']/@value")
    assert keys
    site.agents.accepted.clear()
    shown = admin.post(PROPOSALS, [("action", key) for key in (*keys, "gone/lab-1")])
    told = [tuple(reversed(key.split("/"))) for key in keys]
    assert site.agents.accepted == told
    said = words(shown.one("//body"))
    assert f"{keys[0].split('/')[0]} is accepted: lab-1 applies it" in said
    assert "gone: The action is not known" in said


def test_ticked_proposals_are_rejected_with_a_reason(site: Site, admin: User) -> None:
    keys = admin.get(PROPOSALS).tree.xpath("//input[@name='action']/@value")
    site.agents.rejected.clear()
    chosen = [("action", key) for key in (*keys, "gone/lab-1")]
    shown = admin.post(PROPOSALS, [*chosen, ("reason", "not now"), ("reject", "1")])
    told = [(host, action_id, why) for host, action_id, _by, why in site.agents.rejected]
    assert told == [(*reversed(key.split("/")), "not now") for key in keys]
    assert len({by for _host, _id, by, _why in site.agents.rejected}) == 1
    said = words(shown.one("//body"))
    assert f"{keys[0].split('/')[0]} is rejected on lab-1" in said
    assert "gone: The action is not known" in said


def test_nothing_ticked_accepts_nothing(site: Site, admin: User) -> None:
    site.agents.accepted.clear()
    assert admin.post(PROPOSALS, []).problem is None
    assert site.agents.accepted == []


def test_a_proposal_shows_when_it_was_last_reported(site: Site, admin: User) -> None:
    row = admin.get(PROPOSALS).one("//tr[@data-action]")
    cell = row.xpath("td[@data-key='reported']")[0]
    assert values(cell) == {"age_s": site.told("host show lab-1")["age_s"]}
    assert words(cell) == "3 s ago"


def test_a_proposal_of_a_host_that_does_not_report_is_stale(
    reported: Callable[..., None], admin: User
) -> None:
    reported(cloud.a_record(age_s=400, vps=[cloud.a_vp()], proposals=[cloud.a_cap()]))
    cell = admin.get(PROPOSALS).one("//td[@data-key='reported']")
    assert words(cell) == "6 min ago stale"


def test_evidence_is_labelled_lines(admin: User) -> None:
    evidence = admin.get(PROPOSALS).one("//tr[@data-action]//dl")
    told = [(words(one.xpath("dt")[0]), words(one.xpath("dd")[0])) for one in evidence]
    assert told == [("Memory factor, undisturbed", "0.1"), ("Memory factor, now", "0.8")]


@pytest.fixture
def refusing(site: Site) -> Iterator[Callable[[str], None]]:
    """The agent of lab-1 refuses with those words, in this test."""

    def refuse(said: str) -> None:
        site.agents.failing["lab-1"] = oslo_messaging.RemoteError("UnknownAction", said)

    yield refuse
    del site.agents.failing["lab-1"]


DEGRADED = {"kind": "cache", "since": cloud.NOW_S - 70, "suspects": [], "refused": []}
PROPOSED = cloud.a_record(vps=[cloud.a_vp(interference=DEGRADED)], proposals=[cloud.a_cap()])
REJECTED = {**cloud.a_cap(), "result": "rejected"}
RESULTS = {
    "not degraded": (
        [cloud.a_record(seq=42, vps=[cloud.a_vp()])],
        "This is no longer proposed: the server victim is not degraded any more.",
    ),
    "still degraded": (
        [cloud.a_record(seq=42, vps=[cloud.a_vp(interference=DEGRADED)])],
        "This is no longer proposed: its agent does not find it useful for victim any more.",
    ),
    "gone": (
        [cloud.a_record(seq=42, vps=[])],
        "This is no longer proposed: the server victim is not there any more.",
    ),
    "rejected by somebody else": (
        [cloud.a_record(seq=42, vps=[cloud.a_vp(actions=[REJECTED])])],
        "This is no longer proposed: an operator rejected it; it was not applied.",
    ),
    "not reported yet": (
        [],
        "This is no longer proposed: its agent does not find it useful for victim any more.",
    ),
}


@pytest.mark.parametrize("verb", ["accept", "reject"])
@pytest.mark.parametrize("case", RESULTS)
def test_what_became_of_a_proposal_meanwhile_is_said(
    case: str,
    verb: str,
    reported: Callable[..., None],
    refusing: Callable[[str], None],
    admin: User,
) -> None:
    later, expected = RESULTS[case]
    reported(PROPOSED, *later)
    refusing(f"{NO_PROPOSAL} '6f1c2d3e-2'; current proposals: none")
    fields = [("action", "6f1c2d3e-2/lab-1"), *([("reject", "1")] if verb == "reject" else [])]
    said = words(admin.post(PROPOSALS, fields).one("//body"))
    assert f"6f1c2d3e-2: {expected}" in said
    assert "409" not in said


def test_another_refusal_is_told_as_it_is(
    reported: Callable[..., None], refusing: Callable[[str], None], admin: User
) -> None:
    reported(PROPOSED)
    refusing("proposals can be accepted in mode advise only, and the mode is observe")
    said = words(admin.post(PROPOSALS, [("action", "6f1c2d3e-2/lab-1")]).one("//body"))
    assert "the mode is observe" in said


def test_without_a_tick_it_is_said_that_nothing_was_done(admin: User) -> None:
    shown = admin.post(PROPOSALS, [("accept", "")])
    assert "Nothing was done: no proposal was ticked." in words(shown.one("//body"))
