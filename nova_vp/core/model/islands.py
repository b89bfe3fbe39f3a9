# SPDX-License-Identifier: Apache-2.0
"""Which islands a host has, which CPUs each has now, and whose island a server runs in.

Configured islands bind: a server that is in one stays within it. Without configuration each LLC
domain is one, and servers may span them.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from nova_vp.core.types.guest import Guest
from nova_vp.core.types.island import Island, Loan, Scheduler
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.state import CoreState
from nova_vp.core.types.topology import Topology


def islands_of(configured: tuple[Island, ...], topology: Topology) -> tuple[Island, ...]:
    if configured:
        here = (one._replace(own_cpus=one.own_cpus & topology.cpus) for one in configured)
        return tuple(one for one in here if one.own_cpus)
    return tuple(Island(f"llc-{domain.id}", domain.cpus) for domain in topology.domains)


def with_loans(islands: Iterable[Island], loans: Iterable[Loan]) -> tuple[Island, ...]:
    """With the CPUs that each has now."""
    loans = tuple(loans)
    if not loans:
        return tuple(islands)
    return tuple(
        island._replace(
            lent=frozenset(one.cpu for one in loans if one.lender == island.name),
            borrowed=frozenset(one.cpu for one in loans if one.borrower == island.name),
        )
        for island in islands
    )


def island_of(cpus: frozenset[int], islands: Iterable[Island]) -> Island | None:
    """In which a server with this place runs; None: in several, or beside them. A CPU that was just
    lent may still be in its place."""
    found = [one for one in islands if cpus <= one.own_cpus | one.borrowed]
    return max(found, key=lambda one: len(cpus & one.cpus), default=None)


def faults(configured: Iterable[Island], topology: Topology) -> Mapping[str, str]:
    """By island: which of its CPUs the host does not have, and what to do. They are left out."""
    return {
        island.name: f"this host has no CPU {', '.join(map(str, unknown))}: name only CPUs that "
        "are online"
        for island in configured
        if (unknown := sorted(island.own_cpus - topology.cpus))
    }


def bound_to_islands(state: CoreState, picture: Picture, policy: Policy) -> Picture:
    """Where islands are configured, the picture with servers that stay within them."""
    if not policy.islands:
        return picture
    islands = islands_of(policy.islands, picture.topology)
    return within_islands(picture, with_loans(islands, state.loans))


def within_islands(picture: Picture, islands: tuple[Island, ...]) -> Picture:
    """Every server with its bound narrowed to its island. One that is in none comes to one with
    room for it, of these to the one where most of its memory lies, of these to the one with the
    most room; where no island admits it, it stays where Nova put it."""
    homes = {guest.uuid: island_of(guest.placement, islands) for guest in picture.guests}
    room = {island.name: _room(island, picture.guests, homes) for island in islands}
    left = {island.name: _left_cores(island, picture.guests, homes) for island in islands}
    guests = []
    for guest in picture.guests:
        home = homes[guest.uuid]
        if home is None and guest.unmanaged is None:
            home = max(
                (one for one in islands if _admits(one, guest, room[one.name], left[one.name])),
                key=lambda one: (
                    room[one.name] >= guest.vcpus,
                    _memory_ratio(guest, picture.topology.nodes_of(one.own_cpus)),
                    room[one.name],
                    one.name,
                ),
                default=None,
            )
            if home is not None:
                room[home.name] -= guest.vcpus
                left[home.name] -= _least_cores(guest)
        bound = guest.allowed_cpus & home.cpus if home else frozenset()
        guests.append(_bound(guest, bound) if bound else guest)
    return replace(picture, guests=tuple(guests))


def _bound(guest: Guest, cpus: frozenset[int]) -> Guest:
    return guest._replace(allowed_cpus=cpus, beyond_island=guest.allowed_cpus - cpus)


def _memory_ratio(guest: Guest, nodes: tuple[int, ...]) -> float:
    """Of its memory, what lies on these nodes."""
    return sum(ratio for node, ratio in guest.memory_shares if node in nodes)


def _room(island: Island, guests: Iterable[Guest], homes: Mapping[str, Island | None]) -> float:
    """CPUs, or cores of its cap, less the vCPUs of those that are there."""
    inside = sum(guest.vcpus for guest in guests if homes[guest.uuid] is island)
    cores = len(island.cpus)
    return (cores if island.cap_cores is None else min(island.cap_cores, cores)) - inside


def _left_cores(
    island: Island, guests: Iterable[Guest], homes: Mapping[str, Island | None]
) -> float:
    """Of its cap, beside what those that are there must have."""
    least = sum(_least_cores(guest) for guest in guests if homes[guest.uuid] is island)
    return math.inf if island.cap_cores is None else island.cap_cores - least


def _least_cores(guest: Guest) -> float:
    """Its floor; all that it could use, if nobody may limit it."""
    return guest.vcpus * (1.0 if guest.cap_floor_ratio is None else guest.cap_floor_ratio)


def _admits(island: Island, guest: Guest, room: float, left_cores: float) -> bool:
    """Whether a newcomer may come: Nova allows it as many CPUs there as it has vCPUs; where each
    vCPU has a CPU of its own, there are as many left; where there is a cap, its floor is."""
    usable = len(guest.allowed_cpus & island.cpus)
    if usable < min(guest.vcpus, len(island.cpus)) or not usable:
        return False
    if island.scheduler is Scheduler.EXCLUSIVE:
        return room >= guest.vcpus
    return island.scheduler is not Scheduler.CAPPED or left_cores >= _least_cores(guest)
