# SPDX-License-Identifier: Apache-2.0
"""Which pollution permits a placement books in each LLC domain, and what is left to sell there.

The agent's own core counts them, as for `openstack vp host show`.
"""

from typing import NamedTuple

from rich.table import Table

from nova_vp import controllers
from nova_vp.core.types.policy import Policy
from vp_sim.placement import Placement, put
from vp_sim.policies.core import CorePolicy
from vp_sim.run import TICK_S, World, start
from vp_sim.sim_drivers import sim_drivers_of

ANY_SEED = 0
"""Who starts first changes nothing of where a placement puts it."""


class Booked(NamedTuple):
    """LLC misses per ms in one domain."""

    booked: float
    free: float | None
    """None: any number is sold."""


def booked_permits(
    world: World, placement: Placement, per_domain: float | None
) -> dict[int, Booked]:
    """By LLC domain. `per_domain`: what may be booked in each, None: any number."""
    host = start(world, ANY_SEED)
    put(host, placement)
    every = controllers.with_controllers(Policy(), controllers.installed())
    agent = CorePolicy(sim_drivers_of(host), every)
    host.advance(TICK_S)
    agent.tick(host.now_s)
    assert agent.decision is not None
    return {
        view.domain.id: Booked(
            view.llc_permits, None if per_domain is None else per_domain - view.llc_permits
        )
        for view in agent.decision.domains
    }


def as_table(found: dict[int, Booked]) -> Table:
    table = Table(caption="pollution permits, in LLC misses per ms; less than 0 free: oversold")
    for heading in ("LLC domain", "booked", "free"):
        table.add_column(heading, justify="right", no_wrap=True)
    for domain, one in sorted(found.items()):
        free = "any number" if one.free is None else f"{one.free:.0f}"
        table.add_row(str(domain), f"{one.booked:.0f}", free)
    return table
