# SPDX-License-Identifier: Apache-2.0
"""The real loop over fake drivers: a server that waits for CPU is relieved while CPUs are idle."""

import pytest

from nova_vp.core.types.action import Result
from nova_vp.core.types.cpu_time import CpuTimes
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.policy import Mode
from tests.policies import a_policy
from tests.unit.agent_host import World
from tests.unit.core.build import COMPUTE

NS = 10**9
pytestmark = pytest.mark.needs_controllers("vp")


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "state", policy=a_policy(controllers=("vp",)))


def five_on_four_cpus(world: World) -> list[str]:
    """All in the first LLC domain of two, as Nova put them, and all busy."""
    first = world.host.topology.domains[0].cpus
    servers = [world.boot(COMPUTE, cpu_times=CpuTimes(0, 0, 0, "1")) for _ in range(5)]
    for uuid in servers:
        world.host.change(uuid, placement=first)
    world.start_agent()
    return servers


def a_second(world: World, servers: list[str]) -> None:
    """They share the CPUs of the domain that each runs in, evenly."""
    places = [world.host.guests[uuid].guest.placement for uuid in servers]
    for uuid, cpus in zip(servers, places, strict=True):
        got = min(1.0, len(cpus) / places.count(cpus))
        guest = world.host.guests[uuid].guest
        was = guest.cpu_times
        times = was._replace(
            ran_ns=was.ran_ns + round(got * NS),
            run_delay_ns=was.run_delay_ns + round(NS * (1 - got)),
        )
        cpu_time_ns = guest.cpu_time_ns + round(got * NS)
        world.host.change(uuid, cpu_times=times, cpu_time_ns=cpu_time_ns)
    world.tick()


def test_one_of_five_on_four_cpus_moves_to_the_idle_ones_and_all_run(world):
    servers = five_on_four_cpus(world)
    for _ in range(30):
        a_second(world, servers)
    first, second = (domain.cpus for domain in world.host.topology.domains)
    places = [world.host.guests[uuid].guest.placement for uuid in servers]
    assert (places.count(first), places.count(second)) == (4, 1)
    assert [o.action.reason.code for o in world.heard.outcomes] == ["move-victim"]
    assert world.heard.decisions[-1].detections == ()
    moved = next(uuid for uuid in servers if world.host.guests[uuid].guest.placement == second)
    [outcome] = world.agent.state.vps[moved].history
    assert outcome.result is Result.MENDED


def test_in_observe_it_is_detected_and_nothing_is_done(world):
    world.mode = Mode.OBSERVE
    servers = five_on_four_cpus(world)
    for _ in range(30):
        a_second(world, servers)
    assert {d.kind for d in world.heard.decisions[-1].detections} == {Kind.CPU}
    assert not world.heard.outcomes
    [proposal] = world.heard.decisions[-1].proposals
    assert proposal.guest_uuid in servers
    found = [world.host.guests[uuid] for uuid in servers]
    assert {one.guest.placement for one in found} == {world.host.topology.domains[0].cpus}
    assert not [one for one in found if one.journal]
