# SPDX-License-Identifier: Apache-2.0
"""The seams of the agent: exactly what the tick calls, in core types, with what may be raised.

Each protocol has a real implementation in this folder and a second one in `fake.py`; both pass
the same contract suite. Drivers translate libvirt, kernel and text once, here at the edge.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from nova_vp.core.model import Applied, Decision, Guest, Outcome, Reading, Topology


class DriverError(Exception):
    """Base of what drivers raise. The message says what to do next."""


class HostUnavailable(DriverError):
    """libvirt does not answer now; the tick is skipped and tried again."""


class CountersUnavailable(DriverError):
    """This source cannot work on this host (no PMU, no permission, no vpmu folder)."""


class GuestGone(DriverError):
    """The guest is no longer there; nothing is left to undo."""


class ApplyFailed(DriverError):
    """The host refused the change; the guest is as it was, or the journal still says otherwise."""


@dataclass(frozen=True, slots=True)
class VcpuThreads:
    """Where a counter source finds one guest's vCPUs."""

    guest_uuid: str
    domain_name: str
    pid: int
    tids: tuple[int, ...]
    generation: str


class GuestsDriver(Protocol):
    """Guests, their flavor specs and the topology, from libvirt."""

    def topology(self) -> Topology:
        """LLC domains and nodes as measured on this host. Raises HostUnavailable."""

    def read(self) -> tuple[Guest, ...]:
        """Every active guest, one bulk call. Raises HostUnavailable."""

    def stopped(self) -> frozenset[str]:
        """UUIDs of servers that live on this host but did not run at the last `read`."""

    def threads(self) -> tuple[VcpuThreads, ...]:
        """vCPU threads of the guests of the last `read`."""

    def close(self) -> None: ...


class CountersDriver(Protocol):
    """One counter source (stevedore namespace `vp_agent.counters`)."""

    name: str

    def read(self, threads: Iterable[VcpuThreads]) -> Mapping[str, Reading]:
        """Cumulative counts by guest UUID; a guest that cannot be read is absent."""

    def problems(self) -> Mapping[str, str]:
        """By guest UUID, why the last `read` lacks or degrades it, in words for an operator."""

    def close(self) -> None: ...


class Journal(Protocol):
    """What stood there before us, kept with the domain so that it outlives the agent."""

    def read(self) -> Mapping[str, Applied]:
        """By guest UUID; what is malformed is reported as a change to undo to Nova's bound."""

    def write(self, applied: Applied) -> None:
        """Before the change. Raises GuestGone or ApplyFailed; then nothing may be changed."""

    def drop(self, guest_uuid: str) -> None:
        """After the undo. A guest that is gone is no error."""


class Actuator(Protocol):
    """One way to place vCPUs (stevedore namespace `vp_agent.actuators`)."""

    name: str

    def placement(self, guest_uuid: str) -> frozenset[int]:
        """CPUs its vCPU threads may run on now. Raises GuestGone."""

    def place(self, guest_uuid: str, cpus: frozenset[int]) -> None:
        """Every vCPU thread onto `cpus`. Raises GuestGone or ApplyFailed."""

    def restore(self, applied: Applied) -> None:
        """Exactly what stood there before `place`. Raises GuestGone or ApplyFailed."""


class Publisher(Protocol):
    def publish(self, decision: Decision, outcomes: Iterable[Outcome]) -> None:
        """Never blocks the tick and never raises: a dead bus costs the news, not the host."""

    def close(self) -> None: ...
