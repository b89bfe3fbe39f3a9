# SPDX-License-Identifier: Apache-2.0
"""The good messages that bad ones are made from: rich, as real agents and services send them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from nova_vp import wire
from nova_vp.core.types.guest import MemoryMove
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.overlay import Verb
from nova_vp.core.types.policy import Mode
from nova_vp.server_override import NO_OVERRIDE, POSSIBLE_AHEAD_MS, ServerOverride
from tests.decisions import (
    a_decision,
    a_node,
    a_view,
    an_action,
    an_escalation,
    an_eventful_view,
    facts,
)
from tests.fuzz.dice import HOSTS, UUIDS, Dice, Json
from tests.messages import a_candidate, a_digest, a_domain
from tests.messages import an_escalation as an_escalation_message
from vp_agent.loop.overrides import CloudOverrides
from vp_agent.publish.report import report

NOW_MS = 1_800_000_000_000
"""Milliseconds since 1970, of overrides' versions."""
OVERLAYS = UUIDS[6:8]
PROJECT = "p1"
MODES = [mode.value for mode in Mode]
LEARNED = [["m1.small", "", 3], ["m1.small", UUIDS[0], 8], ["m1.big", UUIDS[1], 0]]
ORDERED = ServerOverride(Mode.ADVISE, opt_out=True, priority=3, exempt=True)


@cache
def _reports() -> tuple[Json, ...]:
    told = CloudOverrides(7, {UUIDS[0]: ORDERED, UUIDS[1]: NO_OVERRIDE})
    about = facts(told=told, knobs=frozenset(Knob), hypervisor="vp1.example", problems=("late",))
    views = (an_eventful_view(1), a_view(2), a_view(3, state=None))
    move = MemoryMove(views[1].guest.uuid, ((0, 0.5), (1, 0.5)), 10, 20)
    eventful = a_decision(
        *views,
        proposals=(replace(an_action("p1"), on_behalf_of=views[0].guest.uuid),),
        nodes=(a_node(0), a_node(1, limit_misses_per_s=2e6)),
        memory_moves=(move,),
        escalations=(an_escalation(),),
    )
    quiet = a_decision(a_view(4))
    order = wire.MessageVersion(1, 1)
    return tuple(report(one, about, order) for one in (eventful, eventful, quiet, a_decision()))


def a_report(dice: Dice) -> Json:
    told = {"version": dice.pick((0, dice.number, NOW_MS)), "checksum": dice.pick(("", "ab"))}
    return _sent(dice, {**dice.pick(_reports()), "overlays_told": told})


def a_host_digest(dice: Dice) -> Json:
    known = {uuid: dice.randint(0, 9) for uuid in UUIDS[: dice.randint(0, 8)]}
    seats = {uuid: dice.pick((0, 1, wire.NOWHERE, wire.SEVERAL, 129)) for uuid in known}
    domains = [
        a_domain(i, newcomer=dice.random(), resident=dice.random(), vcpus=dice.randint(0, 9))
        for i in range(dice.randint(1, 3))
    ]
    digest = a_digest("vp1", *domains, homing=dice.is_so(0.7), known=known, seats=seats)
    if dice.is_so(0.7):
        digest["service"] = [dice.randint(0, 9000) for _ in range(dice.pick((0, 3, 3)))]
    if dice.is_so(0.3):
        digest["starved"] = wire.pack_known(["p1", "p2"])
    return _sent(dice, digest)


def _sent(dice: Dice, message: dict[str, Any]) -> Json:
    epoch = dice.pick((0, 2, 2**53)) if dice.is_so(0.002) else 1
    sequence = dice.randint(0, 2**53) if dice.is_so(0.002) else dice.number + 1
    return {**message, "host": dice.pick(HOSTS), "epoch": epoch, "seq": sequence}


def profiles(dice: Dice) -> Json:
    return {"v": wire.VERSION, "sent": 1.8e9 + dice.number, "learned": LEARNED}


def an_asking(dice: Dice) -> Json:
    """An escalation."""
    candidates = [
        a_candidate(UUIDS[0], "victim", dirty_kib_per_s=1e5),
        a_candidate(UUIDS[1], "aggressor", relief_ratio=0.4, others_ratio=0.1),
        a_candidate(UUIDS[2], "co-runner", obstacle="it holds a device"),
    ]
    return an_escalation_message(
        f"{dice.randint(0, 10**6):08x}-9999-5999-8999-999999999999",
        dice.pick(HOSTS),
        *candidates,
        victim=UUIDS[0],
        evidence=dice.pick(({"measured_loss_ratio": 0.3}, {})),
        mode=dice.pick(("enforce", "advise", "observe")),
    )


def nova_facts(dice: Dice) -> Json:
    read_at = NOW_MS / 1000 - dice.randint(-300, 7200)
    group = {"id": UUIDS[3], "policy": "anti-affinity", "members": list(UUIDS[:2])}
    specs = {"vp:isolation": "strict", "vp:priority": "2", "hw:mem_page_size": "large"}
    servers = [{"uuid": uuid, "specs": specs} for uuid in UUIDS[: dice.randint(0, 3)]]
    return {
        "v": wire.VERSION,
        "read_at": read_at,
        "aggregates": ["ssd"],
        "groups": [group],
        "servers": servers,
    }


def modes(dice: Dice) -> Json:
    named = [{"name": name, "mode": dice.pick(MODES)} for name in ("ssd", "rack 7")]
    told = {"v": wire.VERSION, "version": NOW_MS + dice.number, "aggregates": named}
    return told | ({"cloud": dice.pick(MODES)} if dice.is_so(0.5) else {})


def a_latency(dice: Dice) -> Json:
    sent_at_ms = NOW_MS + dice.number
    return {
        "v": wire.VERSION,
        "server": dice.pick(UUIDS[:5]),
        "project_id": dice.pick(("p" * 32, "p" * 32, "p2")),
        "latency_ms": dice.pick((8.5, 1, 1e5)),
        "load": dice.pick((None, 0, 450_000.0)),
        "percentile": dice.pick((None, 95, 99.9)),
        "measured_at_ms": sent_at_ms - dice.pick((0, 100, 60_000)),
        "sent_at_ms": sent_at_ms,
    }


def overrides(dice: Dice) -> Json:
    servers = [{"uuid": uuid} for uuid in UUIDS[: dice.randint(0, 4)]]
    if servers:
        servers[0] = {**servers[0], **ORDERED.as_message()}
    version = dice.pick(
        (
            dice.number,
            NOW_MS + dice.number,
            NOW_MS + dice.randint(0, 2 * POSSIBLE_AHEAD_MS),
            wire.MOST_COUNT,
        )
    )
    return {"v": wire.VERSION, "version": version, "servers": servers}


def overlays(dice: Dice, servers: Sequence[str]) -> Json:
    """Some of the servers in one, the others in another."""
    cut = dice.pick((2, 2, 2, 0, 1, 3))
    told = [
        {
            "id": overlay_id,
            "name": dice.pick(("shop", "mills", "é")),
            "project_id": PROJECT,
            "members": list(members),
            "priority": dice.pick((0, 1, 2.5, 10)),
            "arbitration": dice.pick(("priority", "round-robin")),
            "target": dice.pick((None, 250, 0.5)),
            "target_unit": dice.pick(("", "requests/s")),
        }
        for overlay_id, members in zip(OVERLAYS, (servers[:cut], servers[cut:]), strict=True)
    ]
    version = dice.pick((dice.number, *[NOW_MS + dice.number] * 4, wire.MOST_COUNT))
    return {"v": wire.VERSION, "version": version, "overlays": told}


def a_call(dice: Dice, servers: Sequence[str]) -> Json:
    verb = dice.pick(("tune", "tune", *(one.value for one in Verb)))
    is_tune = verb == Verb.TUNE.value
    is_borrow = verb == Verb.BORROW.value
    is_named = is_tune or is_borrow or dice.is_so(0.5)
    return {
        "v": wire.VERSION,
        "id": f"call-{dice.number}",
        "overlay_id": dice.pick(OVERLAYS),
        "project_id": dice.pick((PROJECT, PROJECT, PROJECT, "p2")),
        "verb": verb,
        "resource": dice.pick(("cpu", "memory-size", "io")) if is_tune else "cpu",
        "direction": dice.pick(("up", "down")) if is_tune else "up",
        "server": dice.pick(servers) if is_named else None,
        "cpus": dice.pick((1, 1, 2, 4096)) if is_borrow else 0,
        "island": dice.pick(("", "llc-0", "llc-7")) if is_borrow else "",
        "lease_s": None if verb == Verb.RELEASE.value else dice.pick((None, 1e-9, 30, 86_400)),
        "sent_at_ms": NOW_MS - dice.pick((0, 0, 100, 600_000)),
    }
