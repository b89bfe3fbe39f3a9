# SPDX-License-Identifier: Apache-2.0
"""Hosts that many tests begin with: a victim, and somebody that degrades it from some moment on.

Which controllers are there is for the test to say; without any, only what is detected shows.
"""

from collections.abc import Iterable

from nova_vp.core.types.decision import Decision
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.policy import Mode, Policy
from nova_vp.core.types.topology import Limits
from tests.unit.core.build import (
    ALL_KNOBS,
    CHASE,
    CHASE_HURT,
    COMPUTE,
    STREAM,
    Host,
    Rates,
    memory_system,
    nodes_of,
    uuid_of,
)
from tests.unit.core.wishful import NOBODY

NEIGHBOUR, VICTIM = uuid_of("neighbour"), uuid_of("victim")

LIMIT = 3e6
"""Misses per second that a node serves."""
LIMITS = Limits(node_misses_per_s=0.8 * LIMIT)
SENSITIVE = Rates(mips=50, l2_mpki=25.0, mpki=20.0, cpi=2.0, cores=0.5)
"""State 8: it lives off memory."""
STORM = Rates(mips=60, l2_mpki=70.0, mpki=60.0, cpi=2.0, cores=1.0)
"""3.6 million misses per second."""


def a_quiet_pair(**kwargs) -> Host:
    """A chase victim and a harmless neighbour in one LLC domain; an idle second domain."""
    host = Host(**{"policy": NOBODY, **kwargs})
    host.add("neighbour", COMPUTE, cpus={0})
    host.add("victim", CHASE, cpus={0})
    host.ticks(6)
    return host


def onset(host: Host) -> None:
    host.run("neighbour", STREAM)
    host.run("victim", CHASE_HURT)


def a_hurt_pair(policy: Policy = NOBODY, **about) -> Host:
    """A neighbour that hurts a victim from the next tick on, and an idle second domain."""
    host = Host(policy=policy, mode=about.pop("host_mode", Mode.ENFORCE))
    host.add("neighbour", COMPUTE, cpus={0}, **about)
    host.add("victim", CHASE, cpus={0})
    host.ticks(6)
    host.run("neighbour", STREAM)
    host.run("victim", CHASE_HURT)
    return host


def a_node(*nodes: int, limits: Limits = LIMITS, policy: Policy = NOBODY, **aggressor) -> Host:
    """A sensitive VP and a quiet one, an LLC each, memory on node 0; then the quiet one storms."""
    host = Host(nodes_of(*nodes), policy, knobs=ALL_KNOBS, limits=limits)
    host.add("victim", SENSITIVE, cpus={0, 1}, node=0)
    host.add("storm", COMPUTE, cpus={2, 3}, node=0, **aggressor)
    host.rule = memory_system({"victim": SENSITIVE, "storm": COMPUTE}, LIMIT)
    host.ticks(6)
    return host


def break_out(host: Host, **others: Rates) -> None:
    host.rule = memory_system({"victim": SENSITIVE, "storm": STORM, **others}, LIMIT)


def kinds(decisions: Iterable[Decision]) -> set[Kind]:
    return {detection.kind for d in decisions for detection in d.detections}


def far_away(policy: Policy = NOBODY, **victim) -> Host:
    """A victim whose memory was at home, until somebody moved it to node 1."""
    host = Host(nodes_of(0, 1), policy, knobs=ALL_KNOBS)
    host.add("victim", SENSITIVE, cpus={0, 1}, node=0, **victim)
    host.rule = memory_system({"victim": SENSITIVE})
    host.ticks(6)
    kib = host.guest("victim").memory_kib
    host.change("victim", memory_by_node=((1, kib),))
    return host


def trapped(policy: Policy = NOBODY, **fields) -> Host:
    """One LLC, one node, no caps: nothing can be done."""
    host = Host(nodes_of(0, cpus=4), policy, knobs=ALL_KNOBS)
    host.add("victim", CHASE, cpus={0, 1, 2, 3}, node=0)
    host.add("storm", COMPUTE, cpus={0, 1, 2, 3}, node=0, **fields)
    host.ticks(6)
    host.run("victim", CHASE_HURT)
    host.run("storm", STREAM)
    return host
