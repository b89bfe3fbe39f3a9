# SPDX-License-Identifier: Apache-2.0
"""The modelled host: guests with jobs on a machine, second by second.

It holds what a real host holds and nothing of what a policy thinks. Who changes it, and what can
be seen of it, is in `sim_drivers.py`.
"""

import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from nova_vp.core.types.knob import NO_QUOTA, Cpus, Quota, Shares, all_cpus
from vp_sim.apps import App
from vp_sim.contention import Contention, Speed
from vp_sim.cpu import Scheduler, Wish
from vp_sim.jobs import Job
from vp_sim.loads import Copy, Load
from vp_sim.machine import LINE_BYTES, PAGE_BYTES, Machine

KIB = 1024
LEAST_KIB = 0.5
NS_PER_S = 1e9
SHARE_STEPS = 32
"""Memory shares are solved for in steps of this size, so that a move is not new every second."""
NOISE_RATIOS = (0.05, 0.10)
"""Each sample of a counter is off by so much: a standard deviation out of this range, by guest
and counter."""
NOISE_BOUND = 2.0
"""Standard deviations that no sample exceeds."""
NOISY = ("instructions", "cycles", "references", "misses", "remote")
"""What is counted, in the order of a Pace."""
CYCLES, REFERENCES, MISSES, REMOTE = 1, 2, 3, 4
NOTHING = (0.0,) * len(NOISY)


@dataclass(slots=True)
class Move:
    """A guest's memory on its way."""

    to: Shares
    legs: list[tuple[int, int, float]]
    """(from node, to node, KiB left)."""
    whole_kib: float
    left_kib: float
    most_kib_per_s: float = math.inf


@dataclass(slots=True)
class SimGuest:
    label: str
    """For people who read results; no policy sees it."""
    app: App
    job: Job
    uuid: str
    group: str
    """The VP it belongs to, where that has several guests; else empty."""
    cpus: Cpus
    memory_kib: dict[int, float]
    priority: float = 1.0
    controller_keys: tuple[tuple[str, str], ...] = ()
    quota: Quota = NO_QUOTA
    move: Move | None = None
    stall_s: float = 0.0
    """Of the next second: what a move of its vCPUs costs."""
    cpu_time_s: float = 0.0
    counted: tuple[float, ...] = NOTHING
    """As its counters stood when they were last read, noise included."""
    true_counts: tuple[float, ...] = NOTHING
    """What it did since, without."""
    noise: tuple[float, ...] = NOTHING
    moved_ratio: float = 0.0
    """Share of its memory that was moved page by page since it started: no large pages there."""
    uncounted_s: float = 0.0
    """At the speed of now, since its counters were last read."""
    uncounted_busy_s: float = 0.0
    """The same, with the time in which it waits for pages that move, or for TLBs: its CPUs are not
    halted, and count cycles."""
    running_ratio: float = 1.0
    """Of the last stretch: share in which it did not wait for pages that move, or for TLBs."""
    busy_vcpus: float = 0.0
    """Of the first ones, at the speed of now."""
    vcpu_cycles: tuple[float, ...] = field(init=False)
    """Of each, since its start, without noise."""
    placement: frozenset[int] = field(init=False)
    """Where any of its vCPUs may run."""

    def __post_init__(self) -> None:
        self.placement = all_cpus(self.cpus)
        self.vcpu_cycles = (0.0,) * self.app.vcpus

    @property
    def shares(self) -> Shares:
        """In whole steps, the rest on the node with the most."""
        total = sum(self.memory_kib.values())
        steps = {n: round(SHARE_STEPS * kib / total) for n, kib in self.memory_kib.items()}
        most = max(steps, key=lambda node: (steps[node], -node))
        steps[most] += SHARE_STEPS - sum(steps.values())
        return tuple((n, step / SHARE_STEPS) for n, step in sorted(steps.items()) if step)

    @property
    def wanted_vcpus(self) -> float:
        """So many have something to do."""
        return self.app.vcpus * self.job.now.busy_ratio

    def wanted_cores(self) -> float:
        return self.wanted_vcpus * min(self.app.busy_ratio, self.quota.cores)


@dataclass(slots=True)
class Tally:
    """What a run is judged by, besides the jobs."""

    vcpu_moves: int = 0
    memory_moves: int = 0
    guest_core_s: float = 0.0
    management_core_s: float = 0.0


class SimHost:
    def __init__(
        self, machine: Machine, contention: Contention, guests: Sequence[SimGuest], random: Random
    ) -> None:
        self.machine = machine
        self.guests = {guest.uuid: guest for guest in guests}
        self.now_s = 0.0
        self.tally = Tally()
        self.speeds: dict[str, Speed] = {}
        self.cores: dict[str, float] = {}
        self._contention = contention
        self._scheduler = Scheduler(machine.topology, machine.core_of, machine.costs.sibling_ratio)
        self._random = random
        self._is_settled = False
        self._moving: list[SimGuest] = []
        """Memory on its way, in the order asked for: the first one moves, the others wait."""
        self.ended: dict[str, Move] = {}
        """Moves that are over, by guest, until somebody has seen them."""
        for guest in guests:
            guest.noise = tuple(random.uniform(*NOISE_RATIOS) for _ in NOISY)

    def advance(self, span_s: float) -> None:
        if not self._is_settled:
            self._settle()
        for guest in self.guests.values():
            self._run(guest, span_s)
        if self._moving:
            self._carry(self._moving[0], span_s)
        self.now_s += span_s

    def change(self) -> None:
        """Somebody moved, capped or began to copy: the next second is another one."""
        self._is_settled = False

    def _settle(self) -> None:
        guests = list(self.guests.values())
        wishes = [Wish(guest.placement, guest.wanted_cores()) for guest in guests]
        granted = self._scheduler.grant(wishes)
        core_shares = self._scheduler.core_shares(wishes)
        loads = [
            Load(guest.app, guest.job.now.traffic_factor, cores, guest.shares, core_share)
            for guest, cores, core_share in zip(guests, granted, core_shares, strict=True)
        ]
        speeds = self._contention.speeds(loads, self._copies())
        for guest, cores, speed in zip(guests, granted, speeds, strict=True):
            self._true_counts(guest)
            self.speeds[guest.uuid] = speed
            guest.busy_vcpus = guest.wanted_vcpus
            self.cores[guest.uuid] = sum(busy for _, busy in cores)
        self._is_settled = True

    def _copies(self) -> list[Copy]:
        return [
            Copy(*move.legs[0][:2], self._copied_kib_per_s(move) * KIB / NS_PER_S)
            for guest in self._moving[:1]
            if (move := guest.move)
        ]

    def _copied_kib_per_s(self, move: Move) -> float:
        return min(self._flat_out_kib_per_s, move.most_kib_per_s)

    @property
    def _flat_out_kib_per_s(self) -> float:
        costs = self.machine.costs
        return PAGE_BYTES / KIB * NS_PER_S / (costs.page_copy_ns + costs.page_handling_ns)

    def _copying_ratio(self, guest: SimGuest) -> float:
        """Share of the time in which pages of this guest are being copied: a slow move rests."""
        if guest.move is None or guest not in self._moving[:1]:
            return 0.0
        return self._copied_kib_per_s(guest.move) / self._flat_out_kib_per_s

    def _run(self, guest: SimGuest, span_s: float) -> None:
        speed = self.speeds[guest.uuid]
        waiting = self.machine.costs.moving_stall_ratio * self._copying_ratio(guest)
        running_s = span_s * (1 - waiting) - min(guest.stall_s, span_s / 2)
        guest.stall_s = 0.0
        running_s *= 1 - self.machine.costs.small_pages_ratio * guest.moved_ratio
        guest.running_ratio = running_s / span_s
        guest.uncounted_s += running_s
        guest.uncounted_busy_s += span_s
        # While it waits for pages the host works on its CPUs: faults, TLBs to be flushed.
        used = self.cores[guest.uuid] * span_s
        guest.cpu_time_s += used
        self.tally.guest_core_s += used
        if guest.job.advance(speed.instructions_per_s * running_s, self.now_s, span_s):
            self.change()

    def _true_counts(self, guest: SimGuest) -> None:
        """What it did at the speed that ends now."""
        if guest.uncounted_busy_s:
            speed = self.speeds[guest.uuid]
            done = [per_s * guest.uncounted_s for per_s, _ in zip(speed, NOISY, strict=False)]
            done[CYCLES] = speed.cycles_per_s * guest.uncounted_busy_s
            guest.true_counts = tuple(map(sum, zip(guest.true_counts, done, strict=True)))
            if guest.busy_vcpus:
                cycles = done[CYCLES] / guest.busy_vcpus
                guest.vcpu_cycles = tuple(
                    was + cycles * min(max(guest.busy_vcpus - number, 0.0), 1.0)
                    for number, was in enumerate(guest.vcpu_cycles)
                )
            guest.uncounted_s = guest.uncounted_busy_s = 0.0

    def sample(self, guest: SimGuest) -> tuple[float, ...]:
        """Its counters, in the order of NOISY: what it did since the last sample, with noise."""
        self._true_counts(guest)
        if any(guest.true_counts):
            gauss, noise = self._random.gauss, guest.noise
            off = [min(max(gauss(0.0, 1.0), -NOISE_BOUND), NOISE_BOUND) for _ in NOISY]
            done = [c * (1 + o * n) for c, o, n in zip(guest.true_counts, off, noise, strict=True)]
            for lesser, greater in ((MISSES, REFERENCES), (REMOTE, MISSES)):
                done[lesser] = min(done[lesser], done[greater])
            guest.counted = tuple(map(sum, zip(guest.counted, done, strict=True)))
            guest.true_counts = NOTHING
        return guest.counted

    def _carry(self, guest: SimGuest, span_s: float) -> None:
        """The host's own threads move pages; their CPU is not taken from the guests'."""
        move = guest.move
        assert move is not None
        speed = self._copied_kib_per_s(move)
        budget_kib = speed * span_s
        whole_kib = guest.app.memory_mib * KIB
        while move.legs and budget_kib > 0:
            source, target, left = move.legs[0]
            moved = min(left, budget_kib)
            guest.memory_kib[source] -= moved
            guest.memory_kib[target] = guest.memory_kib.get(target, 0.0) + moved
            move.left_kib -= moved
            guest.moved_ratio = min(guest.moved_ratio + moved / whole_kib, 1.0)
            budget_kib -= moved
            move.legs[0] = (source, target, left - moved)
            if left <= moved:
                move.legs.pop(0)
        if speed:
            busy = self.machine.costs.moving_cores * self._copying_ratio(guest)
            self.tally.management_core_s += busy * (span_s - budget_kib / speed)
        if not move.legs:
            self.stop(guest)
        self.change()

    def stop(self, guest: SimGuest) -> None:
        """What was moved stays."""
        if guest.move:
            self.ended[guest.uuid] = guest.move
            guest.move = None
            self._moving.remove(guest)
            guest.memory_kib = {n: kib for n, kib in guest.memory_kib.items() if kib > LEAST_KIB}
            self.change()

    def place(self, guest: SimGuest, cpus: Cpus) -> None:
        """Counts the vCPUs that change their core, and what they lose by it."""
        before, after = guest.placement, all_cpus(cpus)
        guest.cpus, guest.placement = cpus, after
        if before == after:
            return
        moved = moved_vcpus(before, after, guest.app.vcpus)
        self.tally.vcpu_moves += moved
        costs = self.machine.costs
        if not _domains(self, before) & _domains(self, after):
            lines = (
                self.speeds[guest.uuid].held_mib * KIB * KIB / LINE_BYTES if self.speeds else 0.0
            )
            refill_ns = lines * costs.local_ns / guest.app.parallel_misses / guest.app.vcpus
            guest.stall_s += refill_ns / NS_PER_S
        guest.stall_s += moved * costs.vcpu_move_us / 1e6
        self.change()

    def limit(self, guest: SimGuest, quota: Quota) -> None:
        guest.quota = quota
        self.change()

    def send(self, guest: SimGuest, to: Shares) -> None:
        """Begin to move its memory, or wait for the turn; an earlier move of it ends first."""
        self.stop(guest)
        total = sum(guest.memory_kib.values())
        wanted = {node: share * total for node, share in to}
        nodes = sorted({*wanted, *guest.memory_kib})
        surplus = {n: guest.memory_kib.get(n, 0.0) - wanted.get(n, 0.0) for n in nodes}
        legs = list(_legs(surplus))
        if legs:
            whole = sum(kib for *_, kib in legs)
            guest.move = Move(to, legs, whole, whole)
            self._moving.append(guest)
            self.tally.memory_moves += 1
            self.change()

    def free_kib(self, node: int) -> float:
        lying = sum(guest.memory_kib.get(node, 0.0) for guest in self.guests.values())
        return self.machine.costs.node_mib * KIB - lying


def moved_vcpus(before: frozenset[int], after: frozenset[int], vcpus: int) -> int:
    """vCPUs that must leave their core, and those that get one of their own."""
    on_cores = min(vcpus, len(before))
    leaving = -(-on_cores * len(before - after) // len(before))
    spreading = min(vcpus, len(after)) - on_cores
    return max(leaving + max(spreading, 0), 0)


def _domains(host: SimHost, cpus: frozenset[int]) -> set[int]:
    return {d.id for d in host.machine.topology.domains if d.cpus & cpus}


def _legs(surplus: dict[int, float]) -> list[tuple[int, int, float]]:
    legs = []
    for target, missing in surplus.items():
        for source in surplus:
            kib = min(surplus[source], -missing)
            if kib > LEAST_KIB:
                legs.append((source, target, kib))
                surplus[source] -= kib
                missing += kib
    return legs


def new_uuid(random: Random) -> str:
    return str(uuid.UUID(int=random.getrandbits(128), version=4))
