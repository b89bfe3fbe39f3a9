# SPDX-License-Identifier: Apache-2.0
"""What can be turned on one guest, in which values, and what our journal says we turned.

One knob, one value type; a claim, an action, a journal entry and an actuator all speak in these.
Nothing here decides.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast


class Knob(enum.Enum):
    PLACEMENT = "placement"
    """Which CPUs the vCPU threads may run on; the emulator threads follow."""
    CPU_CAP = "cpu-cap"
    """How much of a CPU each vCPU may use."""
    CPU_WEIGHT = "cpu-weight"
    """What it counts for beside other servers where CPU is short."""
    MEMORY = "memory"
    """On which NUMA nodes its memory lies."""
    LLC = "llc"
    """Which share of the last-level cache it may fill."""
    MEMBW = "membw"
    """Which share of the memory bandwidth it may use."""
    MEMORY_SIZE = "memory-size"
    """How much memory it has: what its balloon leaves it."""
    EMULATOR_WEIGHT = "emulator-weight"
    """What QEMU's threads besides the vCPUs count for beside those: its main loop, vhost and its
    I/O threads, which serve the network and the disks."""

    __hash__ = object.__hash__
    """Members are single. Enum's own is in Python, and claims are found by their knob a thousand
    times in a step."""


Cpus = tuple[frozenset[int], ...]
"""PLACEMENT: one set for all vCPUs alike, or one set per vCPU, in the order of the vCPUs."""

UNLIMITED_US = -1


class Quota(NamedTuple):
    """CPU_CAP: CPU time of each vCPU per period, as the cgroup's CFS bandwidth control has it."""

    quota_us: int = UNLIMITED_US
    period_us: int = 100_000

    @property
    def cores(self) -> float:
        """Of each vCPU; 1.0 where nothing limits it."""
        return 1.0 if self.quota_us < 0 else self.quota_us / self.period_us


NO_QUOTA = Quota()


class WeightUnit(enum.Enum):
    """A host has one of them, and a number of the one says nothing on a host of the other."""

    WEIGHT = "weight"
    """`cpu.weight` of cgroup version 2."""
    SHARES = "shares"
    """`cpu.shares` of cgroup version 1."""


class WeightRange(NamedTuple):
    least: int
    most: int
    default: int
    """Of a server to which Nova gives nothing else."""

    def takes(self, number: int) -> bool:
        return self.least <= number <= self.most


WEIGHT_RANGES: Mapping[WeightUnit, WeightRange] = {
    WeightUnit.WEIGHT: WeightRange(1, 10_000, 100),
    WeightUnit.SHARES: WeightRange(2, 262_144, 1024),
}
"""The kernel's."""
SETTABLE_CPU_WEIGHTS: Mapping[WeightUnit, WeightRange] = {
    unit: bounds._replace(least=2) for unit, bounds in WEIGHT_RANGES.items()
}
"""Libvirt 9.0 refuses 1 also where the kernel takes it, and is told again what stood there."""


class CpuWeight(NamedTuple):
    """CPU_WEIGHT: of the server's cgroup as a whole, all its vCPUs and QEMU's other threads."""

    number: int = 0
    unit: WeightUnit = WeightUnit.WEIGHT


NO_CPU_WEIGHT = CpuWeight()
"""Nobody can say: it has no cgroup of its own, or runs only where nobody else wants to. As an
original: what Nova gives, whatever number that is on this host."""


class EmulatorWeight(NamedTuple):
    """EMULATOR_WEIGHT: of each of these threads' cgroups, which are all alike."""

    number: int = 0
    unit: WeightUnit = WeightUnit.WEIGHT


NO_EMULATOR_WEIGHT = EmulatorWeight()
"""Nobody can say: the threads have no cgroup beside those of the vCPUs. As an original: the host's
default, since Nova gives nothing else."""

Shares = tuple[tuple[int, float], ...]
"""MEMORY: (node, share of the guest's pages), by node; the shares add up to 1."""


class LlcShare(NamedTuple):
    """LLC: of each last-level cache that it may run at."""

    ratio: float = 1.0


NO_LLC_LIMIT = LlcShare()


class MembwShare(NamedTuple):
    """MEMBW: of what a core can draw from memory."""

    ratio: float = 1.0


NO_MEMBW_LIMIT = MembwShare()


class MemorySize(NamedTuple):
    """MEMORY_SIZE: what the balloon leaves to the guest's kernel."""

    kib: int = 0


NO_MEMORY_SIZE = MemorySize()
"""Nobody can say: it has no balloon that answers."""

Value = Cpus | Quota | CpuWeight | Shares | LlcShare | MembwShare | MemorySize | EmulatorWeight


@dataclass(frozen=True, slots=True)
class Held:
    """One knob of one guest in our hands."""

    knob: Knob
    value: Value
    original: Value
    """What stood there before us, and what undo restores exactly."""
    controller: str
    action_id: str
    until_s: float | None = None
    """Monotonic end of the lease; None: for as long as the agent lives."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What our journal says we hold of one guest."""

    guest_uuid: str
    epoch: int
    """Which agent run wrote it; another run's entry (crash, migration) is undone on sight."""
    held: tuple[Held, ...] = ()

    def of(self, knob: Knob) -> Held | None:
        for held in self.held:  # Asked several times for every guest in every tick.
            if held.knob is knob:
                return held
        return None

    def without(self, knob: Knob) -> "Applied":
        return Applied(
            self.guest_uuid, self.epoch, tuple(held for held in self.held if held.knob is not knob)
        )

    def holding(self, held: Held) -> "Applied":
        """With this knob held as given, whatever was held of it before."""
        return Applied(self.guest_uuid, self.epoch, (*self.without(held.knob).held, held))


def held_of(applied: Mapping[str, Applied], knob: Knob) -> dict[str, Held]:
    """By guest UUID."""
    found = ((uuid, entry.of(knob)) for uuid, entry in applied.items())
    return {uuid: held for uuid, held in found if held is not None}


def all_cpus(cpus: Cpus) -> frozenset[int]:
    """Where any of the vCPUs may run."""
    return cpus[0] if len(cpus) == 1 else frozenset().union(*cpus)


def plain(value: Value) -> list[object]:
    """In one order, whatever order a set has."""
    return [sorted(part) if isinstance(part, frozenset) else part for part in value]


def nodes_of(value: Value, at_least: float = 0.0) -> frozenset[int]:
    """Where a MEMORY value has at least such a share."""
    return frozenset(node for node, share in cast(Shares, value) if share >= at_least)
