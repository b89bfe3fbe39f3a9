# SPDX-License-Identifier: Apache-2.0
"""The drivers of the agent: exactly what the tick calls, in core types, with what may be raised.

Each protocol has a real implementation in this folder and a second one in `fake.py`; both pass
the same contract suite. Drivers translate libvirt, kernel and text once, here at the edge.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from nova_vp.core.types.action import Outcome
from nova_vp.core.types.cpu_time import HostCpuTimes
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.guest import Guest, MemoryMove
from nova_vp.core.types.knob import Applied, Held, Knob, Value
from nova_vp.core.types.sample import Reading
from nova_vp.core.types.topology import Topology


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


class VcpuThreads(NamedTuple):
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

    def host_name(self) -> str:
        """What the hypervisor calls this host; empty before the first `read`."""

    def threads(self) -> tuple[VcpuThreads, ...]:
        """vCPU threads of the guests of the last `read`."""

    def host_cpu(self) -> HostCpuTimes | None:
        """Of all CPUs of this host now; None where the kernel does not say."""

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
    """One way to turn some of the knobs (stevedore namespace `vp_agent.actuators`)."""

    name: str
    knobs: frozenset[Knob]

    def read(self, guest_uuid: str, knob: Knob) -> Value:
        """What stands on the host now. Raises GuestGone."""

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        """Returns once the host shows the value; of MEMORY and MEMORY_SIZE, once the guest is on
        its way there.

        Raises GuestGone, or ApplyFailed: beyond Nova's bound, refused, or not what was asked.
        """

    def restore(self, guest_uuid: str, held: Held) -> None:
        """Exactly what stood there before `apply`. Raises GuestGone or ApplyFailed."""


class MemoryMover(Actuator, Protocol):
    """The actuator of MEMORY (stevedore namespace `vp_agent.memory`): what `apply` begins goes on
    in the background; `restore` waits until the memory is back. Where memory has nowhere to go, or
    shall not, it offers no knob and only undoes. One guest is moved at a time, in the order asked
    for."""

    def survey(self, guests: tuple[Guest, ...], now_s: float) -> tuple[Guest, ...]:
        """The same guests, with where their memory lies as of a recent look, and what hinders a
        move. Ends the move of a guest that migrates. Raises HostUnavailable."""

    def moves(self) -> Mapping[str, MemoryMove]:
        """By guest UUID: those queued or under way, and those that ended since the last call."""

    def set_copy_rates(self, kib_per_s: Mapping[str, float]) -> None:
        """By guest UUID, how fast its memory may be copied; 0 halts it, absent: no limit."""

    def abort(self, guest_uuid: str, why: str) -> None:
        """At the next border of a chunk; what was moved stays until it is restored."""

    def close(self) -> None:
        """Ends what is under way; it returns once nothing moves any more."""


class MemorySizer(Actuator, Protocol):
    """The actuator of MEMORY_SIZE. `restore` waits until the guest has its memory again."""

    def survey(self, guests: tuple[Guest, ...], held: Mapping[str, Held]) -> tuple[Guest, ...]:
        """The same guests, those whose size is `held` with what they use. Never waits."""

    def look(self, guest: Guest) -> Guest:
        """The same guest with what it uses now, or why its memory cannot be resized. Waits for its
        QEMU, a second at most."""


class Publisher(Protocol):
    def publish(self, decision: Decision, outcomes: Iterable[Outcome]) -> None:
        """Never blocks the tick and never raises: a dead bus costs the news, not the host."""

    def close(self) -> None: ...
