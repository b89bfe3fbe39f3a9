# SPDX-License-Identifier: Apache-2.0
"""Every static placement of a small mix, with the model's truth: what a policy could reach.

A guest stays where it starts with its memory where it is, or its vCPUs are in any LLC domain, the
one it starts in included, with its memory local. Nobody is put where there are fewer CPUs than
vCPUs. Equal guests, equal domains of a node and, where all memory is local, equal nodes are
interchangeable: placements that differ by no more are counted once.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from vp_sim.apps import App
from vp_sim.contention import Contention, Speed
from vp_sim.cpu import Scheduler, Wish, alone_share
from vp_sim.host import SimHost
from vp_sim.loads import Load
from vp_sim.run import World

MOST_TRIED = 300_000
"""Assignments, symmetric ones included: mixes with more are too large to search."""
MOST_SOLVED = 3_000
"""Different placements that are worked out: some ten seconds."""


class Spot(NamedTuple):
    """Where one guest is. Memory that is not local lies where it lay at the start."""

    domain: int
    is_local: bool


class Work(NamedTuple):
    """One guest at the mean of its phases."""

    label: str
    app: App
    traffic_factor: float
    busy_ratio: float


def work_of(label: str, app: App) -> Work:
    busy = sum(p.time_share * p.busy_ratio for p in app.phases)
    traffic = sum(p.time_share * p.busy_ratio * p.traffic_factor for p in app.phases)
    return Work(label, app, round(traffic / busy, 6), busy * app.busy_ratio)


class Measure:
    """Sum over the applications of their performance, each as a share of one of its guests alone
    with its memory local; of several guests the slowest counts."""

    def __init__(self, world: World) -> None:
        self._contention = Contention(world.machine)
        self._machine = world.machine
        self._scheduler = Scheduler(world.machine.topology)
        self._home = world.machine.topology.domains[0]
        self._alone: dict[App, float] = {}

    def of_host(self, host: SimHost) -> float:
        """As it stands now, at the mean of everybody's phases."""
        guests = list(host.guests.values())
        works = [work_of(guest.label, guest.app) for guest in guests]
        wishes = [
            Wish(guest.placement, work.app.vcpus * min(work.busy_ratio, guest.quota.cores))
            for guest, work in zip(guests, works, strict=True)
        ]
        loads = [
            Load(work.app, work.traffic_factor, cores, guest.shares)
            for guest, work, cores in zip(guests, works, self._scheduler.grant(wishes), strict=True)
        ]
        return self.of(works, loads)

    def of(self, works: Sequence[Work], loads: Sequence[Load]) -> float:
        slowest: dict[str, float] = {}
        found = self._contention.speeds(self._beside_siblings(loads))
        for work, speed in zip(works, found, strict=True):
            part = speed.instructions_per_s / self._rate_alone(work)
            slowest[work.label] = min(part, slowest.get(work.label, part))
        return sum(slowest.values())

    def _beside_siblings(self, loads: Sequence[Load]) -> Sequence[Load]:
        """Everybody of a domain may use all of its CPUs."""
        machine = self._machine
        if machine.threads_per_core == 1:
            return loads
        busy = dict.fromkeys((d.id for d in machine.topology.domains), 0.0)
        for load in loads:
            for domain, cores in load.cores:
                busy[domain] += cores
        shares = {
            d.id: alone_share(busy[d.id], len(d.cpus) // 2, machine.costs.sibling_ratio)
            for d in machine.topology.domains
        }
        return [
            load._replace(
                core_share=sum(shares[d] * cores for d, cores in load.cores)
                / sum(cores for _, cores in load.cores)
            )
            for load in loads
        ]

    def _rate_alone(self, work: Work) -> float:
        if work.app not in self._alone:
            cores = ((self._home.id, work.app.vcpus * work.busy_ratio),)
            load = Load(work.app, work.traffic_factor, cores, ((self._home.node, 1.0),))
            speed: Speed = self._contention.speeds([load])[0]
            self._alone[work.app] = speed.instructions_per_s
        return self._alone[work.app]


def best_static(world: World, host: SimHost, measure: Measure) -> float | None:
    """The best sum of performance among all placements; None for a mix too large to search, or one
    whose guests start with fewer CPUs than vCPUs."""
    guests = list(host.guests.values())
    topology = world.machine.topology
    if any(member.initial_cores for member in world.mix.members):
        return None
    if (len(topology.domains) + 1) ** len(guests) > MOST_TRIED:
        return None
    works = [work_of(guest.label, guest.app) for guest in guests]
    node_of = {d.id: d.node for d in topology.domains}
    best, seen = 0.0, set()
    for spots in all_spots(host):
        key = _canonical(host, node_of, spots)
        if key in seen:
            continue
        seen.add(key)
        if len(seen) > MOST_SOLVED:
            return None
        loads = [
            Load(
                app=work.app,
                traffic_factor=work.traffic_factor,
                cores=((spot.domain, round(work.app.vcpus * work.busy_ratio, 3)),),
                memory=((node_of[spot.domain], 1.0),) if spot.is_local else guest.shares,
            )
            for guest, work, spot in zip(guests, works, spots, strict=True)
        ]
        best = max(best, measure.of(works, loads))
    return best


def all_spots(host: SimHost) -> Iterator[tuple[Spot, ...]]:
    """For each guest one, so that no vCPU is without a CPU."""
    topology = host.machine.topology
    guests = list(host.guests.values())
    starts = [_start_of(host, guest.placement, guest.shares) for guest in guests]
    sizes = [guest.app.vcpus for guest in guests]

    def extended(taken: tuple[Spot, ...], room: Mapping[int, int]) -> Iterator[tuple[Spot, ...]]:
        number = len(taken)
        if number == len(guests):
            yield taken
            return
        spots = [Spot(d.id, True) for d in topology.domains]
        if not starts[number].is_local:
            spots.append(starts[number])
        for spot in spots:
            left = room[spot.domain] - sizes[number]
            if left >= 0:
                yield from extended((*taken, spot), {**room, spot.domain: left})

    yield from extended((), {d.id: len(d.cpus) for d in topology.domains})


def _start_of(host: SimHost, cpus: frozenset[int], shares: Sequence[tuple[int, float]]) -> Spot:
    domain = next(d for d in host.machine.topology.domains if d.cpus & cpus)
    return Spot(domain.id, all(node == domain.node for node, _ in shares))


def _canonical(
    host: SimHost, node_of: Mapping[int, int], spots: Sequence[Spot]
) -> tuple[object, ...]:
    """The same for placements that differ in interchangeable guests, domains and nodes only."""
    domains: dict[int, list[tuple[object, ...]]] = {domain: [] for domain in node_of}
    for guest, spot in zip(host.guests.values(), spots, strict=True):
        where = () if spot.is_local else guest.shares
        domains[spot.domain].append((guest.label, where))
    nodes: dict[int, list[tuple[object, ...]]] = {}
    for domain, inside in domains.items():
        nodes.setdefault(node_of[domain], []).append(tuple(sorted(inside, key=repr)))
    contents = [(node, tuple(sorted(inside, key=repr))) for node, inside in nodes.items()]
    if all(spot.is_local for spot in spots):
        return tuple(sorted((inside for _, inside in contents), key=repr))
    return tuple(contents)
