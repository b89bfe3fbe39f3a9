# SPDX-License-Identifier: Apache-2.0
"""Hosts on which only `vp` acts."""

from dataclasses import replace

from nova_vp.core.controllers.base import Controller
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Enabled, Policy
from tests.policies import a_policy
from tests.unit.core import hosts
from tests.unit.core.build import CHASE, CHASE_HURT, COMPUTE, STREAM, Host, nodes_of

POLICY = a_policy(controllers=("vp",))


def with_own(*controllers: Controller) -> Policy:
    """`vp` beside controllers of the test's own."""
    own = tuple(Enabled(one, one.settings()) for one in controllers)
    return replace(POLICY, controllers=(*own, *POLICY.controllers))


def a_quiet_pair(**about) -> Host:
    return hosts.a_quiet_pair(**{"policy": POLICY, **about})


def a_node(*nodes: int, **about) -> Host:
    return hosts.a_node(*nodes, **{"policy": POLICY, **about})


def far_away(**victim) -> Host:
    return hosts.far_away(POLICY, **victim)


def crowd(*, victim: Unmanaged | None = None, **storm) -> Host:
    """All on one LLC and one node; the storm breaks out."""
    host = Host(nodes_of(0, cpus=4), POLICY, knobs=frozenset(Knob))
    host.add("victim", CHASE, cpus={0, 1, 2, 3}, node=0, priority=50.0, unmanaged=victim)
    host.add("storm", COMPUTE, cpus={0, 1, 2, 3}, node=0, **storm)
    host.ticks(6)
    host.run("victim", CHASE_HURT)
    host.run("storm", STREAM)
    return host
