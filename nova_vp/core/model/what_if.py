# SPDX-License-Identifier: Apache-2.0
"""What everybody would lose if some guests lived elsewhere: `predict` for a whole host.

Caches, memory controllers, links, remote latency and CPU in one number per guest, the share of its
performance that is lost. Controllers compare candidates with it; nothing here chooses.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from nova_vp.core.model.cpu_share import cpu_speed, sibling_speeds
from nova_vp.core.model.host import Host
from nova_vp.core.model.latency import Flow, MemoryLatency, Route
from nova_vp.core.model.location import GONE, Location, location_of
from nova_vp.core.model.predict import LOST_MISSES, Resident, evicted_ratio, loss_ratio
from nova_vp.core.types.claim import PredictedLoss
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.sample import Sample
from nova_vp.core.types.topology import Limits, LlcDomain

UNTOLD_RATIO = 0.02
"""Of its cycles per instruction that a VP must be foretold to lose to its neighbours, before what
it misses tells whether that is true."""
TOLD_TIMES = 3.0
"""The eviction that is expected where a VP is now: so far its misses tell of other places too. A
breeze tells nothing of a storm."""


@dataclass(frozen=True, slots=True)
class Gain:
    """What a candidate would change, by guest: loss before minus loss after, positive is good.
    What a guest that refuses help would gain does not count; what it would lose does."""

    by_guest: Mapping[str, float]
    total: float
    """Weighted by priority."""
    utility: float
    """The same in logarithms of performance: who has little left gains most by a little more."""
    worst: float
    """Of those who would lose, the one that loses most; 0 if nobody does. Never positive."""
    losses: Mapping[str, float]
    """After it, of all who are concerned."""


class _Known(NamedTuple):
    """What a VP's misses tell of evictions."""

    trust: float
    up_to: float
    """Of larger ones they tell nothing."""


class WhatIfModel:
    """One host at one tick, with everybody where they are; `evaluate` asks what if."""

    def __init__(self, host: Host, limits: Limits, policy: Policy) -> None:
        self._limits = limits
        self._latency = MemoryLatency(limits, policy)
        self._distance = limits.remote_penalty_ratio - 1
        self._node_of = {d.id: d.node for d in host.topology.domains}
        self._cpus = {d.id: (len(d.cpus), d.cores) for d in host.topology.domains}
        self._with_siblings = {d.id: d for d in host.topology.domains if d.shared_cores}
        self._cores = {uuid: host.demanded_cores(uuid) for uuid in host.guests}
        self._weights = {uuid: guest.priority for uuid, guest in host.guests.items()}
        self._refusing = {uuid for uuid, guest in host.guests.items() if guest.refuses_help}
        self.residents = {uuid: host.resident(uuid, policy) for uuid in host.guests}
        self.locations = {uuid: location_of(host, uuid) for uuid in host.guests}
        self._alone = {
            uuid: self._alone_ratio(one, self.locations[uuid])
            for uuid, one in self.residents.items()
        }
        """Latency of memory that serves this guest alone, over one that is idle."""
        self._samples = {uuid: vp.sample for uuid, vp in host.vps.items() if not vp.incomplete}
        self._members: dict[int, set[str]] = {d.id: set() for d in host.topology.domains}
        self._pressure = dict.fromkeys(self._node_of, 0.0)
        self._used = dict.fromkeys(self._node_of, 0.0)
        self._beside_siblings: dict[int, Mapping[frozenset[int], float] | None] = {}
        """By domain, what `_speeds_beside_siblings` said; made when it is first asked for."""
        self._memory_users: dict[int, set[str]] = {}
        self._at = dict(self.locations)
        """Where everybody is in what is asked about."""
        self._flows: dict[Route, list[Flow]] = {}
        """What goes through each controller and link, as it is now."""
        self._queues: dict[Route, float] = {}
        """Latency of each controller and link, over an idle one, as it is now."""
        for uuid in host.guests:
            self._enter(uuid, self.locations[uuid], 1.0)
            for node in self.locations[uuid].memory:
                self._memory_users.setdefault(node, set()).add(uuid)
        self._losses: dict[str, float] = {}
        self._known: dict[str, _Known] = {}

    def loss(self, uuid: str) -> float:
        """Share of its performance that a guest loses where everybody is now."""
        if uuid not in self._losses:
            self._losses[uuid] = self._loss(uuid, self._now())
        return self._losses[uuid]

    def _calibrated_eviction(self, one: Resident, evicted: float) -> float:
        """What can be true of an eviction that the model expects: what a VP lost to its neighbours
        is not more than what it misses now. Beside quiet neighbours, where nothing is expected,
        nothing is learned, and beside a few only of a few."""
        known = self._known.get(one.guest_uuid)
        if known is None:
            known = self._learned(one, self._samples.get(one.guest_uuid))
            self._known[one.guest_uuid] = known
        if evicted <= known.up_to:
            return known.trust * evicted
        return evicted - (1 - known.trust) * known.up_to

    def _learned(self, one: Resident, sample: Sample | None) -> _Known:
        evicted = self._evicted(one, self.locations[one.guest_uuid])
        expected_cpi = one.hit_value_cpi * evicted
        if sample is None or expected_cpi <= UNTOLD_RATIO * one.cpi:
            return _Known(1.0, 0.0)
        felt_cpi = LOST_MISSES * sample.mpki * one.miss_cycles / 1000
        return _Known(min(1.0, felt_cpi / expected_cpi), TOLD_TIMES * evicted)

    def _others(self, one: Resident, domain: int, share: float) -> float:
        return max(self._pressure[domain] - one.pressure_per_s * share, 0.0)

    def evaluate(self, locations: Mapping[str, Location]) -> Gain:
        """What these guests' new places would bring, to them and to all they meet."""
        concerned = set(locations)
        for uuid, location in locations.items():
            for one in (self.locations[uuid], location):
                concerned |= self._met(one)
        before = {uuid: self.loss(uuid) for uuid in concerned}  # And whom to trust, as it is now.
        after = self._losses_with(locations, concerned)
        counted = dict(after)
        for uuid in self._refusing & concerned:
            counted[uuid] = max(before[uuid], after[uuid])
        by_guest = {uuid: before[uuid] - counted[uuid] for uuid in concerned}
        return Gain(
            by_guest=by_guest,
            total=sum(self._weights[uuid] * gain for uuid, gain in by_guest.items()),
            utility=sum(
                self._weights[uuid] * math.log(_kept(counted[uuid]) / _kept(before[uuid]))
                for uuid in concerned
            ),
            worst=min([0.0, *by_guest.values()]),
            losses=after,
        )

    def _now(self) -> Mapping[Route, float]:
        if not self._queues:
            self._queues = self._solve(self._flows_now())
        return self._queues

    def _flows_now(self) -> Mapping[Route, Sequence[Flow]]:
        if not self._flows:
            self._flows = self._routes()
        return self._flows

    def _losses_with(
        self, locations: Mapping[str, Location], concerned: Iterable[str]
    ) -> dict[str, float]:
        with self._moved(locations) as queues:
            return {uuid: self._loss(uuid, queues) for uuid in concerned}

    @contextmanager
    def _moved(self, locations: Mapping[str, Location]) -> Iterator[Mapping[Route, float]]:
        """With these there, and what controllers and links come to; then as it was."""
        for uuid, location in locations.items():
            self._move(uuid, location)
        yield self._solve(self._routes())
        for uuid in locations:
            self._move(uuid, self.locations[uuid])

    def _met(self, location: Location) -> set[str]:
        met: set[str] = set()
        for domain in location.domains:
            met |= self._members[domain]
        for node in location.memory:
            met |= self._memory_users.get(node, set())
        return met

    def _move(self, uuid: str, location: Location) -> None:
        self._enter(uuid, self._at[uuid], -1.0)
        self._at[uuid] = location
        self._enter(uuid, location, 1.0)

    def _enter(self, uuid: str, location: Location, sign: float) -> None:
        one = self.residents[uuid]
        for domain, share in location.domains.items():
            self._beside_siblings.pop(domain, None)
            self._pressure[domain] += sign * share * location.speed * one.pressure_per_s
            self._used[domain] += sign * share * location.speed * self._cores[uuid]
            (self._members[domain].add if sign > 0 else self._members[domain].discard)(uuid)

    def _routes(self) -> dict[Route, list[Flow]]:
        """What goes through each controller and link."""
        routes: dict[Route, list[Flow]] = {}
        latency = self._latency
        for uuid, location in self._at.items():
            one = self.residents[uuid]
            misses_per_s, cpi, stall_cpi = self._flow(one, location)
            demand = misses_per_s if latency.is_calibrated else one.mpki * location.speed
            for node, share in location.memory.items():
                stall_share = share * stall_cpi / cpi
                routes.setdefault((node, node), []).append(Flow(share * demand, stall_share))
                if not latency.has_link_limit:
                    continue
                for domain, part in location.domains.items():
                    if self._node_of[domain] != node:
                        link = (self._node_of[domain], node)
                        flow = Flow(share * part * misses_per_s, part * stall_share)
                        routes.setdefault(link, []).append(flow)
        return routes

    def _solve(self, routes: Mapping[Route, Sequence[Flow]]) -> dict[Route, float]:
        return {route: self._latency.ratio(route, flows) for route, flows in routes.items()}

    def _alone_ratio(self, one: Resident, location: Location) -> float:
        node = min(location.memory, default=0)
        return self._latency.open_ratio((node, node), self._demand_alone(one))

    def _demand_alone(self, one: Resident) -> float:
        """In the unit of a controller's limit."""
        return one.misses_per_s if self._latency.is_calibrated else one.mpki

    def _flow(self, one: Resident, location: Location) -> tuple[float, float, float]:
        """(misses per second, cycles per instruction, those that wait for memory), as the caches
        leave it and were memory idle."""
        # Most have nothing in the cache to lose.
        lost = (
            self._calibrated_eviction(one, self._evicted(one, location))
            if one.hit_value_cpi
            else 0.0
        )
        stall = one.miss_cpi / self._alone[one.guest_uuid] + lost * one.hit_value_cpi
        cpi = one.cpi - one.miss_cpi + stall
        misses = (one.misses_per_s + lost * one.hits_per_s) * one.cpi / cpi
        return (misses * location.speed, cpi, stall)

    def _evicted(self, one: Resident, location: Location) -> float:
        evicted = 0.0
        for domain, share in location.domains.items():
            others = self._others(one, domain, share * location.speed)
            evicted += share * evicted_ratio(one.references_per_s, others)
        return evicted

    def _loss(
        self, uuid: str, queues: Mapping[Route, float], is_distance_counted: bool = True
    ) -> float:
        one, location = self.residents[uuid], self._at[uuid]
        distance = self._distance if is_distance_counted else 0.0
        memory_ratio = self._memory_ratio(one, location, queues, distance)
        speed = 0.0
        for domain, share in location.domains.items():
            others = self._others(one, domain, share * location.speed)
            evicted = self._calibrated_eviction(one, evicted_ratio(one.references_per_s, others))
            kept = 1 - loss_ratio(one, evicted, memory_ratio)
            speed += share * kept * self._cpu_speed(domain, location)
        return 1 - speed * location.speed

    def _cpu_speed(self, domain: int, location: Location) -> float:
        """Of vCPUs that are there, over those with a core of their own."""
        wanted, (cpus, cores) = self._used[domain], self._cpus[domain]
        known = self._with_siblings.get(domain)
        speeds = self._speeds_beside_siblings(known) if known else None
        if known is None or speeds is None or wanted <= 0:
            return cpu_speed(wanted, cpus, cores)
        return speeds[location.cpus_in(known)] * min(1.0, cpus / wanted)

    def _speeds_beside_siblings(self, domain: LlcDomain) -> Mapping[frozenset[int], float] | None:
        """By the CPUs that guests may use; None where all of them may use all."""
        if domain.id not in self._beside_siblings:
            wanted = self._wanted_in(domain)
            is_shared_by_all = wanted.keys() <= {domain.cpus}
            speeds = None if is_shared_by_all else sibling_speeds(domain, wanted)
            self._beside_siblings[domain.id] = speeds
        return self._beside_siblings[domain.id]

    def _wanted_in(self, domain: LlcDomain) -> Mapping[frozenset[int], float]:
        """CPU, by the CPUs of the domain that guests may use."""
        wanted: dict[frozenset[int], float] = {}
        for uuid in self._members[domain.id]:
            location = self._at[uuid]
            cpus = location.cpus_in(domain)
            cores = location.domains[domain.id] * location.speed * self._cores[uuid]
            wanted[cpus] = wanted.get(cpus, 0.0) + cores
        return wanted

    def _memory_ratio(
        self, one: Resident, location: Location, queues: Mapping[Route, float], distance: float
    ) -> float:
        remote_ratio = self._limits.remote_penalty_ratio
        ratio = 0.0
        for node, share in location.memory.items():
            queueing = queues.get((node, node), 1.0)
            for domain, part in location.domains.items():
                here = self._node_of[domain]
                if here == node:
                    ratio += share * part * queueing
                    continue
                crossing = queues.get((here, node), 1.0)
                ratio += share * part * (queueing + remote_ratio * (crossing - 1) + distance)
        return ratio / self._alone[one.guest_uuid]

    def predict(self, uuid: str, location: Location, without: Iterable[str] = ()) -> PredictedLoss:
        """What a guest would lose there, and what it would make others lose; `without` are gone.

        That memory of others is far away is nobody's doing: it does not count.
        """
        moved = {**dict.fromkeys(without, GONE), uuid: location}
        others = self._met(location) - moved.keys()
        for one in (uuid, *others):
            self.loss(one)  # Whom to trust, as it is now.
        with self._moved(moved) as queues:
            own = self._loss(uuid, queues)
            losses = {one: self._loss_beside(one, location, queues) for one in others}
            worst = max(losses, key=losses.__getitem__, default=uuid)
            resource = self._resource(worst if losses.get(worst, 0.0) > own else uuid, queues)
        stricts = [loss for one, loss in losses.items() if self.residents[one].is_strict]
        return PredictedLoss(own, losses.get(worst, 0.0), max(stricts, default=0.0), resource)

    def _loss_beside(self, uuid: str, newcomer: Location, queues: Mapping[Route, float]) -> float:
        """Of a resident; where it shares no cache with the newcomer, to memory alone."""
        one, location = self.residents[uuid], self._at[uuid]
        if location.domains.keys() & newcomer.domains.keys():
            return self._loss(uuid, queues, is_distance_counted=False)
        memory_ratio = self._memory_ratio(one, location, queues, 0.0)
        return loss_ratio(one, 0.0, max(memory_ratio, 1.0))

    def _resource(self, uuid: str, queues: Mapping[Route, float]) -> Kind | None:
        """What costs a guest most cycles."""
        one, location = self.residents[uuid], self._at[uuid]
        lost_cpi = self._calibrated_eviction(one, self._evicted(one, location)) * one.hit_value_cpi
        stall_cpi = (one.miss_cpi + lost_cpi) / self._alone[uuid]
        ratio = self._limits.remote_penalty_ratio
        slow = sum(
            share / self._cpu_speed(domain, location) - share
            for domain, share in location.domains.items()
        )
        costs = {Kind.CACHE: lost_cpi, Kind.CPU: slow * one.cpi}
        costs |= dict.fromkeys((Kind.CONTROLLER, Kind.LINK, Kind.REMOTE), 0.0)
        for node, share in location.memory.items():
            costs[Kind.CONTROLLER] += share * (queues.get((node, node), 1.0) - 1) * stall_cpi
            for domain, part in location.domains.items():
                if self._node_of[domain] != node:
                    crossing = queues.get((self._node_of[domain], node), 1.0)
                    costs[Kind.LINK] += share * part * ratio * (crossing - 1) * stall_cpi
                    costs[Kind.REMOTE] += share * part * (ratio - 1) * stall_cpi
        most = max(costs, key=costs.__getitem__)
        return most if costs[most] > 0 else None

    def exposures(self, node: int) -> dict[str, "Exposure"]:
        """Of all who meet a newcomer on this node, in its caches or at its memory controller."""
        queues = self._now()
        latency = queues.get((node, node), 1.0)
        met = set(self._memory_users.get(node, ()))
        for domain, members in self._members.items():
            if self._node_of[domain] == node:
                met |= members
        found = {}
        for uuid in met:
            one, location = self.residents[uuid], self.locations[uuid]
            weight = location.memory.get(node, 0.0) / self._alone[uuid]
            ratio = self._memory_ratio(one, location, queues, 0.0)
            found[uuid] = Exposure(one, ratio - weight * latency, weight)
        return found

    def evicted_beside(self, uuid: str, domain: int, newcomer_per_s: float) -> float:
        """With so many more lines brought in, in one of its domains."""
        one = self.residents[uuid]
        others = self._others(one, domain, self.locations[uuid].domains[domain])
        evicted = evicted_ratio(one.references_per_s, others + newcomer_per_s)
        return self._calibrated_eviction(one, evicted)

    def pressure_per_s(self, domain: int) -> float:
        return self._pressure[domain]

    def speed_beside(self, domain: int, newcomer_cores: float) -> float:
        """Of all vCPUs in a domain, with so much more CPU wanted there."""
        return cpu_speed(self._used[domain] + newcomer_cores, *self._cpus[domain])

    def members(self, domain: int) -> Set[str]:
        return self._members[domain]

    def latencies(self, node: int, newcomers: Iterable[Resident]) -> list[tuple[float, float]]:
        """Of a memory controller with each of them in turn; and were it alone there."""
        route = (node, node)
        flows = [Flow(self._demand_alone(one), one.miss_cpi / one.cpi) for one in newcomers]
        alone = self._latency.ratios_beside(route, (), flows)
        beside = self._latency.ratios_beside(route, self._flows_now().get(route, ()), flows)
        return [(max(ratio, least), least) for ratio, least in zip(beside, alone, strict=True)]

    def demanded_cores(self, uuid: str) -> float:
        return self._cores[uuid]


Line = tuple[float, float]
"""(by latency, fixed): cycles per instruction on top, as a share of those when it is alone."""


class Exposure(NamedTuple):
    """What a guest would lose as the latency of one node's memory changes."""

    one: Resident
    other_ratio: float
    """Latency of its memory elsewhere, in its share of all; as far as others cause it."""
    weight: float
    """Of this node's memory."""

    def line(self, evicted: float) -> Line:
        one = self.one
        stall_cpi = one.miss_cpi + evicted * one.hit_value_cpi
        fixed_cpi = stall_cpi * self.other_ratio - one.miss_cpi
        return (stall_cpi * self.weight / one.cpi, fixed_cpi / one.cpi)


def _kept(loss: float) -> float:
    """Performance left; nobody is taken to stand quite still."""
    return max(1 - loss, 0.01)
