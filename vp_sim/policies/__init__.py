# SPDX-License-Identifier: Apache-2.0
"""Policies: what may look at a modelled host through its drivers every second, and change it.

Stevedore namespace `vp_sim.policies`; an entry point is a function from (drivers, random) to a
policy. What is random in a policy comes from the generator it is given.
"""

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Protocol

from stevedore import ExtensionManager

from nova_vp.controllers import ControllerUnavailable
from vp_sim.policies.core import creator
from vp_sim.sim_drivers import SimDrivers

NAMESPACE = "vp_sim.policies"
CORE = "core"
SHORT = {
    "vp": "core:vp+rebalance+initial_placement",
    "merlin": "core:vp+rebalance+initial_placement+merlin",
}
BASELINE = "baseline"
"""Always run: the others are judged against its best."""


class Policy(Protocol):
    def tick(self, now_s: float) -> None:
        """Once a second, after the host has run."""


Create = Callable[[SimDrivers, Random], Policy]


class UnknownPolicy(Exception):
    """The message lists those that are known."""


def find(names: tuple[str, ...]) -> Mapping[str, Create]:
    """By name, in the order asked for: entry points, and `core:A+B` for the decision core with the
    controllers A and B. Raises UnknownPolicy."""
    known = {ext.name: ext.plugin for ext in ExtensionManager(NAMESPACE, invoke_on_load=False)}
    found = {}
    for name in names:
        core, _, listed = SHORT.get(name, name).partition(":")
        if core == CORE:
            found[name] = _with_controllers(name, listed.split("+"))
        elif name in known:
            found[name] = known[name]
        else:
            listed = ", ".join(sorted((*known, *SHORT)))
            raise UnknownPolicy(
                f"{name!r} is not a policy: use one of {listed}, or {CORE}: and names of "
                f"controllers, such as {SHORT['vp']}"
            )
    return found


def _with_controllers(name: str, controllers: Iterable[str]) -> Create:
    try:
        return creator(controllers)
    except ControllerUnavailable as exc:
        raise UnknownPolicy(f"{name!r} is not a policy: {exc}") from exc
