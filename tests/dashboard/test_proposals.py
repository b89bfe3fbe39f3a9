# SPDX-License-Identifier: Apache-2.0
"""The panel *Proposals*: what waits, why, and accepting or rejecting several."""

from tests.dashboard import comparisons
from tests.dashboard.conftest import Site
from tests.dashboard.dashboard import User, words

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
    assert f"{keys[0].split('/')[0]}: lab-1 acknowledged it" in said
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
    assert f"{keys[0].split('/')[0]}: lab-1 acknowledged it" in said
    assert "gone: The action is not known" in said


def test_nothing_ticked_accepts_nothing(site: Site, admin: User) -> None:
    site.agents.accepted.clear()
    assert admin.post(PROPOSALS, []).problem is None
    assert site.agents.accepted == []
