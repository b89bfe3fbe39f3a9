# SPDX-License-Identifier: Apache-2.0
"""Escalations in words, one row each."""

import pytest

from vp_client import escalation_formatters

ME = {"server_id": "id-1", "name": "me"}


def an_attempt(**changes):
    about = {"attempt": 1, "server": ME, "source_host": "a", "dest_host": None, "detail": ""}
    times = {"started_at": "NOON", "ended_at": None}
    return {**about, **times, "status": "migrating", **changes}


def weighed(**changes):
    """Who could have been migrated, as the cluster's choice has it."""
    numbers = {"copy_s": 12.0, "cost_s": 1.5, "gain_s": 2826.1692000000003}
    about = {"uuid": "id-1", "name": "me", "role": "aggressor", "detail": "too dear"}
    return {**about, "numbers": numbers, **changes}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            escalation_formatters.attempts([an_attempt()]),
            "1: me (id-1) from a to a host that Nova selects: migrating; NOON to now",
        ),
        (
            escalation_formatters.attempts(
                [an_attempt(dest_host="b", detail="slow", ended_at="ONE")]
            ),
            "1: me (id-1) from a to b: migrating, slow; NOON to ONE",
        ),
        (escalation_formatters.choice(None), "none"),
        (
            escalation_formatters.choice(
                {"mover": None, "numbers": None, "rejected": [weighed(role="victim")]}
            ),
            "no server\nrejected me (id-1), the victim: too dear; copy time 12 s, cost 1.5 and\n"
            "  gain 2.83 k performance-seconds",
        ),
        (
            escalation_formatters.choice(
                {"mover": weighed(), "numbers": weighed()["numbers"], "rejected": []}
            ),
            "me (id-1), the aggressor: copy time 12 s, cost 1.5 and gain 2.83 k\n"
            "  performance-seconds",
        ),
        (escalation_formatters.status("e-1", "completed"), "completed"),
        (
            escalation_formatters.status("e-1", "proposed"),
            "proposed; start the migration with\nopenstack vp escalation accept e-1",
        ),
    ],
)
def test_words(told, expected):
    assert told == expected
