# SPDX-License-Identifier: Apache-2.0
"""From drivers to the one picture of a tick: read the host, then assemble. Nothing is changed."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from nova_vp.core.types.cpu_time import HostCpuTimes
from nova_vp.core.types.guest import Guest, MemoryMove
from nova_vp.core.types.knob import Applied, Knob
from nova_vp.core.types.mode_levels import SetMode
from nova_vp.core.types.overlay import Overlay
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.sample import Reading
from nova_vp.core.types.service_level import LatencyReport
from nova_vp.core.types.topology import Limits, Topology
from vp_agent.drivers.base import CountersDriver, GuestsDriver, MemoryMover, MemorySizer
from vp_agent.drivers.reserving_journal import ReservingJournal
from vp_agent.loop.executor import Executor


@dataclass(frozen=True, slots=True)
class OwnHost:
    """This host, as the drivers give it."""

    guests: GuestsDriver
    counters: CountersDriver
    memory: MemoryMover
    balloon: MemorySizer
    journal: ReservingJournal
    executor: Executor
    epoch: int
    earlier_epochs: Collection[int]
    """Of the runs before this one on this host: what they journalled is ours to restore exactly."""
    limits: Limits = field(default_factory=Limits)
    """What its memory bears."""
    may_reserve: bool = True
    """Its actuator leaves nothing in any XML, so that nobody but us needs to know what is set."""


@dataclass(frozen=True, slots=True)
class Commanded:
    """What operators told the agent of this host."""

    mode: Mode
    """What holds for the host."""
    approved: frozenset[str] = frozenset()
    """Proposals that are to be applied."""
    revoked: frozenset[str] = frozenset()
    """Actions that are to be undone."""
    rejected: Mapping[str, str] = field(default_factory=dict)
    """Proposals that are not to be made again for a while, with who says so and why."""
    levels: tuple[SetMode, ...] = ()
    """On which the mode is set, for this host."""


@dataclass(frozen=True, slots=True)
class HostReading:
    """What the drivers read at one time."""

    guests: tuple[Guest, ...]
    readings: Mapping[str, Reading]
    """Counters by guest UUID."""
    topology: Topology
    memory_moves: Mapping[str, MemoryMove] = field(default_factory=dict)
    host_cpu: HostCpuTimes | None = None
    latency_reports: Mapping[str, LatencyReport] = field(default_factory=dict)


def read_host(
    guests: GuestsDriver, counters: CountersDriver, memory: MemoryMover | None = None
) -> HostReading:
    """Raises HostUnavailable."""
    found = guests.read()
    return HostReading(
        guests=found,
        readings=counters.read(guests.threads()),
        topology=guests.topology(),
        memory_moves=memory.moves() if memory else {},
        host_cpu=guests.host_cpu(),
    )


def assemble(
    reading: HostReading,
    applied: Mapping[str, Applied],
    commanded: Commanded,
    knobs: frozenset[Knob],
    limits: Limits,
    now_s: float,
    epoch: int = 0,
    overlays: Mapping[str, Overlay] = MappingProxyType({}),
) -> Picture:
    return Picture(
        at_s=now_s,
        mode=commanded.mode,
        topology=reading.topology,
        guests=reading.guests,
        readings=reading.readings,
        applied=applied,
        approved=commanded.approved,
        revoked=commanded.revoked,
        rejected=commanded.rejected,
        knobs=knobs,
        memory_moves=reading.memory_moves,
        limits=limits,
        epoch=epoch,
        host_cpu=reading.host_cpu,
        latency_reports=reading.latency_reports,
        overlays=overlays,
    )
