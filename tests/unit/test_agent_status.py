# SPDX-License-Identifier: Apache-2.0
"""`vp-agent status` for people: says what stands, and fits into 100 columns."""

from vp_agent.status import render

SERVER = "4a808665-1327-49bd-af0b-797dacb54d5d"


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
    base = {"host": "vp1", "mode": "advise", "actuator": "kernel"}
    return {**base, "counters": counters, "vps": [vp], "proposals": [], **changes}


def test_a_proposal_names_the_server_and_says_how_to_accept():
    proposal = {
        "id": "move-6f1c2d3e",
        "reason": "move-aggressor",
        "uuid": SERVER,
        "to_cpus": ",".join(str(cpu) for cpu in range(0, 128, 2)),
    }
    text = render(told(proposals=[proposal]))
    assert "proposed move-6f1c2d3e: move-aggressor, noisy to CPUs" in text
    assert text.endswith("To have one applied: `vp-agent accept ID`, in mode advise")
    assert max(map(len, text.splitlines())) <= 100


def test_without_proposals_nothing_is_to_be_accepted():
    assert "accept" not in render(told())


def test_long_problems_of_the_counters_are_wrapped():
    counters = {"source": "none", "problems": ["no counter source works on this host: " * 8]}
    text = render(told(counters=counters))
    assert max(map(len, text.splitlines())) <= 100


def test_before_the_first_tick_it_says_where_to_look():
    assert "log" in render({})
