# SPDX-License-Identifier: Apache-2.0
"""The truth: who runs where, with its memory where, and what that costs everybody.

Three parts that depend on one another, solved together by iteration: shares of each LLC
(`cache`), the queue at every memory controller and link (`queues`), and the speed of each guest,
which makes the accesses. A busy queue slows those who fill it, so that nothing ever moves more than
it can. Groups that share nothing are solved apart and remembered.

A memory controller serves a guest that is alone out of the rows that it keeps open. Guests that
are served in turn close one another's rows, and a line whose row must be opened again takes longer:
a guest finds its row closed as often as the line before was another guest's. Who has little of the
traffic finds it closed more often than who has most of it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from vp_sim.apps import App
from vp_sim.cache import Sharer, shares_mib
from vp_sim.loads import Copy, Load, alike, groups
from vp_sim.machine import LINE_BYTES, Machine, Private
from vp_sim.queues import scaled_wait_ns
from vp_sim.solver import root

ROUNDS = 200
CONVERGED = 5e-4
DAMPING = 0.8
WAIT_PRECISION = 1e-3
FIRST_CPI = 2.0
FIRST_RATIO = 0.5
KILO = 1000.0
MOST_COPIED = 0.8
"""Of a controller or link that memory on its way takes, however many copies there are."""
NS_PER_S = 1e9

Resource = tuple[str, int, int]
"""("node", node, node): its memory controller; ("link", from, to): one way between nodes."""


class Speed(NamedTuple):
    """What one guest gets done."""

    instructions_per_s: float
    cycles_per_s: float
    references_per_s: float
    misses_per_s: float
    remote_per_s: float
    held_mib: float

    @property
    def cpi(self) -> float:
        return self.cycles_per_s / self.instructions_per_s if self.instructions_per_s else 0.0

    @property
    def memory_factor(self) -> float:
        return self.misses_per_s / self.references_per_s if self.references_per_s else 0.0

    @property
    def mpki(self) -> float:
        done = self.instructions_per_s
        return KILO * self.misses_per_s / done if done else 0.0


IDLE = Speed(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(slots=True)
class _Actor:
    """One guest in one LLC domain, while a solution is sought."""

    load: int
    app: App
    domain: int
    node: int
    cores: float
    references_pki: float
    fetched_pki: float
    """Misses of the last private cache on the scale of the miss-rate curve (L2)."""
    memory: tuple[tuple[int, float], ...]
    core_share: float
    idle_ns: float
    """Of a miss that waits for nobody, on average over its memory."""
    cycles_pki_per_ns: float
    """Cycles per 1000 instructions that a nanosecond costs at one miss per 1000 of them."""
    miss_ratio: float = FIRST_RATIO
    cycles_per_ns: float = 0.0
    """Cycles per instruction that a nanosecond of memory latency costs."""
    unqueued_cpi: float = 0.0
    """As if it waited for nobody."""
    cpi: float = FIRST_CPI
    held_mib: float = 0.0
    uses: list["_Use"] = field(default_factory=list)

    @property
    def misses_pki(self) -> float:
        return self.fetched_pki * self.miss_ratio


@dataclass(slots=True)
class _Use:
    """What one LLC miss of an actor asks of one resource."""

    actor: _Actor
    queue: "_Queue"
    lines: float
    waits: float
    """How many of its waits the miss waits for."""
    opening_ns: float = 0.0
    """What a line of it waits for its row, on average."""


@dataclass(slots=True)
class _Queue:
    gbps: float
    """Of one guest alone, which finds its rows open."""
    channels: float
    idle_ns: float
    conflict_ratio: float
    """How much longer a line occupies it whose row another guest has closed."""
    conflict_ns: float
    """What such a line waits for its row."""
    constant_gbps: float = 0.0
    wait_ns: float = 0.0
    uses: list[_Use] = field(default_factory=list)


class Contention:
    """Solves loads on one machine, and remembers what it solved."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._node_of = {d.id: d.node for d in machine.topology.domains}
        self._solved: dict[object, tuple[Speed, ...]] = {}

    def speeds(self, loads: Sequence[Load], copies: Sequence[Copy] = ()) -> tuple[Speed, ...]:
        """In the order of the loads."""
        found: list[Speed] = [IDLE] * len(loads)
        for members, moving in groups(self._node_of, loads, copies):
            some = [loads[i] for i in members]
            key = alike(self._node_of, some, moving)
            if key not in self._solved:
                self._solved[key] = self._solve(some, moving)
            for index, speed in zip(members, self._solved[key], strict=True):
                found[index] = speed
        return tuple(found)

    def _solve(self, loads: Sequence[Load], copies: tuple[Copy, ...]) -> tuple[Speed, ...]:
        actors = [a for number, load in enumerate(loads) for a in self._actors(number, load)]
        queues = self._queues(actors, copies)
        by_domain: dict[int, list[_Actor]] = {}
        for actor in actors:
            by_domain.setdefault(actor.domain, []).append(actor)
        for _ in range(ROUNDS):
            for sharers in by_domain.values():
                self._share(sharers)
            for queue in queues:
                self._fill(queue)
            if self._settle(actors) < CONVERGED:
                break
        return tuple(self._speed(i, actors) for i in range(len(loads)))

    def _actors(self, number: int, load: Load) -> Iterator[_Actor]:
        app, costs = load.app, self._machine.costs
        seen = app.l1_mpki if self._machine.private is Private.L1 else app.l2_mpki
        for domain, cores in load.cores:
            here = self._node_of[domain]
            yield _Actor(
                load=number,
                app=app,
                domain=domain,
                node=here,
                cores=cores,
                references_pki=seen * load.traffic_factor,
                fetched_pki=app.l2_mpki * load.traffic_factor,
                memory=load.memory,
                core_share=load.core_share,
                idle_ns=sum(
                    share * (costs.local_ns if node == here else costs.remote_ns)
                    for node, share in load.memory
                ),
                cycles_pki_per_ns=costs.clock_ghz / KILO / app.parallel_misses,
            )

    def _queues(self, actors: Iterable[_Actor], copies: Iterable[Copy]) -> list[_Queue]:
        queues: dict[Resource, _Queue] = {}
        for actor in actors:
            for node, share in actor.memory:
                written = share * actor.app.writeback_ratio
                self._use(actor, queues, ("node", node, node), share + written, share)
                if node != actor.node:
                    self._use(actor, queues, ("link", node, actor.node), share, share)
                    self._use(actor, queues, ("link", actor.node, node), written, written)
        for copy in copies:
            for resource in (
                ("node", copy.source, copy.source),
                ("node", copy.target, copy.target),
                ("link", copy.source, copy.target),
            ):
                queue = self._queue(queues, resource)
                most = MOST_COPIED * queue.gbps
                queue.constant_gbps = min(queue.constant_gbps + copy.gbps, most)
        return list(queues.values())

    def _use(
        self,
        actor: _Actor,
        queues: dict[Resource, _Queue],
        resource: Resource,
        lines: float,
        waits: float,
    ) -> None:
        use = _Use(actor, self._queue(queues, resource), lines, waits)
        use.queue.uses.append(use)
        actor.uses.append(use)

    def _queue(self, queues: dict[Resource, _Queue], resource: Resource) -> _Queue:
        if resource not in queues:
            costs = self._machine.costs
            if resource[0] == "node":
                queues[resource] = _Queue(
                    gbps=costs.node_gbps,
                    channels=costs.node_channels,
                    idle_ns=costs.local_ns,
                    conflict_ratio=costs.row_conflict_ratio,
                    conflict_ns=costs.row_conflict_ns,
                )
            else:
                queues[resource] = _Queue(costs.link_gbps, 1.0, costs.remote_ns, 0.0, 0.0)
        return queues[resource]

    def _share(self, sharers: Sequence[_Actor]) -> None:
        clock = self._machine.costs.clock_ghz * NS_PER_S
        rates = [Sharer(a.app, a.cores * clock / a.cpi * a.fetched_pki / KILO) for a in sharers]
        held = shares_mib(rates, self._machine.costs.llc_mib, self._machine.costs.intensity_weight)
        for actor, mib in zip(sharers, held, strict=True):
            actor.held_mib = mib
            actor.miss_ratio += DAMPING * (actor.app.miss_ratio(mib) - actor.miss_ratio)
            self._price(actor)

    def _price(self, actor: _Actor) -> None:
        """What follows from its miss ratio alone: asked for by every queue in every round."""
        # What misses L2 has missed L1 first, whatever figures were given or drawn for the two.
        hits_pki = max(0.0, actor.references_pki - actor.misses_pki)
        hits = hits_pki / KILO * self._machine.costs.llc_cycles * actor.app.hit_exposure
        core = (actor.app.base_cpi + hits) / actor.core_share
        actor.cycles_per_ns = actor.misses_pki * actor.cycles_pki_per_ns
        actor.unqueued_cpi = core + actor.cycles_per_ns * actor.idle_ns

    def _fill(self, queue: _Queue) -> None:
        """The wait at which the load it lets through makes just that wait."""
        form = self._machine.queue_form
        line_ns = LINE_BYTES / queue.gbps * (1 + queue.conflict_ratio * self._open_rows(queue))
        flows = []
        for use in queue.uses:
            cycles_per_ns = use.actor.cycles_per_ns * use.waits
            without = _cpi(use.actor) - cycles_per_ns * queue.wait_ns
            flows.append((self._moved(use), without, cycles_per_ns))

        def excess(queued_ns: float) -> float:
            gbps = queue.constant_gbps
            for moved, without, cycles_per_ns in flows:
                gbps += moved / (without + cycles_per_ns * queued_ns)
            load = gbps * line_ns / LINE_BYTES
            scaled = scaled_wait_ns(form, load, line_ns, queue.channels, queue.idle_ns)
            return queued_ns * (1 - load) - scaled

        queue.wait_ns = _wait(excess, queue.wait_ns)

    def _open_rows(self, queue: _Queue) -> float:
        """Share of the lines that come after one of another guest, or of memory on its way: they
        must open their row. Sets what that costs each use."""
        flows: dict[int | None, float] = {None: queue.constant_gbps}
        for use in queue.uses:
            load = use.actor.load
            flows[load] = flows.get(load, 0.0) + self._moved(use) / use.actor.cpi
        whole = sum(flows.values())
        if not whole:
            return 0.0
        for use in queue.uses:
            use.opening_ns = queue.conflict_ns * (1 - flows[use.actor.load] / whole)
        return 1 - sum(flow * flow for flow in flows.values()) / whole**2

    def _moved(self, use: _Use) -> float:
        """GB/s times the cycles per instruction."""
        cycles = use.actor.cores * self._machine.costs.clock_ghz
        return cycles * use.actor.misses_pki / KILO * use.lines * LINE_BYTES

    def _settle(self, actors: Iterable[_Actor]) -> float:
        """New CPIs; how far the farthest went, or how far a miss ratio is from its curve."""
        farthest = 0.0
        for actor in actors:
            cpi = _cpi(actor)
            curve = actor.app.miss_ratio(actor.held_mib)
            farthest = max(farthest, abs(cpi / actor.cpi - 1), abs(curve - actor.miss_ratio))
            actor.cpi = cpi
        return farthest

    def _speed(self, number: int, actors: Iterable[_Actor]) -> Speed:
        total = IDLE
        for actor in actors:
            if actor.load == number:
                total = Speed(*(a + b for a, b in zip(total, self._one_pace(actor), strict=True)))
        return total

    def _one_pace(self, actor: _Actor) -> Speed:
        cycles = actor.cores * self._machine.costs.clock_ghz * NS_PER_S
        thousands = cycles / actor.cpi / KILO
        misses = thousands * actor.misses_pki
        remote = sum(share for node, share in actor.memory if node != actor.node)
        return Speed(
            instructions_per_s=thousands * KILO,
            cycles_per_s=cycles,
            references_per_s=thousands * actor.references_pki,
            misses_per_s=misses,
            remote_per_s=misses * remote,
            held_mib=actor.held_mib,
        )


def _cpi(actor: _Actor) -> float:
    waits_ns = 0.0
    for use in actor.uses:
        waits_ns += use.waits * (use.queue.wait_ns + use.opening_ns)
    return actor.unqueued_cpi + actor.cycles_per_ns * waits_ns


def _wait(excess: Callable[[float], float], guess: float) -> float:
    """Where it comes to zero; it is below that at first unless nobody comes."""
    if excess(0.0) >= 0:
        return 0.0
    low, high = 0.0, max(guess * 1.05, 1.0)
    while excess(high) < 0:
        low, high = high, high * 2
    return root(excess, low, high, WAIT_PRECISION, 1e-4)
