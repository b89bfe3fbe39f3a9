# SPDX-License-Identifier: Apache-2.0
"""The guests that libvirt runs, kept between ticks: their number each time, all else on change.

The list, XML and thread ids are read at first sight and again when an event says so. As a
hot-plugged vCPU sends none, one guest per refresh is also read again by age.
Guests driver, journal and actuators share this one cache; it decides nothing.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import libvirt

from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Applied, Knob, MemorySize
from nova_vp.core.types.topology import Topology
from vp_agent.drivers.base import ApplyFailed, GuestGone, HostUnavailable, VcpuThreads
from vp_agent.drivers.connection import Changed, Connection
from vp_agent.drivers.domain_xml import DomainDescription, parse_description, parse_journal
from vp_agent.drivers.journal_entry import NAMESPACE, NEVER
from vp_agent.drivers.passed_devices import place_near
from vp_agent.drivers.topology import parse_topology
from vp_agent.drivers.vcpu_threads import (
    Process,
    StrangeThreads,
    generation_of,
    read_cpu_time_ns,
    read_process,
    read_tids,
)

LOG = logging.getLogger(__name__)
RUN_DIRECTORY = Path("/run/libvirt/qemu")
SYSFS = Path("/sys")
LIST_EVERY_S = 10.0
"""If nothing says that anything changed."""
REREAD_AFTER_S = 300.0
# CPU time is read from the kernel: libvirtd would open cgroup files for it, five times the work.
_STATS = libvirt.VIR_DOMAIN_STATS_STATE
# NOWAIT: without it a guest in a job (migration, backup) holds up everybody for 30 seconds.
_FLAGS = (
    libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE
    | libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
)
_MIGRATING_STATES = {
    (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_MIGRATION),
    (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_STARTING_UP),
}


@dataclass(frozen=True, slots=True)
class Domain:
    """One guest as of its last change."""

    domain_id: int
    """libvirt's number of this start; another one is another QEMU."""
    process: Process
    threads: VcpuThreads
    guest: Guest
    """As it is described; how it is now, where it runs for one, is read in every tick."""
    description: DomainDescription
    leftover: DomainDescription | None
    """The persistent XML, if it holds a journal entry: a migration copied it there."""
    read_at_s: float
    told_specs: Mapping[str, str]
    """Of its flavor, as this host was told when it was read."""

    @property
    def tids(self) -> tuple[int, ...]:
        return self.threads.tids

    @property
    def generation(self) -> str:
        return self.threads.generation

    @property
    def applied(self) -> Applied | None:
        if self.description.applied or self.leftover is None:
            return self.description.applied
        entry = self.leftover.applied
        return entry and replace(entry, epoch=NEVER)


class _Listed(NamedTuple):
    """One active guest, as libvirt listed it."""

    handle: Any
    uuid: str
    domain_id: int
    state: tuple[int, int]
    """libvirt's state and its reason."""


class Running(NamedTuple):
    """One guest of one refresh."""

    domain: Domain
    cpu_time_ns: int
    is_running: bool
    is_migrating: bool


def nothing_told(uuid: str) -> Mapping[str, str]:
    """Of the flavor of that server."""
    return {}


class Domains:
    def __init__(
        self,
        connection: Connection,
        run_directory: Path = RUN_DIRECTORY,
        clock: Callable[[], float] = time.monotonic,
        told_specs: Callable[[str], Mapping[str, str]] = nothing_told,
        sysfs: Path = SYSFS,
    ) -> None:
        """`run_directory`: where libvirt's QEMU driver keeps its pid files. `told_specs`: by
        server, for `parse_description`; thread-safe. `sysfs`: where it is mounted."""
        self.connection = connection
        self._run_directory = run_directory
        self._clock = clock
        self._told_specs = told_specs
        self._sysfs_bus = sysfs / "bus"
        self._online_file = sysfs / "devices/system/cpu/online"
        self._online_cpus = ""
        self._listed: tuple[_Listed, ...] = ()
        self._is_listed = False
        self._next_list_s = 0.0
        self._known: dict[str, Domain] = {}
        self._changed: set[str] = set()
        self._journal_changed: set[str] = set()
        """Also by ourselves: an event does not say by whom."""
        self._topology: Topology | None = None
        self._unreadable: set[str] = set()
        """Guests whose XML or threads were not understood, as far as somebody was told."""
        self.unwritten: dict[str, frozenset[Knob]] = {}
        """What is held of guests without their journal saying all of it."""
        self._lost_sight = False
        self._stopped: frozenset[str] = frozenset()
        self._is_stopped_known = False
        self._host_name = ""
        connection.listen(self._note)

    def topology(self) -> Topology:
        """Read anew after every reconnection, and when a CPU came or went. Raises
        HostUnavailable."""
        if self._topology is None:
            capabilities = self.connection.call(lambda c: str(c.getCapabilities()))
            self._topology = parse_topology(capabilities)
        return self._topology

    def refresh(self) -> tuple[Running, ...]:
        """Every active guest. Raises HostUnavailable."""
        is_list_of_now = not self._is_list_current()
        if is_list_of_now:
            self._list()
        if not self._host_name:
            self._host_name = self.connection.call(lambda c: str(c.getHostname()))
        if not self._is_stopped_known:
            self._is_stopped_known = True
            self._stopped = self.connection.call(_stopped)
        self._note_online_cpus()
        self._forget_changed()
        running = self._see_all()
        if len(running) < len(self._listed) and not is_list_of_now:
            self._list()  # Somebody ended; in its place another one may have started.
            running = self._see_all()
        if len(running) < len(self._listed) or any(seen.is_migrating for seen in running):
            self._is_listed = False
        present = {seen.domain.description.uuid for seen in running}
        self._known = {uuid: known for uuid, known in self._known.items() if uuid in present}
        self._unreadable -= present
        self._journal_changed &= present
        return running

    def _is_list_current(self) -> bool:
        """Whether the same guests are active, in the same states. The number is asked for in every
        tick, at a small part of the cost of the list: one that has just started need not wait for
        its event, and a libvirtd that is away is noticed. Raises HostUnavailable."""
        if not self._is_listed or self._clock() >= self._next_list_s:
            return False
        active = self.connection.call(lambda c: int(c.numOfDomains()))
        # Asked once more: the connection may have been opened anew meanwhile.
        return self._is_listed and active == len(self._listed)

    def _list(self) -> None:
        """Raises HostUnavailable."""
        # First: a change while we ask must be seen by the next refresh.
        self._is_listed, self._listed = True, ()
        self._next_list_s = self._clock() + LIST_EVERY_S
        answers = self.connection.call(lambda c: list(c.getAllDomainStats(_STATS, _FLAGS)))
        self._listed = tuple(
            _Listed(
                handle,
                handle.UUIDString(),
                handle.ID(),
                (stats["state.state"], stats["state.reason"]),
            )
            for handle, stats in answers
        )

    def stopped(self) -> frozenset[str]:
        """UUIDs of guests that are defined here and did not run at the last refresh."""
        return self._stopped

    def host_name(self) -> str:
        """libvirt's; empty before the first refresh."""
        return self._host_name

    def known(self) -> Iterable[Domain]:
        """The guests of the last refresh; the first call makes one. Raises HostUnavailable."""
        if not self._known:
            self.refresh()
        return tuple(self._known.values())

    def find(self, uuid: str) -> Domain:
        """As of its last change; somebody else's change of its journal is seen by the next refresh.
        Raises GuestGone, HostUnavailable."""
        if self._lost_sight or uuid in self._changed:
            return self.reread(uuid)
        return self._known.get(uuid) or self.reread(uuid)

    def reread(self, uuid: str) -> Domain:
        """Raises GuestGone, HostUnavailable."""
        # First: a change while we read must be seen by the next look.
        self._changed.discard(uuid)
        handle = self.connection.call(lambda c: c.lookupByUUIDString(uuid))
        try:
            domain = self._known[uuid] = self._read(handle)
        except ProcessLookupError as exc:
            self._known.pop(uuid, None)
            raise GuestGone(f"server {uuid} has just ended") from exc
        return domain

    def note_journal(self, uuid: str, entry_xml: str) -> Applied:
        """What our entry says, as libvirt has it after we wrote it: nothing else of the guest is
        read again. Raises GuestGone, HostUnavailable."""
        domain = self.find(uuid)
        applied = parse_journal(entry_xml, domain.description)
        about = replace(domain.description, applied=applied)
        self._known[uuid] = replace(domain, description=about)
        return applied

    def forget(self, uuid: str) -> None:
        """The guest has changed: it is read again before it is used again."""
        self._changed.add(uuid)

    def _note(self, uuid: str | None, what: Changed) -> None:
        if what is Changed.LIFE:
            self._is_listed = self._is_stopped_known = False
        if uuid is None:
            self._lost_sight = True
        elif what is Changed.JOURNAL:
            self._journal_changed.add(uuid)
        else:
            self._changed.add(uuid)

    def _note_online_cpus(self) -> None:
        """Nova powers dedicated CPUs off and on. No event tells of it, and what a guest may use
        depends on it."""
        with contextlib.suppress(OSError):
            online = self._online_file.read_text()
            if online != self._online_cpus:
                self._online_cpus, self._topology, self._known = online, None, {}

    def _forget_changed(self) -> None:
        if self._lost_sight:
            self._lost_sight, self._known, self._topology = False, {}, None
        while self._changed:
            self._known.pop(self._changed.pop(), None)
        oldest = min(self._known.values(), key=lambda known: known.read_at_s, default=None)
        if oldest and self._clock() - oldest.read_at_s > REREAD_AFTER_S:
            del self._known[oldest.description.uuid]

    def _see_all(self) -> tuple[Running, ...]:
        return tuple(seen for one in self._listed if (seen := self._see(one)) is not None)

    def _see(self, one: _Listed) -> Running | None:
        """None for a guest that is not all there: just starting, or just gone."""
        uuid = one.uuid
        try:
            domain = self._known.get(uuid)
            if domain is None or not self._is_current(domain, one):
                domain = self._known[uuid] = self._read(one.handle)
            return Running(
                domain=domain,
                cpu_time_ns=read_cpu_time_ns(domain.process),
                is_running=one.state[0] == libvirt.VIR_DOMAIN_RUNNING,
                is_migrating=one.state in _MIGRATING_STATES or self.connection.is_migrating(uuid),
            )
        except (ValueError, StrangeThreads) as exc:
            self._known.pop(uuid, None)
            self._note_unreadable(uuid, exc)
        except (GuestGone, ApplyFailed, ProcessLookupError):
            self._known.pop(uuid, None)
        return None

    def _is_current(self, domain: Domain, one: _Listed) -> bool:
        about = domain.description
        return (
            domain.domain_id == one.domain_id
            and domain.told_specs == self._told_specs(about.uuid)
            and (
                about.uuid not in self._journal_changed or self._is_journal_known(about, one.handle)
            )
        )

    def _is_journal_known(self, about: DomainDescription, handle: Any) -> bool:
        """Mostly we wrote it ourselves: to read all of the guest for that would cost much more."""
        # First: a change while we read must be seen by the next look.
        self._journal_changed.discard(about.uuid)
        live = libvirt.VIR_DOMAIN_AFFECT_LIVE
        stored = self.connection.call(lambda _: stored_journal(handle, live))
        return about.applied == (None if stored is None else parse_journal(stored, about))

    def _note_unreadable(self, uuid: str, exc: Exception) -> None:
        """Once for each: nothing is known of it, and the others go on."""
        if uuid not in self._unreadable:
            self._unreadable.add(uuid)
            LOG.warning(
                "vp=%s cannot be measured (%s): see `virsh dumpxml`, and remove foreign metadata "
                "or restart the server",
                uuid,
                exc,
            )

    def _read(self, handle: Any) -> Domain:
        """Raises GuestGone, ProcessLookupError, HostUnavailable, ValueError."""
        cpus = self.topology().cpus
        read = self.connection.call
        told_specs = self._told_specs(handle.UUIDString())
        description = parse_description(read(lambda _: handle.XMLDesc(0)), cpus, told_specs)
        process = read_process(self._pid_of(description.domain_name))
        tids = read_tids(process.pid, description.most_vcpus)
        if not tids:
            raise ProcessLookupError(f"{description.domain_name} has no vCPU threads yet")
        self.connection.check_migrating(description.uuid)
        threads = VcpuThreads(
            guest_uuid=description.uuid,
            domain_name=description.domain_name,
            pid=process.pid,
            tids=tids,
            generation=generation_of(process, tids),
        )
        return Domain(
            domain_id=read(lambda _: int(handle.ID())),
            process=process,
            threads=threads,
            guest=_guest_of(description, threads.generation, self._place_of(description)),
            description=description,
            leftover=read(lambda _: _leftover(handle, cpus)),
            read_at_s=self._clock(),
            told_specs=told_specs,
        )

    def _place_of(self, about: DomainDescription) -> frozenset[int]:
        devices, bound = about.devices, about.allowed_cpus
        return place_near(devices, bound, about.vcpus, self.topology(), self._sysfs_bus)

    def _pid_of(self, domain_name: str) -> int:
        try:
            return int((self._run_directory / f"{domain_name}.pid").read_text())
        except FileNotFoundError as exc:
            if not self._run_directory.is_dir():
                raise HostUnavailable(
                    f"{self._run_directory} does not exist: the agent must run where libvirt's "
                    "QEMU driver does, and see its run folder"
                ) from exc
            raise ProcessLookupError(f"{domain_name} has just ended") from exc
        except PermissionError as exc:
            raise HostUnavailable(
                f"this user may not read {self._run_directory}, where libvirt names the processes "
                "of the servers: run this as root, or with CAP_DAC_READ_SEARCH"
            ) from exc
        except ValueError as exc:
            # QEMU makes the file first and then writes its pid into it.
            raise ProcessLookupError(f"{domain_name} is just starting") from exc


def _guest_of(about: DomainDescription, generation: str, allowed_cpus: frozenset[int]) -> Guest:
    return Guest(
        uuid=about.uuid,
        domain_name=about.domain_name,
        name=about.name,
        project_id=about.project_id,
        flavor=about.flavor,
        vcpus=about.vcpus,
        memory_kib=about.memory_kib,
        allowed_cpus=allowed_cpus,
        placement=about.allowed_cpus,
        cpu_time_ns=0,
        generation=generation,
        isolation=about.spec.isolation,
        group=about.spec.group,
        priority=about.spec.priority,
        cap_floor_ratio=about.spec.cap_floor_ratio,
        controller_keys=about.spec.controller_keys,
        service_class=about.spec.service_class,
        latency_target_ms=about.spec.latency_target_ms,
        latency_percentile=about.spec.latency_percentile,
        max_load=about.spec.max_load,
        may_suspend=about.spec.may_suspend,
        memory_obstacle=about.memory_obstacle,
        memory_size=MemorySize(about.current_memory_kib if about.has_balloon else 0),
        balloon_obstacle=about.balloon_obstacle,
        migration_obstacle=about.migration_obstacle,
        image=about.image,
    )


def stored_journal(handle: Any, where: int) -> str | None:
    """Our entry; None: there is none."""
    try:
        return str(handle.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, NAMESPACE, where))
    except libvirt.libvirtError as exc:
        if exc.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN_METADATA:
            return None
        raise


def _stopped(connection: Any) -> frozenset[str]:
    inactive = connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_INACTIVE)
    return frozenset(domain.UUIDString() for domain in inactive)


def _leftover(handle: Any, cpus: frozenset[int]) -> DomainDescription | None:
    if not handle.isPersistent():
        return None
    persistent = parse_description(handle.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE), cpus)
    return persistent if persistent.applied else None
