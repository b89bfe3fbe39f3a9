# SPDX-License-Identifier: Apache-2.0
"""The panel *Proposals*: what waits, why, and accepting or rejecting several."""

from tests.dashboard.conftest import Site
from tests.dashboard.dashboard import User, values, words

PROPOSALS = "/admin/vp_proposals/"


def test_proposals_are_those_of_the_command_line(site: Site, admin: User) -> None:
    shown = admin.get(PROPOSALS)
    listed = site.told("action list --result proposed")
    assert shown.tree.xpath("//tr/@data-action") == [one["ID"] for one in listed]
    for one in listed:
        row, told = (
            shown.one(f"//tr[@data-action='{one['ID']}']"),
            site.told(f"action show {one['ID']}"),
        )
        assert values(row) == {"hurt_ratio": told["hurt_ratio"]}
        assert told["changes"][0]["to"] in words(row)


def test_migrations_that_wait_are_there_too(site: Site, admin: User) -> None:
    table = admin.get(PROPOSALS).one("//table[@id='vp-waiting-migrations']")
    listed = site.told("escalation list --status proposed")
    assert table.xpath(".//tr/@data-escalation") == [one["ID"] for one in listed]


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
