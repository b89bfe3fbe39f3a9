# SPDX-License-Identifier: Apache-2.0
"""What a host and its servers did over time, as a page tells it."""

from datetime import UTC, datetime

from vp_dashboard import host_timeline
from vp_dashboard.host_timeline import Move

NOW = datetime(2026, 1, 2, 4, tzinfo=UTC)
NAMES = {"u1": "db"}


def a_vp(server_id, lost=0.0, waited=None, kind=None, misses=None):
    return {
        "server_id": server_id,
        "degradation_ratio": lost,
        "waiting_ratio": waited,
        "kind": kind,
        "hurt_by_neighbour": kind is not None,
        "metrics": None if misses is None else {"misses_per_s": misses},
    }


def a_row(minute, *vps):
    return {"at": f"2026-01-02T03:{minute:02}:00Z", "hurt_count": 0, "vps": list(vps)}


def test_a_host_is_as_bad_as_its_worst_server():
    row = a_row(0, a_vp("u1", 0.2, 0.5, misses=1e6), a_vp("u2", 0.1, misses=2e6), a_vp("u3", None))
    assert host_timeline.worst_performance(row) == 80.0
    assert host_timeline.worst_waiting(row) == 50.0
    assert host_timeline.misses_per_s(row) == 3e6


def test_of_a_host_without_measured_servers_nothing_is_known():
    row = a_row(0, a_vp("u1", None))
    assert host_timeline.worst_performance(row) is None
    assert host_timeline.worst_waiting(row) is None
    assert host_timeline.misses_per_s(row) is None


def test_where_no_server_was_measured_nobody_knows_how_many_are_degraded():
    unmeasured = {**a_vp("u1", None), "hurt_by_neighbour": None}
    assert host_timeline.degraded(a_row(0, unmeasured)) is None
    assert host_timeline.degraded(a_row(0, unmeasured, a_vp("u2"))) == 0.0
    assert host_timeline.degraded(a_row(0)) == 0.0


def test_each_minute_has_who_loses_most():
    rows = [a_row(0, a_vp("u1", 0.3, kind="cache"), a_vp("u2", 0.1, kind="cpu")), a_row(1)]
    first, second = host_timeline.minutes(rows, NAMES)
    assert first["worst"] == {"server_id": "u1", "name": "db", "text": "30% cache"}
    assert second["worst"] is None


def test_servers_that_come_and_go():
    rows = [a_row(0, a_vp("u1")), a_row(1, a_vp("u1"), a_vp("0123456789")), a_row(2, a_vp("u1"))]
    assert list(host_timeline.moves(rows, NAMES)) == [
        Move("2026-01-02T03:01:00Z", "01234567…", True),
        Move("2026-01-02T03:02:00Z", "01234567…", False),
    ]


def an_action(victim="u1"):
    server, other = ({"server_id": i, "name": None} for i in ("u2", victim))
    change = {"server": server, "knob": "cpu-cap", "from": "none", "to": "90 %", "until": None}
    return {
        "at": "2026-01-02T03:30:20Z",
        "result": "mended",
        "server": server,
        "victim": other if victim else None,
        "changes": [change],
        "meaning": "why",
    }


def test_an_action_is_judged_by_the_server_that_it_was_for():
    rows = [
        a_row(29, a_vp("u1", 0.3), a_vp("u2", 0.0)),
        a_row(31, a_vp("u1", 0.1), a_vp("u2", 0.2)),
    ]
    (for_other,) = host_timeline.done([an_action()], rows, NOW)
    told = for_other["measured"]
    assert (told.before, told.after, for_other["helped"]["server_id"]) == ("30%", "10%", "u1")
    (for_itself,) = host_timeline.done([an_action(None)], rows, NOW)
    assert (for_itself["measured"].before, for_itself["measured"].after) == ("0%", "20%")


def test_names_are_those_of_now_before_those_of_actions():
    host = {"vps": [{"server_id": "u1", "name": "db"}]}
    told = [{**an_action(), "server": {"server_id": "u1", "name": "old"}}]
    assert host_timeline.names_of(host, told) == {"u1": "db"}
