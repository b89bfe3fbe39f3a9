# SPDX-License-Identifier: Apache-2.0
"""200 random stories with vp, rebalance, merlin, permits and latency on: nobody fights over a knob,
floors hold, targets are met, and what is undone is as Nova had it.

The model is memcached beside stress-ng; loads and figures are random. Each story is ten minutes.
"""

from random import Random

import pytest

from nova_vp.core.types.knob import Knob, Quota
from tests.policies import a_policy
from vp_sim.best_effort.agent_host import BE, LC, AgentHost, agent_host
from vp_sim.best_effort.figures import perturbed
from vp_sim.best_effort.loads import random_load
from vp_sim.best_effort.socket import Socket
from vp_sim.policies.core import CorePolicy

STORIES, SECONDS, MET = 200, 600, 0.98
CONTROLLERS = ("vp", "rebalance", "merlin", "permits", "latency")
LEAST_CORES = 0.001
"""Of each vCPU of a server that may be suspended."""

pytestmark = pytest.mark.needs_controllers(*CONTROLLERS)


def a_story(seed: int) -> tuple[AgentHost, CorePolicy]:
    host = agent_host(perturbed(seed), seed)
    keys = (("vp:llc_permit", str(Random(seed).choice((500, 20_000)))),)
    be = host.guests_by_uuid[BE]
    may_suspend = bool(seed % 2)
    host.guests_by_uuid[BE] = be._replace(controller_keys=keys, may_suspend=may_suspend)
    return host, CorePolicy(host, a_policy(controllers=CONTROLLERS))


def alone(host: AgentHost, seed: int, load: list[float]) -> Socket:
    socket = Socket(host.socket.figures, Random(f"run-{seed}"))
    for rps in load:
        socket.advance(rps)
        socket.advance(rps)
    return socket


@pytest.mark.parametrize("seed", range(STORIES))
def test_all_controllers_together(seed: int) -> None:
    host, agent = a_story(seed)
    before = dict(host.guests_by_uuid)
    load = list(random_load(seed, host.socket.figures).rps[:SECONDS])
    weights_set = 0
    for second, rps in enumerate(load, 1):
        host.advance(rps)
        agent.tick(float(second))
        assert agent.decision is not None
        changes = [one for action in agent.decision.actions for one in action.changes]
        keys = [(one.guest_uuid, one.knob) for one in changes]
        assert len(keys) == len(set(keys)), "one knob is turned twice in a tick"
        weights_set += sum(knob is Knob.CPU_WEIGHT for _, knob in keys)
        be = host.guests_by_uuid[BE]
        floor = LEAST_CORES if be.may_suspend else 0.01
        assert be.quota.cores >= floor
        assert host.guests_by_uuid[LC].quota == Quota(), "only a permit may cap it"
    assert weights_set <= 2, "a weight is set once"
    without = alone(host, seed, load)
    target_ms = host.socket.figures.target_ms
    counted = [
        one
        for one, solo in zip(host.socket.samples_ms, without.samples_ms, strict=True)
        if solo <= target_ms
    ]
    assert sum(one <= target_ms for one in counted) >= MET * len(counted)
    lc = host.guests_by_uuid[LC]
    host.guests_by_uuid[LC] = lc._replace(service_class=None)
    host.guests_by_uuid[BE] = host.guests_by_uuid[BE]._replace(controller_keys=())
    for second in range(SECONDS + 1, SECONDS + 200):
        host.advance(load[-1])
        agent.tick(float(second))
        if not host.entries:
            break
    for uuid, guest in host.guests_by_uuid.items():
        was = before[uuid]
        assert (guest.quota, guest.cpu_weight) == (was.quota, was.cpu_weight)
