# SPDX-License-Identifier: Apache-2.0
"""Applications on the thesis's four sockets, placed by hand: what the validation tests share."""

from collections.abc import Sequence

from vp_sim.app_profiles import ROWS
from vp_sim.apps import app_of
from vp_sim.contention import Contention, Speed
from vp_sim.loads import Load
from vp_sim.machine import Shape, machine_of

FOUR_SOCKETS = machine_of(Shape(nodes=4, domains_per_node=1, cores_per_domain=8))
APPS = {name: app_of(row) for name, row in ROWS.items()}


def guests(name: str, socket: int, node: int | None = None, cores: float | None = None):
    """The application's VMs on one socket, with their memory on that or another node."""
    app = APPS[name]
    busy = (cores or app.vcpus) * app.busy_ratio
    memory = ((socket if node is None else node, 1.0),)
    return [Load(app, 1.0, ((socket, busy),), memory) for _ in range(app.guests)]


def speeds(*loads: Sequence[Load]) -> tuple[Speed, ...]:
    return Contention(FOUR_SOCKETS).speeds([load for some in loads for load in some])


def alone(name: str) -> Speed:
    return speeds(guests(name, socket=0))[0]


def slower(name: str, speed: Speed) -> float:
    """Against running alone."""
    return APPS[name].slowdown_ratio(alone(name).cpi / speed.cpi) - 1
