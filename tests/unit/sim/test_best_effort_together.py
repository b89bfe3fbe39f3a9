# SPDX-License-Identifier: Apache-2.0
"""200 random stories with vp, rebalance, merlin, permits and latency on: nobody fights over a knob,
floors hold, targets are met, and what is undone is as Nova had it.

The model is memcached beside stress-ng, which has a pollution permit; loads and figures are random.
Each story is ten minutes. In two of three stories the permit limits stress-ng, too. A commit runs
every fourth story (`tests.turns`).
"""

from random import Random

import pytest

from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob, Quota
from tests.policies import a_policy
from tests.turns import in_turn
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
    host, dice = agent_host(perturbed(seed), seed), Random(seed)
    keys = (("vp:llc_permit", str(dice.choice((500, 20_000)))),)
    host.be_mpki = dice.choice((0.0, 0.5, 2.0))
    be = host.guests_by_uuid[BE]
    host.guests_by_uuid[BE] = be._replace(controller_keys=keys, may_suspend=bool(seed % 2))
    return host, CorePolicy(host, a_policy(controllers=CONTROLLERS))


def alone(host: AgentHost, seed: int, load: list[float]) -> Socket:
    socket = Socket(host.socket.figures, Random(f"run-{seed}"))
    for rps in load:
        socket.advance(rps)
        socket.advance(rps)
    return socket


def check_knobs(host: AgentHost, agent: CorePolicy) -> None:
    """Each is turned once in a tick. A cap is the tightest that anybody claims, whoever set it
    last, down to the floor; every other knob is one controller's."""
    assert agent.decision is not None
    changes = [one for action in agent.decision.actions for one in action.changes]
    keys = [(one.guest_uuid, one.knob) for one in changes]
    assert len(keys) == len(set(keys)), "one knob is turned twice in a tick"
    for (uuid, knob), claims in agent.claims.items():
        if knob is Knob.CPU_CAP:
            guest = host.guests_by_uuid[uuid]
            tightest = min(one.value.cores for one in claims)  # type: ignore[union-attr]
            assert guest.quota.cores == pytest.approx(max(tightest, floor_of(guest)))
        else:
            assert len(claims) == 1, f"{knob} is of several controllers"


def floor_of(guest: Guest) -> float:
    return LEAST_CORES if guest.may_suspend else 0.01


@pytest.mark.parametrize("seed", in_turn(range(STORIES), parts=4))
def test_all_controllers_together(seed: int) -> None:
    host, agent = a_story(seed)
    before = dict(host.guests_by_uuid)
    load = list(random_load(seed, host.socket.figures).rps[:SECONDS])
    weights_set = 0
    for second, rps in enumerate(load, 1):
        host.advance(rps)
        agent.tick(float(second))
        check_knobs(host, agent)
        assert agent.decision is not None
        actions = agent.decision.actions
        changes = [one for action in actions for one in action.changes]
        weights_set += sum(one.knob is Knob.CPU_WEIGHT for one in changes)
        be = host.guests_by_uuid[BE]
        assert be.quota.cores >= floor_of(be)
        assert host.guests_by_uuid[LC].quota == Quota(), "only a permit may cap it"
    assert weights_set == 2, "a weight is set once"
    without = alone(host, seed, load)
    target_ms = host.socket.figures.target_ms
    counted = [
        one
        for one, solo in zip(host.socket.samples_ms, without.samples_ms, strict=True)
        if solo <= target_ms
    ]
    assert sum(one <= target_ms for one in counted) >= MET * len(counted)
    check_undo(host, agent, before, load[-1])


def check_undo(host: AgentHost, agent: CorePolicy, before: dict[str, Guest], rps: float) -> None:
    """Once there is nothing to protect and no permit, all is as Nova had it."""
    lc = host.guests_by_uuid[LC]
    host.guests_by_uuid[LC] = lc._replace(service_class=None)
    host.guests_by_uuid[BE] = host.guests_by_uuid[BE]._replace(controller_keys=())
    for second in range(SECONDS + 1, SECONDS + 200):
        host.advance(rps)
        agent.tick(float(second))
        if not host.entries:
            break
    assert host.entries == {}
    for uuid, guest in host.guests_by_uuid.items():
        was = before[uuid]
        assert guest == was._replace(
            cpu_time_ns=guest.cpu_time_ns,
            service_class=guest.service_class,
            controller_keys=guest.controller_keys,
        )


def test_permits_limit_in_the_stories_beside_latency() -> None:
    """Or nothing there could be fought over."""
    host, agent = a_story(1)
    both = 0
    for second, rps in enumerate(random_load(1, host.socket.figures).rps[:SECONDS], 1):
        host.advance(rps)
        agent.tick(float(second))
        both += len(agent.claims[BE, Knob.CPU_CAP]) > 1
    assert both > SECONDS / 2
