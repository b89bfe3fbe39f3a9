# SPDX-License-Identifier: Apache-2.0
"""Servers that no agent has seen alone, in the simulator on a machine of two LLCs.

`python -m tests.bench.permits_cleared --json`. gcc, mcf and soplex begin in one LLC of the Kyoto
paper's machine, the other one is free; only `permits` is enabled. `error_before`, `error_after`:
the greatest |charged - own| / permit of a server over the seconds before the first measurement in
a cleared LLC (socket dedication, 3.3), and over the last minute. `measurements`: how many there
were. `worst_loss`: what any of them cost the server that lost most, as the agent measured it.
`moved_back`: 1 if everybody is where it was.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nova_vp.controllers import with_controllers
from nova_vp.core.controllers.permits.declaration import DEDICATION_ENDED
from nova_vp.core.types.policy import Policy
from tests.bench.harness import Benchmark, Numbers, command_line, fixed, progress
from tests.bench.permits import MOST_ERROR_RATIO, PERMIT, SEED, Kyoto, a_member
from vp_sim.host import SimHost
from vp_sim.kyoto_profiles import KYOTO_HARDWARE, KYOTO_SHAPE
from vp_sim.mixes import Memory, Mix
from vp_sim.policies.core import CorePolicy
from vp_sim.run import start, world_of
from vp_sim.sim_drivers import sim_drivers_of

NAMES = ("gcc", "mcf", "soplex")
SHAPE = replace(KYOTO_SHAPE, domains_per_node=2)
HERE = (frozenset(range(KYOTO_SHAPE.cores_per_domain)),)
SECONDS, WINDOW_S, FIRST_S = 600, 60, 10
"""The first measurement begins once ten samples in a row were not sure."""


def measure() -> dict[str, Any]:
    kyoto, host = Kyoto(), _host()
    agent = CorePolicy(sim_drivers_of(host), with_controllers(Policy(), ["permits"]))
    errors: list[dict[str, float]] = []
    costs: list[float] = []
    for _ in range(SECONDS):
        host.advance(1.0)
        agent.tick(host.now_s)
        assert agent.decision is not None
        errors.append(_errors(kyoto, host, agent))
        for action in agent.decision.actions:
            if action.reason is DEDICATION_ENDED:
                costs.append(action.evidence["worst_loss_ratio"])
                progress(f"second {host.now_s:.0f}: {dict(action.evidence)}")
    return {
        "error_before": _worst(errors[1:FIRST_S]),
        "error_after": _worst(errors[-WINDOW_S:]),
        "measurements": len(costs),
        "worst_loss": max(costs, default=0.0),
        "moved_back": float(all(guest.cpus == HERE for guest in host.guests.values())),
    }


def _host() -> SimHost:
    members = tuple(a_member(name, number, PERMIT) for number, name in enumerate(NAMES))
    mix = Mix("cleared", members, shape=SHAPE, hardware=KYOTO_HARDWARE, memory=Memory.LOCAL)
    host = start(world_of(mix), SEED)
    for guest in host.guests.values():
        host.place(guest, HERE)
    return host


def _errors(kyoto: Kyoto, host: SimHost, agent: CorePolicy) -> dict[str, float]:
    """By server, in this second: charged less own, by its permit."""
    assert agent.decision is not None
    found = {}
    for view in agent.decision.vps:
        uuid = view.guest.uuid
        factor = kyoto.alone[host.guests[uuid].app.name].memory_factor
        own = factor * host.speeds[uuid].references_per_s / 1000
        charged = view.figures["permits"].get("misses_per_ms", 0.0)
        assert isinstance(charged, float)
        found[uuid] = (charged - own) / PERMIT
    return found


def _worst(errors: list[dict[str, float]]) -> float:
    return max(abs(sum(one[uuid] for one in errors)) / len(errors) for uuid in errors[0])


def losses(found: Mapping[str, Any]) -> Numbers:
    """Budgets are upper limits."""
    return {
        "error_before": found["error_before"],
        "error_after": found["error_after"],
        "worst_loss": found["worst_loss"],
        "not_moved_back": 1.0 - found["moved_back"],
    }


BENCHMARK = Benchmark(
    name="permits, cleared LLC",
    about="servers that nobody has seen alone are measured in an LLC of their own",
    budgets={
        "error_after": fixed(MOST_ERROR_RATIO),
        "worst_loss": fixed(0.12),
        "not_moved_back": fixed(0.0),
    },
    measure=measure,
    numbers_of=losses,
)


if __name__ == "__main__":
    sys.exit(command_line(BENCHMARK))
