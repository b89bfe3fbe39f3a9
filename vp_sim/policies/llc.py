# SPDX-License-Identifier: Apache-2.0
"""Distributed Intensity (Zhuravlev and Blagodurov), the thesis's LLC-Xen: spread the misses.

Guests change places between LLC domains as long as that evens out the domains' misses, so that
the highest end up beside the lowest. vCPUs move and memory follows. Sensitivity plays no part.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, combinations, permutations, product
from math import sqrt
from random import Random
from statistics import fmean

from nova_vp.core.types.knob import Knob
from nova_vp.core.types.topology import LlcDomain, Topology
from vp_sim.sampling import Rates, Sampler
from vp_sim.sim_drivers import SimDrivers, turn

PERIOD_S = 30
"""Between two looks at the order of the guests: samples averaged, one a second."""
LEAST_GAIN = 0.2
"""Of the mean misses of a domain: what an exchange must win to be worth its moves."""

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
        for uuid, domain in _spread(self._topology, seen, now).items():
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


def _spread(topology: Topology, seen: Iterable[Rates], now: Plan) -> Plan:
    """Exchanges between two domains, the best first, while one is worth its moves.

    What is exchanged needs as many CPUs on both sides, so that the vCPUs still fit.
    """
    heat = {s.guest.uuid: s.mpki for s in seen}
    vcpus = {s.guest.uuid: s.guest.vcpus for s in seen}
    room = {d.id: len(d.cpus) for d in topology.domains}
    least = LEAST_GAIN * sum(heat.values()) / len(room)
    plan = dict(now)
    for _ in plan:
        best = max(
            (
                (_unevenness(plan, heat, room) - _unevenness(other, heat, room), number, other)
                for number, other in enumerate(_exchanges(plan, vcpus, room))
            ),
            default=(0.0, 0, plan),
        )
        if best[0] < least:
            break
        plan = best[2]
    return plan


def _exchanges(
    plan: Plan, vcpus: Mapping[str, int], room: Mapping[int, int]
) -> Iterator[dict[str, int]]:
    """One or two guests of the domain for none, one or two of another, where they fit."""
    inside = {d: [u for u in plan if plan[u] == d] for d in room}
    # Nothing is free where vCPUs outnumber CPUs; what leaves still makes room for as much.
    free = {d: max(0, room[d] - sum(vcpus[u] for u in inside[d])) for d in room}
    for one, other in permutations(room, 2):
        for leaving, coming in product(_some(inside[one]), _some(inside[other])):
            more = sum(vcpus[u] for u in leaving) - sum(vcpus[u] for u in coming)
            if leaving and len(leaving) >= len(coming) and -free[one] <= more <= free[other]:
                moved = dict.fromkeys(leaving, other) | dict.fromkeys(coming, one)
                yield {**plan, **moved}


def _some(guests: list[str]) -> list[tuple[str, ...]]:
    return [chosen for n in range(3) for chosen in combinations(guests, n)]


def _unevenness(plan: Plan, heat: Mapping[str, float], domains: Iterable[int]) -> float:
    """Root of the summed squares of how far each domain's heat is from their mean."""
    gathered = dict.fromkeys(domains, 0.0)
    for uuid, domain in plan.items():
        gathered[domain] += heat[uuid]
    mean = fmean(gathered.values())
    return sqrt(sum((h - mean) ** 2 for h in gathered.values()))


def create(drivers: SimDrivers, random: Random) -> DistributedIntensity:
    return DistributedIntensity(drivers)
