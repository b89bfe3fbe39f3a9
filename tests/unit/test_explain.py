# SPDX-License-Identifier: Apache-2.0
"""A server in plain words: what an operator reads on the host itself, and what no tenant reads."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from nova_vp import wire
from nova_vp.cli.explain import LABEL, WIDTH, Case, Reader, explain
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.policy import Mode
from nova_vp.db.mapping import UNKNOWN, rows_of
from tests.decisions import a_decision, a_detection, a_view, facts, uuid_of
from tests.unit.agent_host import World, a_hurt_pair
from vp_agent.cli.explain import UnknownServer, case_of
from vp_agent.publish.host_info import HostInfo
from vp_agent.publish.report import report

VICTIM = "server-2"
METRICS = {"cpu_cores": 1.0, "cpi": 2.5, "mpki": 20.5, "memory_factor": 0.68}
TENANT = Reader()
OPERATOR = Reader("accept", "set-mode", "look-at", "accept-it", "see-host")
HEADINGS = ["Measured", "State", "Degraded", "Actions", "Next"]


def read(case):
    """What stands under each heading, without line breaks."""
    text = explain(case)
    assert max(map(len, text.splitlines())) <= WIDTH, text
    told, label = {}, ""
    for line in text.splitlines()[2:]:
        label = line[:LABEL].strip() or label
        told[label] = f"{told.get(label, '')} {line[LABEL:]}".strip()
    assert list(told) == HEADINGS
    return told


THROTTLED = {"waiting_ratio": 0.1, "throttled_ratio_ours": 0.0, "throttled_ratio_nova": 0.4}
WAITING = {"waiting_ratio": 0.3, "throttled_ratio_ours": 0.0, "throttled_ratio_nova": 0.1}


def test_what_is_judged_is_not_said_to_be_left_alone():
    told = read(a_case(metrics=METRICS, cpu_use=WAITING))
    assert "not judged" not in told["Measured"]


def a_case(**about):
    return Case("web", about.pop("reader", TENANT), **about)


@pytest.mark.parametrize(
    ("about", "heading", "said"),
    [
        ({}, "Measured", "There is no current measurement."),
        ({"metrics": METRICS}, "Measured", "CPUs in use: 1. Cycles per instruction (CPI): 2.5."),
        ({"metrics": {**METRICS, "mpki": 1.9e-05}}, "Measured", "instructions (MPKI): 0. Share"),
        ({"metrics": METRICS}, "Measured", "misses per 1000 instructions (MPKI): 20.5."),
        ({"metrics": {**METRICS, "remote_ratio": 0.4}}, "Measured", "another NUMA node: 40%."),
        (
            {
                "cpu_use": {"waiting_ratio": 0.126, "throttled_ratio_ours": 0.3}
                | {"throttled_ratio_nova": 0.0}
            },
            "Measured",
            "CPU time that it wants: 13% waiting for a CPU, 30% throttled by a cap of nova-vp",
        ),
        (
            {"metrics": METRICS},
            "Measured",
            "Waiting for a CPU is not judged: its CPU times are unknown.",
        ),
        (
            {"metrics": METRICS, "cpu_use": THROTTLED},
            "Measured",
            "is not judged: a quota throttles it for longer than it waits.",
        ),
        (
            {"metrics": {**METRICS, "cpu_cores": 0.01}, "cpu_use": WAITING},
            "Measured",
            "Waiting for a CPU is not judged: it is idle.",
        ),
        ({}, "State", "Unknown."),
        ({"incomplete": "idle"}, "State", "Unknown: it is idle."),
        ({"incomplete": "new-code"}, "State", "Unknown: new-code."),
        ({"metrics": METRICS}, "Measured", "accesses that miss (memory factor): 68%."),
        ({"state": 0, "since": "NOON"}, "State", "0 of 0 to 8, since NOON: it uses little memory"),
        ({"state": 0, "reader": OPERATOR}, "State", "0 of 0 to 8 (pug): it uses little memory"),
        ({"state": 0}, "State", "It is not sensitive to its neighbours."),
        ({"state": 5, "sensitivity": ("cache", "memory")}, "State", "a busy memory controller."),
        (
            {"state": 0, "metrics": {**METRICS, "l2_mpki": 0.31, "mpki": 0.2}},
            "State",
            "It has only 0.31 last-level cache accesses per 1000 instructions. Its memory factor",
        ),
        (
            {"state": 0, "metrics": {**METRICS, "l2_mpki": 40.0}},
            "State",
            "The last sample corresponds to state 8. The state changes if the next samples agree.",
        ),
        ({}, "Degraded", "Unknown."),
        ({"is_hurt": False}, "Degraded", "No."),
        ({"is_hurt": True}, "Degraded", "Yes, by a neighbour."),
        (
            {"is_hurt": False, "hurt": ("Yes, since NOON: it wants CPU.",)},
            "Degraded",
            "Yes, since NOON",
        ),
        ({}, "Actions", "None so far."),
        (
            {"done": ("AT this",), "overridden": "opt_out"},
            "Actions",
            "AT this Override: opt_out.",
        ),
        ({"is_hurt": False}, "Next", "No action is needed. Its host continues to measure it."),
        ({"is_hurt": True}, "Next", "Its host mitigates this as far as your operator allows."),
        ({"unmanaged": "realtime"}, "Next", "It is measured, but not changed: realtime."),
        ({"is_stale": True}, "Next", "If this persists, contact your operator."),
        ({"is_stale": True, "reader": OPERATOR}, "Next", "See `see-host`, and check that vp-agent"),
    ],
)
def test_what_is_said(about, heading, said):
    assert said in read(a_case(**about))[heading]


def test_what_it_suffers_is_not_called_unknown():
    told = read(a_case(is_hurt=None, hurt=("Yes, since NOON: it is far away.",)))
    assert told["Degraded"] == "Yes, since NOON: it is far away."


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        (
            "observe",
            "Proposed: moving. In mode observe, the host applies nothing automatically. To change "
            "this: `set-mode enforce`.",
        ),
        (
            "advise",
            "Proposed: moving. To accept it: `accept a-1`. In mode advise, the host applies "
            "nothing",
        ),
        ("enforce", "Proposed: moving. Its host applies the cheapest action"),
    ],
)
def test_what_an_operator_can_do_next(mode, said):
    case = a_case(reader=OPERATOR, is_hurt=True, proposed={"a-1": "moving"}, mode=mode)
    assert said in read(case)["Next"]


def test_where_nothing_on_the_host_helps():
    about = {"is_hurt": True, "refused": ("no room",), "mode": "enforce"}
    about["escalations"] = {"e-1": "migrating"}
    cloud = read(a_case(reader=OPERATOR, **about))["Next"]
    assert "live-migrate a server: `look-at e-1`. Status of this escalation: migrating." in cloud
    assert "Rejected: no room." in cloud
    proposed = read(a_case(reader=OPERATOR, **{**about, "escalations": {"e-1": "proposed"}}))
    assert "a server: `look-at e-1`. To start the migration: `accept-it e-1`." in proposed["Next"]
    about["escalations"] = {"e-1": ""}
    host = read(a_case(reader=replace(OPERATOR, escalation=""), **about))["Next"]
    assert "a server (e-1). Rejected" in host


@pytest.mark.parametrize("mode", ["observe", "advise", "enforce"])
def test_who_is_well_is_told_what_is_proposed_all_the_same(mode):
    told = read(a_case(reader=OPERATOR, is_hurt=False, proposed={"a-1": "moving"}, mode=mode))
    assert "Proposed: moving." in told["Next"]
    assert ("To accept it: `accept a-1`." in told["Next"]) is (mode == "advise")
    assert "No action is needed" not in told["Next"]


def test_who_hurts_others_is_told_so():
    told = read(a_case(reader=OPERATOR, is_hurt=False, hurts=("Aggressor.",), mode="enforce"))
    assert told["Degraded"] == "No. Aggressor."
    assert told["Next"].startswith("Its host applies the cheapest action")


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        (
            "advise",
            "It is reverted if it has no effect. In mode advise, the host applies nothing else",
        ),
        ("enforce", "It is reverted if it has no effect."),
    ],
)
def test_while_what_was_done_is_judged(mode, said):
    told = read(a_case(reader=OPERATOR, is_hurt=False, is_judged=True, mode=mode))
    assert told["Next"].startswith(f"The last action is being verified. {said}")
    assert "Its host applies" not in told["Next"]


def test_a_tenant_is_told_no_command_of_operators():
    about = {"is_hurt": True, "proposed": {"a-1": "x"}, "mode": "observe"}
    told = explain(a_case(**about, escalations={"e-1": "proposed"}))
    assert not any(word in told for word in ("a-1", "e-1", "mode", "`"))


# On the host itself.


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path, mode=Mode.ADVISE)
    world.start_agent()
    return world


def told(world, server):
    here = HostInfo("here", "fake", "fake", is_homing=False, epoch_offset_s=0.0)
    return read(case_of(report(world.control.last(), here, wire.MessageVersion(0, 0)), server))


@pytest.mark.needs_controllers("vp")
def test_an_operator_on_the_host(world):
    victim, _ = a_hurt_pair(world)
    world.tick(4)
    for server in (VICTIM, victim):
        text = told(world, server)
        assert (
            "neighbours evict its data from the last-level cache. Aggressor: server-3, 1.35 M"
            in text["Degraded"]
        )
        assert "Proposed: server-3 CPUs 0-3 -> 4-7: it degrades a neighbour" in text["Next"]
        assert "To accept it: `vp-agent accept vp-" in text["Next"]
    assert told(world, "server-1")["Degraded"] == "No."
    guilty = told(world, "server-3")
    assert "It is a suspected aggressor: server-2 has been degraded since" in guilty["Degraded"]
    assert "To accept it: `vp-agent accept vp-" in guilty["Next"]


@pytest.mark.parametrize("state", [4, None])
@pytest.mark.parametrize("kind", Kind)
def test_a_host_and_its_cloud_agree_on_who_is_hurt(kind, state):
    """vp-api tells by the same report, as it was stored."""
    detection = replace(a_detection(), kind=kind)
    decision = a_decision(a_view(1, state=state, detection=detection))
    sent = report(decision, facts("vp1"), wire.MessageVersion(1, 1))
    [row] = rows_of(sent, datetime(2026, 11, 21, tzinfo=UTC)).vps
    stored = {1: True, 0: False, UNKNOWN: None}[row["is_hurt"]]
    assert case_of(sent, uuid_of(1)).is_hurt is stored


@pytest.mark.needs_controllers("vp")
def test_what_was_done_stands_there(world):
    a_hurt_pair(world)
    world.control.set_mode(Mode.ENFORCE)
    world.tick(4)
    assert "server-3 CPUs 0-3 -> 4-7" in told(world, VICTIM)["Actions"]
    result = "Result: it was applied; its effect is being measured."
    assert result in told(world, VICTIM)["Actions"]
    assert told(world, VICTIM)["Next"].startswith("The last action is being verified.")


def test_a_server_that_does_not_run_here(world):
    a_hurt_pair(world)
    world.tick()
    with pytest.raises(UnknownServer, match=r"no server on this host is named .* server-1 \(0000"):
        told(world, "nobody")


def test_a_name_that_two_servers_have(world):
    a_hurt_pair(world)
    world.boot(world.rates[next(iter(world.rates))], name=VICTIM)
    world.tick()
    with pytest.raises(UnknownServer, match="2 servers are named"):
        told(world, VICTIM)
