# SPDX-License-Identifier: Apache-2.0
"""What was read goes through the real core, and what comes of it through both messages: a receiver
must take whatever an agent tells.
"""

import math
from collections.abc import Mapping
from typing import Any

from nova_vp import wire
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.state import CoreState
from tests.decisions import facts
from tests.fuzz.oracle import Wrong, expect
from tests.unit.core.build import CHASE, COMPUTE, STREAM, Host, nodes_of, uuid_of
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


def live(host: Host, ticks: int = 2) -> None:
    for _ in range(ticks):
        check_told(host.tick())


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
