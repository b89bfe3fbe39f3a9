# SPDX-License-Identifier: Apache-2.0
"""Values in words, one row each."""

import pytest

from vp_client import formatters

ME = {"server_id": "id-1", "name": "me"}
OTHER = {"server_id": "id-2", "name": None}


def an_action(*changes):
    return {
        "id": "a-1",
        "at": "AT",
        "result": "applied",
        "server": ME,
        "victim": None,
        "on_behalf_of": None,
        "reason": "swap-places",
        "meaning": "why",
        "from_cpus": "0",
        "to_cpus": "1",
        "changes": list(changes),
        "hurt_ratio": 0.0,
        "detail": "",
        "evidence": {},
        "rejected": [],
    }


def a_change(server, knob, was, to, until=None):
    return {"server": server, "knob": knob, "from": was, "to": to, "until": until}


def a_move(**changes):
    left = {"moved_kib": 1024, "left_kib": 3072, "is_over": False, "problem": ""}
    return {"server": ME, "to": "node 1 100 %", **left, **changes}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ((), "CPUs 0 -> 1"),
        ((a_change(ME, "placement", "0-1", "2"),), "CPUs 0-1 -> 2"),
        ((a_change(ME, "cpu-cap", "none", "90 %", "AT"),), "cap none -> 90 % until AT"),
        ((a_change(ME, "cpu-weight", "100", "400"),), "weight 100 -> 400"),
        ((a_change(ME, "llc", "none", "25 % of the cache"),), "llc none -> 25 % of the cache"),
        (
            (
                a_change(ME, "memory", "node 0 100 %", "node 1 100 %"),
                a_change(OTHER, "placement", "2", "0-1"),
            ),
            "memory node 0 100 % -> node 1 100 %, id-2 CPUs 2 -> 0-1",
        ),
        ((a_change(ME, "new-knob", "x", "y"),), "new-knob x -> y"),
    ],
)
def test_what_was_turned(told, expected):
    text = " ".join(formatters.actions([an_action(*told)]).split())
    assert (
        text
        == f"AT applied: me (id-1), {expected}; reason swap-places: why; predicted degradation 0%"
    )


@pytest.mark.parametrize(
    ("whom", "expected"),
    [
        ({}, ""),
        ({"victim": ME}, ""),
        ({"victim": OTHER}, " for id-2"),
        ({"on_behalf_of": OTHER}, " for id-2"),
    ],
)
def test_for_whom_it_was_done(whom, expected):
    text = " ".join(formatters.actions([an_action() | whom]).split())
    assert f"reason swap-places{expected}: why" in text


def in_a_group(servers, measured, number=8):
    state = None if number is None else {"number": number, "name": "as it is"}
    now = {"servers_count": servers, "measured_servers": measured, "state": state}
    return {"group": "shop", "group_state": now}


def ordered(**changes):
    return {"mode": None, "opt_out": False, "priority": None, "exempt": False, **changes}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (formatters.action_result("a-1", "mended"), "mended"),
        (
            formatters.action_result("a-1", "proposed"),
            "proposed; in mode advise, accept it with\nopenstack vp action accept a-1\n"
            "or reject it with\nopenstack vp action reject a-1",
        ),
        (formatters.overrides(ordered()), "no override"),
        (
            formatters.overrides(ordered(mode="advise", priority=0)),
            "mode advise at most, priority 0",
        ),
        (formatters.overrides(ordered(priority=1, by="u", at="AT")), "priority 1 (by u at AT)"),
        (formatters.short_state(None), "-"),
        (formatters.minute("2026-01-02T03:04:05Z"), "2026-01-02 03:04"),
        (formatters.point("new-kind"), "new-kind"),
        (formatters.wrap_code("bring-memory-home", 12), "bring-\nmemory-home"),
        (formatters.server_or_none(None), "none"),
        (formatters.age(0), "0 s"),
        (formatters.age(119), "119 s"),
        (formatters.age(120), "2 min"),
        (formatters.age(7200), "2 h"),
        (formatters.number(0), "0"),
        (formatters.number(1.9e-05), "0"),
        (formatters.number(0.00018), "0.0002"),
        (formatters.number(-0.00001), "0"),
        (formatters.number(999.9), "1000"),
        (formatters.number(999_499), "999 k"),
        (formatters.number(999_600), "1 M"),
        (formatters.number(-999_999_999), "-1 G"),
        (formatters.number(1e12), "1 T"),
        (formatters.number(0.6789), "0.679"),
        (formatters.number(1234), "1.23 k"),
        (formatters.number(2.5e6), "2.5 M"),
        (formatters.number(7e9), "7 G"),
        (formatters.percent(0.025), "2.5%"),
        (formatters.yes_no(None), "unknown"),
        (formatters.yes_no(False), "no"),
        (formatters.words([]), "none"),
        (formatters.words([0, 1]), "0, 1"),
        (formatters.unmanaged({"reason": "realtime", "detail": ""}), "yes, realtime"),
        (formatters.server({"server_id": "id", "name": None}), "id"),
        (formatters.short_name({"server_id": "6a2f0c1e-8d4b", "name": None}), "6a2f0c1e…"),
        (formatters.short_name({"server_id": "id", "name": "a long name"}), "a long name"),
        (formatters.actions([]), "none"),
        (formatters.memory_moves([a_move()]), "me (id-1) to node 1 100 %: 1 of 4 MiB moved"),
        (
            formatters.memory_moves([a_move(is_over=True, left_kib=0)]),
            "me (id-1) to node 1 100 %: 1 of 1 MiB moved, done",
        ),
        (
            formatters.memory_moves([a_move(is_over=True, problem="no room")]),
            "me (id-1) to node 1 100 %: 1 of 4 MiB moved, ended early: no room",
        ),
        (formatters.listed_group({}), ""),
        (formatters.listed_group({"group": "shop", "group_state": None}), "shop"),
        (formatters.listed_group(in_a_group(3, 3)), "shop: 8 bulldog"),
        (formatters.listed_group(in_a_group(3, 2)), "shop: 8 bulldog (2 of 3 measured)"),
        (formatters.listed_group(in_a_group(3, 0, None)), "shop: - (0 of 3 measured)"),
        (formatters.cap_floor(None), "never capped"),
        (formatters.weight(2.5), "2.5"),
    ],
)
def test_words(told, expected):
    assert told == expected


def test_long_lines_are_continued_with_an_indent():
    assert formatters.wrap("one two three", 8) == "one two\n  three"


def test_an_id_is_not_broken_at_its_hyphens():
    assert formatters.wrap("moved 1234-5678-9abc", 16) == "moved\n  1234-5678-9abc"


def test_a_word_longer_than_a_column_is_broken():
    assert max(map(len, formatters.wrap("x" * 40, 12).splitlines())) <= 12


def test_cpu_time():
    ratios = {"waiting_ratio": 0.1, "throttled_ratio_ours": 0.0, "throttled_ratio_nova": 0.25}
    assert " ".join(formatters.cpu_use(ratios).split()) == (
        "10% waiting for a CPU, 0% throttled by a cap of nova-vp, 25% throttled by the quota of "
        "its flavor"
    )
    assert formatters.cpu_use(None) == formatters.UNKNOWN


def test_figures_are_told_by_controller():
    told = {"of-nobody": {"standing": "over", "balance_s": -4.0, "hidden": None}}
    assert formatters.figures(told) == "of-nobody: standing over, balance_s -4"
    assert formatters.figures({}) == formatters.figures(None) == "none"
