# SPDX-License-Identifier: Apache-2.0
"""`vp-agent status` for people: says what stands, and fits into 100 columns."""

import pytest

from nova_vp.core.types.detection import Kind
from vp_agent.cli.status import render, told_modes

SERVER = "4a808665-1327-49bd-af0b-797dacb54d5d"

RACKS = {"level": "aggregate", "name": "rack 7", "mode": "enforce"}
CLOUDS = {"level": "cloud", "name": "", "mode": "advise"}


def told(**changes):
    vp = {
        "uuid": SERVER,
        "name": "noisy",
        "cpus": "0-127",
        "state": 8,
        "metrics": {"memory_factor": 0.94, "mpki": 31.0},
        "interference": None,
        "unmanaged": None,
        "actions": [],
        "incomplete": None,
    }
    counters = {"source": "perf", "problems": []}
    modes = {"source": CLOUDS, "levels": [CLOUDS], "knows_aggregates": True}
    base = {"host": "vp1", "mode": "advise", "actuator": "kernel", "modes": modes}
    empty = {"proposals": [], "nodes": [], "memory_moves": [], "escalations": []}
    return {**base, "counters": counters, "vps": [vp], **empty, **changes}


def a_change(knob, was, to, server=SERVER):
    return {"uuid": server, "knob": knob, "from": was, "to": to, "until": None}


@pytest.mark.needs_controllers("vp")
def test_a_proposal_names_the_server_and_says_how_to_accept():
    proposal = {
        "id": "move-6f1c2d3e",
        "reason": "move-aggressor",
        "changes": [
            a_change("placement", "0-127", ",".join(str(cpu) for cpu in range(0, 128, 2))),
            a_change("cpu-cap", "none", "90 % of each vCPU", server="gone"),
        ],
    }
    text = render(told(proposals=[proposal]))
    words = " ".join(text.split())
    assert "proposed move-6f1c2d3e: noisy CPUs 0-127 -> 0,2,4" in words
    assert "; gone cap none -> 90 % of each vCPU: it degrades a neighbour" in words
    assert text.endswith("To accept a proposal in mode advise: `vp-agent accept ID`")
    assert max(map(len, text.splitlines())) <= 100


def test_a_mode_says_where_it_is_set():
    assert render(told()).startswith("host vp1  mode advise (set for the cloud)  counters perf")
    assert list(told_modes(told())) == [
        "mode advise (set for the cloud)",
        "  advise: set for the cloud",
    ]


@pytest.mark.parametrize(("levels", "is_said"), [([CLOUDS], False), ([CLOUDS, RACKS], True)])
def test_a_host_that_knows_no_aggregates_says_so_where_that_matters(levels, is_said):
    modes = {"source": CLOUDS, "levels": levels, "knows_aggregates": False}
    lines = list(told_modes(told(modes=modes)))
    assert ("not told which aggregates" in lines[-1]) is is_said
    assert ("  enforce: set for the host aggregate rack 7" in lines) is is_said


def test_without_proposals_nothing_is_to_be_accepted():
    assert "accept" not in render(told())


def test_long_problems_of_the_counters_are_wrapped():
    counters = {"source": "none", "problems": ["no counter source works on this host: " * 8]}
    text = render(told(counters=counters))
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("kind", Kind)
def test_hurt_says_where(kind):
    report = told()
    row = render(report).splitlines()[2]
    assert row.split() == ["noisy", "0-127", "8", "0.94", "31.0", "no"]
    report["vps"][0]["interference"] = {"kind": kind.value}
    where = render(report).splitlines()[2].split()[-1]
    assert where not in ("yes", "no")
    assert len(where) <= 6


def test_what_happens_to_the_hosts_memory_is_told():
    nodes = [
        {"node": 0, "misses_per_s": 3.14e7, "limit_misses_per_s": 2.5e7, "is_hot": True},
        {"node": 1, "misses_per_s": 1e8, "limit_misses_per_s": None, "is_hot": True},
        {"node": 2, "misses_per_s": 1e6, "limit_misses_per_s": None, "is_hot": False},
    ]
    move = {"uuid": SERVER, "to": "node 1 100 %", "moved_kib": 262144, "left_kib": 786432}
    moves = [{**move, "problem": ""}, {**move, "problem": "no room on node 1"}]
    text = render(told(nodes=nodes, memory_moves=moves))
    assert "node 0 is hot: 31.4 M misses/s, limit 25.0 M\n" in text
    assert "node 1 is hot: 100.0 M misses/s, limit not calibrated\n" in text
    assert "node 2" not in text
    assert "memory of noisy to node 1 100 %: 256 of 1024 MiB moved\n" in text
    assert text.endswith("256 of 1024 MiB moved, ended early: no room on node 1")


def test_who_waits_for_a_cpu_or_is_throttled_is_told():
    much = {"waiting_ratio": 0.12, "throttled_ratio_ours": 0.0, "throttled_ratio_nova": 0.3}
    little = dict.fromkeys(much, 0.04)
    [vp] = told()["vps"]
    vps = [
        {**vp, "name": "patient", "cpu_use": much},
        {**vp, "name": "swift", "cpu_use": little},
        {**vp, "name": "unknown", "cpu_use": None},
    ]
    text = render(told(vps=vps, steal_ratio=0.07))
    assert (
        "CPU time that patient wants: 12% waiting for a CPU, 30% throttled by the quota of its "
        "flavor\n"
    ) in text + "\n"
    assert "swift wants" not in text
    assert "unknown wants" not in text
    assert "the host of this host takes 7% of its CPU time (steal)" in text
    assert "steal" not in render(told(steal_ratio=None))


@pytest.mark.needs_controllers("permits")
def test_what_controllers_tell_of_a_server_is_told():
    [vp] = told()["vps"]
    figures = {"permits": {"standing": "over", "balance_s": -4.25, "new": 1}}
    text = render(told(vps=[{**vp, "name": "web", "figures": figures}]))
    assert (
        "permits, web: pollution permit over, balance in seconds of its permit -4.25, new 1" in text
    )
    assert "permits" not in render(told())


def test_an_escalation_names_the_server_and_what_hurts_it():
    one = {"id": "e-1", "victim": SERVER, "kind": "interconnect"}
    text = render(told(escalations=[one]))
    assert (
        "escalation e-1: no action on this host helps noisy: neighbours overload the link" in text
    )
    assert max(map(len, text.splitlines())) <= 100


def test_before_the_first_tick_it_says_where_to_look():
    assert "log" in render({})
