# SPDX-License-Identifier: Apache-2.0
"""Where every VM of a mix is: CPUs, memory by node, CPU cap; at the end of a run, or as given.

`Placed` puts the VMs there before the first second, at no cost, and changes nothing afterwards.
"""

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from nova_vp.core.types.knob import NO_QUOTA, Quota, Shares
from nova_vp.core.types.topology import Topology
from vp_sim.host import SimHost
from vp_sim.sim_drivers import SimDrivers

UNCAPPED = 1.0


class VmPlace(NamedTuple):
    """One VM."""

    cpus: frozenset[int]
    """Where any of its vCPUs may run."""
    memory: Shares
    """(node, share of its memory), by node."""
    cap_ratio: float = UNCAPPED
    """CPU that each vCPU may use."""


Placement = Mapping[str, tuple[VmPlace, ...]]
"""By application, its VMs; these are interchangeable."""


def placement_of(host: SimHost) -> dict[str, tuple[VmPlace, ...]]:
    """As the host stands."""
    found: dict[str, tuple[VmPlace, ...]] = {}
    for guest in host.guests.values():
        place = VmPlace(guest.placement, guest.shares, guest.quota.cores)
        found[guest.label] = (*found.get(guest.label, ()), place)
    return found


def cpu_nodes(places: tuple[VmPlace, ...], topology: Topology) -> tuple[int, ...]:
    """Nodes that vCPUs of these VMs may run on."""
    cpus = frozenset().union(*(place.cpus for place in places))
    return tuple(sorted({d.node for d in topology.domains if d.cpus & cpus}))


class Placed:
    """A policy for `simulate`."""

    def __init__(self, placement: Placement) -> None:
        """The placement names every application of the mix, with as many VMs as it has."""
        self._placement = placement

    def __call__(self, drivers: SimDrivers, random: Random) -> "Placed":
        put(drivers.guests.host, self._placement)
        return self

    def tick(self, now_s: float) -> None:
        """Nothing is done."""


def put(host: SimHost, placement: Placement) -> None:
    """Before the first second: nothing is counted as moved."""
    left = {label: list(places) for label, places in placement.items()}
    for guest in host.guests.values():
        place = left[guest.label].pop(0)
        guest.cpus, guest.placement = (place.cpus,), place.cpus
        whole_kib = sum(guest.memory_kib.values())
        guest.memory_kib = {node: share * whole_kib for node, share in place.memory}
        guest.quota = quota_of(place.cap_ratio)
    host.change()


def quota_of(cap_ratio: float) -> Quota:
    if cap_ratio >= UNCAPPED:
        return NO_QUOTA
    return Quota(round(cap_ratio * NO_QUOTA.period_us), NO_QUOTA.period_us)
