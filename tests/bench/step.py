# SPDX-License-Identifier: Apache-2.0
"""What one decision costs on a big host: 100 VPs on 8 LLC domains and 4 nodes, 20 hurt at once.

The core alone, driven as in its unit tests, by the thread's own CPU time: other work on this
machine must not count. Garbage is collected as seldom as in the agent. Quiet first; then five
guests stream beside twenty that live off the cache.
"""

import gc
import statistics
import sys
import time
from dataclasses import dataclass, field

from nova_vp.core.pipeline.confirm import confirm
from nova_vp.core.step import step
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.topology import Limits
from tests.bench.agent import percentile
from tests.bench.harness import Benchmark, Numbers, command_line, scaled
from tests.policies import a_policy
from tests.unit.core.build import (
    ALL_KNOBS,
    CHASE,
    CHASE_HURT,
    COMPUTE,
    STREAM,
    Host,
    nodes_of,
)
from vp_agent.loop.tick import GARBAGE_OBJECTS

VPS, VICTIMS, AGGRESSORS, VCPUS = 100, 20, 5, 4
NODE_OF_DOMAIN = (0, 0, 1, 1, 2, 2, 3, 3)
CPUS_PER_DOMAIN = 16
LIMITS = Limits(node_misses_per_s=2e7, link_misses_per_s=1e7)
QUIET_S, HURT_S = 60, 240


@dataclass
class TimedHost(Host):
    steps_ms: list[float] = field(default_factory=list)

    def decide(self) -> Decision:
        picture = self.picture()
        began_ns = time.thread_time_ns()
        self.state, decision = step(self.state, picture, self.policy)
        self.steps_ms.append((time.thread_time_ns() - began_ns) / 1e6)
        outcomes = [self._apply(action) for action in decision.actions]
        self.state = confirm(self.state, outcomes, self.policy)
        return decision


def measure() -> Numbers:
    host = a_host()
    host.tick()
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)
    host.ticks(QUIET_S)
    quiet_ms, host.steps_ms = sorted(host.steps_ms), []
    host.rule = storm
    victims, actions = [], 0
    for _ in range(HURT_S):
        decision = host.tick()
        victims.append(len(decision.detections))
        actions += len(decision.actions)
    hurt_ms = sorted(host.steps_ms)
    return {
        "quiet_mean_ms": statistics.fmean(quiet_ms),
        "quiet_p99_ms": percentile(quiet_ms, 0.99),
        "hurt_mean_ms": statistics.fmean(hurt_ms),
        "hurt_p99_ms": percentile(hurt_ms, 0.99),
        "hurt_max_ms": hurt_ms[-1],
        "most_victims_at_once": max(victims),
        "actions": actions,
        "victims_left": victims[-1],
    }


def a_host() -> TimedHost:
    """Victims and those who will stream share the first five domains."""
    host = TimedHost(
        nodes_of(*NODE_OF_DOMAIN, cpus=CPUS_PER_DOMAIN), a_policy(), knobs=ALL_KNOBS, limits=LIMITS
    )
    for number in range(VPS):
        crowded = number < VICTIMS + AGGRESSORS
        domain = host.topology.domains[number % (AGGRESSORS if crowded else len(NODE_OF_DOMAIN))]
        host.add(
            f"vp{number}",
            CHASE if number < VICTIMS else COMPUTE,
            cpus=set(domain.cpus),
            vcpus=VCPUS,
            node=domain.node,
            cap_floor_ratio=0.5,
        )
    return host


def storm(host: Host) -> None:
    """Who shares a cache with a stream misses all that it had there."""
    streams = [f"vp{number}" for number in range(VICTIMS, VICTIMS + AGGRESSORS)]
    stormy = set().union(*(host.domains(name) for name in streams))
    for name in streams:
        host.run(name, STREAM)
    for number in range(VICTIMS):
        hurt = host.domains(f"vp{number}") & stormy
        host.run(f"vp{number}", CHASE_HURT if hurt else CHASE)


BENCHMARK = Benchmark(
    name="step",
    about=f"one decision for {VPS} VPs on 8 LLC domains, {VICTIMS} hurt at once",
    budgets={
        "quiet_mean_ms": scaled(2.0),
        "hurt_mean_ms": scaled(2.0),
        "hurt_p99_ms": scaled(5.0),
    },
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(command_line(BENCHMARK))
