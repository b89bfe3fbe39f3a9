# SPDX-License-Identifier: Apache-2.0
"""Policies: what may look at a modelled host through its drivers every second, and change it.

Stevedore namespace `vp_sim.policies`; an entry point is a function from (drivers, random) to a
policy. What is random in a policy comes from the generator it is given.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Protocol

from stevedore import ExtensionManager

from vp_sim.sim_drivers import SimDrivers

NAMESPACE = "vp_sim.policies"
BASELINE = "baseline"
"""Always run: the others are judged against its best."""


class Policy(Protocol):
    def tick(self, now_s: float) -> None:
        """Once a second, after the host has run."""


Create = Callable[[SimDrivers, Random], Policy]


class UnknownPolicy(Exception):
    """The message lists those that are known."""


def find(names: tuple[str, ...]) -> Mapping[str, Create]:
    """By name, in the order asked for. Raises UnknownPolicy."""
    known = {ext.name: ext.plugin for ext in ExtensionManager(NAMESPACE, invoke_on_load=False)}
    for name in names:
        if name not in known:
            raise UnknownPolicy(f"{name!r} is not a policy: use one of {', '.join(sorted(known))}")
    return {name: known[name] for name in names}
