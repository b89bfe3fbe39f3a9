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
HEADINGS = ["Measured", "State", "Hurt", "Done", "Next"]


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


def a_case(**about):
    return Case("web", about.pop("reader", TENANT), **about)


@pytest.mark.parametrize(
    ("about", "heading", "said"),
    [
        ({}, "Measured", "Nothing is measured of it now."),
        ({"metrics": METRICS}, "Measured", "It uses the time of 1 CPUs and 2.5 cycles"),
        ({"metrics": {**METRICS, "mpki": 1.9e-05}}, "Measured", "instructions 0 miss the"),
        ({"metrics": METRICS}, "Measured", "20.5 miss the last-level cache (MPKI): 68% of those"),
        ({"metrics": {**METRICS, "remote_ratio": 0.4}}, "Measured", "40% of its misses go to"),
        ({}, "State", "Not known."),
        ({"incomplete": "idle"}, "State", "Not known: it does too little to be judged."),
        ({"incomplete": "new-code"}, "State", "Not known: new-code."),
        ({"state": 0, "since": "NOON"}, "State", "0 of 0 to 8 (pug), since NOON: it hardly works"),
        ({"state": 0}, "State", "Its neighbours hardly can slow it."),
        ({"state": 5, "sensitivity": ("cache", "memory")}, "State", "a busy memory controller."),
        (
            {"state": 0, "metrics": {**METRICS, "l2_mpki": 0.31, "mpki": 0.2}},
            "State",
            "Only 0.31 of 1000 instructions look into the last-level cache: too few for its",
        ),
        (
            {"state": 0, "metrics": {**METRICS, "l2_mpki": 40.0}},
            "State",
            "What was measured last looks like 8: the state changes as soon as the next samples",
        ),
        ({}, "Hurt", "Not known."),
        ({"is_hurt": False}, "Hurt", "No neighbour hurts it."),
        ({"is_hurt": True}, "Hurt", "Yes, by a neighbour."),
        (
            {"is_hurt": False, "hurt": ("Yes, since NOON: it wants CPU.",)},
            "Hurt",
            "Yes, since NOON",
        ),
        ({}, "Done", "Nothing so far."),
        (
            {"done": ("AT this",), "ordered": "opt_out"},
            "Done",
            "AT this Ordered by people: opt_out.",
        ),
        ({"is_hurt": False}, "Next", "Nothing has to be done. Its host looks again every second."),
        ({"is_hurt": True}, "Next", "Its host knows, and does what your operator lets it do."),
        ({"unmanaged": "realtime"}, "Next", "It is measured and left alone: realtime."),
        ({"is_stale": True}, "Next", "If that lasts, tell your operator."),
        ({"is_stale": True, "reader": OPERATOR}, "Next", "See `see-host`, and whether vp-agent"),
    ],
)
def test_what_is_said(about, heading, said):
    assert said in read(a_case(**about))[heading]


def test_what_it_suffers_is_not_called_unknown():
    told = read(a_case(is_hurt=None, hurt=("Yes, since NOON: it is far away.",)))
    assert told["Hurt"] == "Yes, since NOON: it is far away."


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        (
            "observe",
            "Proposed: moving. Mode observe: nothing is done unasked. To let it: `set-mode",
        ),
        (
            "advise",
            "Proposed: moving. It waits for you: `accept a-1`. Mode advise: nothing is done",
        ),
        ("enforce", "Proposed: moving. Its host mends this by itself"),
    ],
)
def test_what_an_operator_can_do_next(mode, said):
    case = a_case(reader=OPERATOR, is_hurt=True, proposed={"a-1": "moving"}, mode=mode)
    assert said in read(case)["Next"]


def test_where_nothing_on_the_host_helps():
    about = {"is_hurt": True, "refused": ("no room",), "mode": "enforce"}
    about["escalations"] = {"e-1": "migrating"}
    cloud = read(a_case(reader=OPERATOR, **about))["Next"]
    assert "to have a server migrated: `look-at e-1`. There it is migrating." in cloud
    assert "Not done: no room." in cloud
    proposed = read(a_case(reader=OPERATOR, **{**about, "escalations": {"e-1": "proposed"}}))
    assert "migrated: `look-at e-1`. It waits for you: `accept-it e-1`." in proposed["Next"]
    about["escalations"] = {"e-1": ""}
    host = read(a_case(reader=replace(OPERATOR, escalation=""), **about))["Next"]
    assert "migrated (e-1). Not done" in host


@pytest.mark.parametrize("mode", ["observe", "advise", "enforce"])
def test_who_is_well_is_told_what_is_proposed_all_the_same(mode):
    told = read(a_case(reader=OPERATOR, is_hurt=False, proposed={"a-1": "moving"}, mode=mode))
    assert "Proposed: moving." in told["Next"]
    assert ("It waits for you: `accept a-1`." in told["Next"]) is (mode == "advise")
    assert "Nothing has to be done" not in told["Next"]


def test_who_hurts_others_is_told_so():
    told = read(a_case(reader=OPERATOR, is_hurt=False, hurts=("Guilty.",), mode="enforce"))
    assert told["Hurt"] == "No neighbour hurts it. Guilty."
    assert told["Next"].startswith("Its host mends this by itself")


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("advise", "if it does not help, it is undone. Mode advise: nothing else is done unasked."),
        ("enforce", "if it does not help, it is undone."),
    ],
)
def test_while_what_was_done_is_judged(mode, said):
    told = read(a_case(reader=OPERATOR, is_hurt=False, is_judged=True, mode=mode))
    assert told["Next"].startswith(f"What was done is being judged: {said}")
    assert "Its host mends" not in told["Next"]


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


def test_an_operator_on_the_host(world):
    victim, _ = a_hurt_pair(world)
    world.tick(4)
    for server in (VICTIM, victim):
        text = told(world, server)
        assert (
            "neighbours evict its data from the last-level cache. Guilty: server-3, 1.35 M"
            in text["Hurt"]
        )
        assert "Proposed: server-3 CPUs 0-3 -> 4-7: its misses hurt a neighbour" in text["Next"]
        assert "It waits for you: `vp-agent accept vp-" in text["Next"]
    assert told(world, "server-1")["Hurt"] == "No neighbour hurts it."
    guilty = told(world, "server-3")
    assert "It is held guilty of what server-2 suffers since" in guilty["Hurt"]
    assert "It waits for you: `vp-agent accept vp-" in guilty["Next"]


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


def test_what_was_done_stands_there(world):
    a_hurt_pair(world)
    world.control.set_mode(Mode.ENFORCE)
    world.tick(4)
    assert "server-3 CPUs 0-3 -> 4-7" in told(world, VICTIM)["Done"]
    assert "it was done, and is being judged." in told(world, VICTIM)["Done"]
    assert told(world, VICTIM)["Next"].startswith("What was done is being judged")


def test_a_server_that_does_not_run_here(world):
    a_hurt_pair(world)
    world.tick()
    with pytest.raises(UnknownServer, match=r"no server runs here .* server-1 \(0000"):
        told(world, "nobody")


def test_a_name_that_two_servers_have(world):
    a_hurt_pair(world)
    world.boot(world.rates[next(iter(world.rates))], name=VICTIM)
    world.tick()
    with pytest.raises(UnknownServer, match="2 servers are named"):
        told(world, VICTIM)
