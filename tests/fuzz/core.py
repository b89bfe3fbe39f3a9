# SPDX-License-Identifier: Apache-2.0
"""What was read goes through the real core, and what comes of it through both messages: a receiver
must take whatever an agent tells.
"""

import math
from collections.abc import Mapping
from typing import Any

from nova_vp import wire
from nova_vp.core.types.action import Change
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.sample import Reading
from nova_vp.core.types.state import CoreState
from tests.decisions import facts
from tests.fuzz.oracle import Wrong, expect
from tests.unit.core.build import CHASE, CHASE_HURT, COMPUTE, STREAM, Host, nodes_of, uuid_of
from vp_agent.publish.digest import digest
from vp_agent.publish.report import report

NAMES = ("a", "b", "c")
GUESTS = tuple(map(uuid_of, NAMES))


def a_host(mode: Mode = Mode.ENFORCE) -> Host:
    """Two nodes, three guests, one of which hurts another."""
    host = Host(topology=nodes_of(0, 1), mode=mode, knobs=frozenset(Knob))
    for name, rates in zip(NAMES, (CHASE, STREAM, COMPUTE), strict=True):
        host.add(name, rates, vcpus=2, node=0, cap_floor_ratio=0.5)
    return host


def with_guest(host: Host, **fields: Any) -> Host:
    """The first one, as somebody describes it."""
    host.guests[GUESTS[0]] = host.guests[GUESTS[0]]._replace(**fields)
    return host


def live(host: Host) -> None:
    """What was read has a history: it is acted on, hours pass at once, servers come and go, modes
    change, and the agent starts again, with what a state folder keeps."""
    _tick(host, 3)
    host.run("b", STREAM)
    if GUESTS[0] in host.counts:
        host.run("a", CHASE_HURT)
    _tick(host, 3)
    host.leave("c")
    _tick(host)
    host.mode = Mode.OBSERVE
    _tick(host)
    host.mode = Mode.ENFORCE
    _tick(host, span_s=3600.0)
    _reboot(host)
    _tick(host)
    _start_again(host)
    host.add("c", COMPUTE, vcpus=2, node=1)
    _tick(host, 2)


def _tick(host: Host, times: int = 1, span_s: float = 1.0) -> None:
    for number in range(times):
        decision = host.tick(span_s)
        state = host.state
        expect(state.vps.keys() == host.guests.keys(), "it remembers servers that are not here")
        here = {uuid for uuid, _ in state.claims} <= host.guests.keys()
        expect(here, f"it claims something of servers that are not here: {state.claims}")
        if number == 0 or decision.actions:
            check_told(decision)


def _reboot(host: Host) -> None:
    """The first one: nothing of ours is left, and its counters begin anew."""
    uuid = GUESTS[0]
    guest, counts = host.guests[uuid], host.counts.get(uuid)
    host.guests[uuid] = guest._replace(
        generation=f"{guest.generation}'", placement=guest.allowed_cpus, vcpu_placement=()
    )
    host.applied.pop(uuid, None)
    if counts is not None:
        zero = Reading(0, 0, 0, 0, 0, counts.vcpus_read, 1.0, f"{guest.generation}'")
        host.counts[uuid] = zero._replace(vcpu_cycles=(0,) * len(counts.vcpu_cycles))


def _start_again(host: Host) -> None:
    """Another run of the agent gives back what this one had set, and learns anew."""
    for uuid, applied in host.applied.items():
        for held in applied.held:
            back = Change(uuid, held.knob, held.original, held.value, held.original)
            host.guests[uuid] = host.turned(host.guests[uuid], back)
    host.applied.clear()
    host.memory_moves.clear()
    known = host.state
    host.state = CoreState(profiles={**known.profiles, **known.undisturbed})


def remembering(host: Host, profiles: Mapping[str, Any]) -> Host:
    host.state = CoreState(profiles=dict(zip(GUESTS, profiles.values(), strict=False)))
    return host


def check_told(decision: Decision) -> None:
    about, order = facts(), wire.MessageVersion(1, 1)
    for topic, message in (
        (wire.REPORT_TOPIC, report(decision, about, order)),
        (wire.DIGEST_TOPIC, digest(decision, about, order, decision.at_s)),
    ):
        try:
            wire.decode(topic, wire.encode(topic, message))
        except wire.BadMessage as exc:
            raise Wrong(f"what the agent tells is refused: {exc}") from exc
    for action in decision.actions:
        for change in action.changes:
            is_due = change.until_s is None or math.isfinite(change.until_s)
            expect(is_due, f"{action.id} never ends: {change}")
