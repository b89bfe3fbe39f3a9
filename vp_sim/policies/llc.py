# SPDX-License-Identifier: Apache-2.0
"""Distributed Intensity (Zhuravlev and Blagodurov), the thesis's LLC-Xen: spread the misses.

Guests change places between LLC domains as long as that evens out the domains' misses, so that
the highest end up beside the lowest. Distributed Intensity places threads, so a guest is weighted
by its vCPUs. vCPUs move and memory follows. Sensitivity plays no part.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, permutations
from math import sqrt
from random import Random
from statistics import fmean
from typing import NamedTuple

from nova_vp.core.types.knob import Knob
from nova_vp.core.types.topology import LlcDomain, Topology
from vp_sim.sampling import Rates, Sampler
from vp_sim.sim_drivers import SimDrivers, turn

PERIOD_S = 30
"""Between two looks at the order of the guests: samples averaged, one a second."""
LEAST_GAIN = 0.3
"""Of the mean misses of a domain: what an exchange must win to be worth its moves. No source gives
it; it was chosen by the moves of memory that are printed of two mixes (2.3)."""

Plan = Mapping[str, int]
"""LLC domain by guest."""


class DistributedIntensity:
    def __init__(self, drivers: SimDrivers) -> None:
        self._drivers = drivers
        self._look = Sampler(drivers)
        self._topology = drivers.guests.topology()
        self._seen: list[tuple[Rates, ...]] = []

    def tick(self, now_s: float) -> None:
        self._seen.append(self._look.read(now_s))
        if len(self._seen) > PERIOD_S:
            latest = self._seen[-1]
            heat: dict[str, list[float]] = {}
            for one in chain(*self._seen[1:]):
                heat.setdefault(one.guest.uuid, []).append(one.mpki)
            self._seen = [()]
            self._distribute(tuple(s._replace(mpki=fmean(heat[s.guest.uuid])) for s in latest))

    def _distribute(self, seen: tuple[Rates, ...]) -> None:
        home = {d.id: d for d in self._topology.domains}
        now = {s.guest.uuid: _domain_of(self._topology, s.guest.placement).id for s in seen}
        for uuid, domain in spread(self._topology, seen, now).items():
            cpus = home[domain].cpus
            if domain == now[uuid] or turn(self._drivers, uuid, Knob.PLACEMENT, (cpus,)):
                self._bring_memory(uuid, home[domain].node)

    def _bring_memory(self, uuid: str, node: int) -> None:
        shares = self._drivers.actuator.read(uuid, Knob.MEMORY)
        if shares != ((node, 1.0),) and uuid not in self._drivers.actuator.moves():
            turn(self._drivers, uuid, Knob.MEMORY, ((node, 1.0),))


def _domain_of(topology: Topology, cpus: frozenset[int]) -> LlcDomain:
    """Where most of its CPUs are."""
    return max(topology.domains, key=lambda d: (len(d.cpus & cpus), -d.id))


class _Some(NamedTuple):
    """None, one or two guests of a domain, who would leave it together."""

    heat: float
    guests: tuple[str, ...]


class _Exchange(NamedTuple):
    gain: float
    one: int
    other: int
    leaving: tuple[str, ...]
    coming: tuple[str, ...]


def heat_of(guest: Rates) -> float:
    """Misses per 1000 instructions, summed over its vCPUs."""
    return guest.mpki * guest.guest.vcpus


def spread(topology: Topology, seen: Iterable[Rates], now: Plan) -> Plan:
    """Exchanges between two domains, the best first, while one is worth its moves.

    What is exchanged needs as many CPUs on both sides, so that the vCPUs still fit.
    """
    guests = {s.guest.uuid: s for s in seen}
    room = {d.id: len(d.cpus) for d in topology.domains}
    least = LEAST_GAIN * sum(map(heat_of, guests.values())) / len(room)
    plan = dict(now)
    for _ in now:
        best = max(exchanges(plan, guests, room), default=None)
        if best is None or best.gain < least:
            break
        plan |= dict.fromkeys(best.leaving, best.other) | dict.fromkeys(best.coming, best.one)
    return plan


def exchanges(
    plan: Plan, guests: Mapping[str, Rates], room: Mapping[int, int]
) -> Iterator[_Exchange]:
    """One or two guests of the domain for none, one or two of another, where they fit. Of those
    that could come for the same ones, whoever evens out the two domains most."""
    inside = {d: [guests[u] for u in plan if plan[u] == d] for d in room}
    heat = {d: sum(map(heat_of, there)) for d, there in inside.items()}
    # Nothing is free where vCPUs outnumber CPUs; what leaves still makes room for as much.
    free = {d: max(0, room[d] - sum(g.guest.vcpus for g in inside[d])) for d in room}
    some = {d: _some(there) for d, there in inside.items()}
    for one, other in permutations(room, 2):
        gain = _gains(heat, one, other)
        for (count, vcpus), leaving in some[one].items():
            for (fewer, taken), coming in some[other].items():
                if count and fewer <= count and -free[one] <= vcpus - taken <= free[other]:
                    for some_leave in leaving:
                        yield _best(some_leave, coming, one, other, gain, heat)


def _some(there: Iterable[Rates]) -> dict[tuple[int, int], list[_Some]]:
    """By how many they are and how many vCPUs they have; the coolest first."""
    found: dict[tuple[int, int], list[_Some]] = {}
    for number in range(3):
        for chosen in combinations(there, number):
            vcpus = sum(g.guest.vcpus for g in chosen)
            some = _Some(sum(map(heat_of, chosen)), tuple(g.guest.uuid for g in chosen))
            found.setdefault((number, vcpus), []).append(some)
    return {key: sorted(value) for key, value in found.items()}


def _best(
    leaving: _Some,
    coming: Sequence[_Some],
    one: int,
    other: int,
    gain: Callable[[float], float],
    heat: Mapping[int, float],
) -> _Exchange:
    """The two domains are even once half of what they differ by has gone."""
    wanted = leaving.heat - (heat[one] - heat[other]) / 2
    at = bisect_left(coming, (wanted,))
    near = coming[max(at - 1, 0) : at + 1]
    return max(
        _Exchange(gain(leaving.heat - some.heat), one, other, leaving.guests, some.guests)
        for some in near
    )


def _gains(heat: Mapping[int, float], one: int, other: int) -> Callable[[float], float]:
    """By how much less uneven the domains are once so much heat has gone from one to the other:
    the root of the summed squares of how far each domain's heat is from their mean."""
    mean = fmean(heat.values())
    rest = sum((h - mean) ** 2 for d, h in heat.items() if d not in (one, other))
    now = sqrt(rest + (heat[one] - mean) ** 2 + (heat[other] - mean) ** 2)

    def gain(gone: float) -> float:
        squares = (heat[one] - gone - mean) ** 2 + (heat[other] + gone - mean) ** 2
        return now - sqrt(rest + squares)

    return gain


def create(drivers: SimDrivers, random: Random) -> DistributedIntensity:
    return DistributedIntensity(drivers)
