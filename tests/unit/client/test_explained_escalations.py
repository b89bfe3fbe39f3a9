# SPDX-License-Identifier: Apache-2.0
"""Which of the cluster's escalations an explanation names: those that the harm of now has."""

from typing import Any

import pytest

from vp_client.escalation_formatters import asked_of_cluster

SINCE, BEFORE, AFTER = "2026-01-02T03:00:00Z", "2026-01-02T02:00:00Z", "2026-01-02T03:00:05Z"


def vp(kinds: tuple[str, ...] = (), is_hurt: bool = True) -> dict[str, Any]:
    return {
        "server_id": "victim",
        "last_known": None,
        "interference": {"since": SINCE} if is_hurt else None,
        "escalations": [{"id": "own-1", "kind": kind} for kind in kinds],
    }


def ledger(**about: Any) -> list[dict[str, Any]]:
    row = {"id": "e1", "victim": {"server_id": "victim"}, "kind": "cache", "status": "received"}
    return [{**row, "received_at": AFTER, "settled_at": None, **about}]


@pytest.mark.parametrize("kinds", [(), ("cache",)])
def test_one_that_stands_is_named_whether_the_hosts_report_has_it_or_not(kinds: tuple[str, ...]):
    assert asked_of_cluster(vp(kinds), ledger()) == {"e1": "received"}


@pytest.mark.parametrize("status", ["observed", "refused"])
def test_the_answer_that_nobody_is_moved_is_named_as_long_as_the_harm_lasts(status: str):
    answered = {"status": status, "settled_at": AFTER}
    assert asked_of_cluster(vp(), ledger(**answered)) == {"e1": status}
    assert asked_of_cluster(vp(), ledger(**answered, received_at=BEFORE)) == {}
    assert asked_of_cluster(vp(is_hurt=False), ledger(**answered)) == {}


@pytest.mark.parametrize(
    "about",
    [
        {"victim": {"server_id": "other"}},
        {"status": "completed", "settled_at": AFTER},
        {"kind": "controller"},
    ],
)
def test_others_are_not(about: dict[str, Any]):
    assert asked_of_cluster(vp(("cache",)), ledger(**about)) == {}
