# SPDX-License-Identifier: Apache-2.0
"""An overcommitted host is never packed into one cache at the price of waiting for CPU."""

from dataclasses import replace

import pytest

from nova_vp.core.controllers.vp.declaration import MOVE_AGGRESSOR
from nova_vp.core.types.action import Result
from nova_vp.core.types.reason import INEFFECTIVE
from tests.policies import a_policy
from tests.unit.core.build import ALL_KNOBS, CHASE, CHASE_HURT, COMPUTE, STREAM, Host, nodes_of
from tests.unit.core.controllers.vp.hosts import POLICY
from tests.unit.core.crowding import shared_cpus

SLY = replace(COMPUTE, cores=0.05)
"""So light when it was last seen that its place looked free."""


def results(host: Host) -> list[Result]:
    judged = {o.action.id: o.result for vp in host.state.vps.values() for o in vp.history}
    return list(judged.values())


def test_a_pin_that_trades_misses_for_waiting_is_undone():
    """The victim is well in its cache at once; whom the move met waits."""
    host = Host(nodes_of(0, 1, cpus=1), POLICY)
    host.add("victim", CHASE, cpus={0})
    host.add("storm", COMPUTE, cpus={0})
    host.add("resident", SLY, cpus={1})
    light = {"victim": CHASE, "storm": COMPUTE, "resident": SLY}
    host.rule = shared_cpus(light)
    host.ticks(8)

    def cache(host: Host) -> None:
        victim = CHASE_HURT if host.share_a_cache("storm", "victim") else CHASE
        storm = replace(STREAM, cores=0.65)
        waiting = {**light, "victim": victim, "storm": storm}
        shared_cpus(waiting)(host)
        if host.share_a_cache("storm", "resident"):
            was = host.guest("storm").cpu_times
            host.change("storm", cpu_times=was._replace(run_delay_ns=was.run_delay_ns + 3 * 10**8))

    host.rule = cache
    host.until(MOVE_AGGRESSOR)
    assert host.placement("storm") == {1}
    host.until(INEFFECTIVE)
    assert host.placement("storm") == {0}
    assert Result.INEFFECTIVE in results(host)


@pytest.mark.needs_controllers("rebalance")
def test_rebalance_and_vp_pack_nobody_into_one_cache_where_they_would_wait():
    """Six servers that stream and two that live off the cache, on four CPUs in two caches: apart by
    kind they would miss least, and six would share two CPUs."""
    host = Host(nodes_of(0, 0, cpus=2), a_policy(controllers=("vp", "rebalance")), knobs=ALL_KNOBS)
    streams = [f"stream-{n}" for n in range(6)]
    chasers = ["chaser-0", "chaser-1"]
    stream, chase = replace(STREAM, cores=0.6), replace(CHASE, cores=0.3)
    for n, name in enumerate([*streams, *chasers]):
        host.add(name, COMPUTE, cpus={0, 1} if n % 2 else {2, 3})

    def cache(host: Host) -> None:
        hurt = replace(CHASE_HURT, cores=0.3)
        rates = {
            name: hurt if any(host.share_a_cache(name, other) for other in streams) else chase
            for name in chasers
        }
        shared_cpus({**rates, **dict.fromkeys(streams, stream)})(host)

    host.rule = cache
    for _ in range(240):
        host.tick()
        crowds = [
            sum({d.id} == host.domains(name) for name in streams) for d in host.topology.domains
        ]
        assert max(crowds) < 6
    uses = [vp.recent_cpu_use for vp in host.state.vps.values()]
    assert max(use.waiting_ratio for use in uses if use) < 0.15
