# SPDX-License-Identifier: Apache-2.0
"""Counters that libvirtd keeps, for an agent that may not open perf events itself.

Events are read, never enabled: libvirt opens an event on QEMU's main thread and only threads made
later inherit it. One enabled on a running guest, by us or anew by a restarted libvirtd, misses the
vCPUs, and stays in the XML that a migration carries. Nova enables events at the guest's start;
`task_clock` among them shows whether the vCPUs are in.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import libvirt

from nova_vp.core.types.sample import Reading
from vp_agent.drivers import perf_event
from vp_agent.drivers.base import CountersUnavailable, HostUnavailable, VcpuThreads
from vp_agent.drivers.counters import CounterSettings

_EVENTS = ("cpu_cycles", "instructions", "cache_references", "cache_misses", "task_clock")
_REMEDY = (
    f"set [libvirt] enabled_perf_events = {','.join(_EVENTS)} in nova-compute's configuration and "
    "hard-reboot the server"
)
_MIN_COVERED_RATIO = 0.5
"""Between all of QEMU's CPU time and that of its main thread; the kernel's vhost threads, which no
event of QEMU counts, are in `cpu.time` too."""


@dataclass(frozen=True, slots=True)
class _Life:
    """Since when libvirtd has counted: its numbers fall when it starts again."""

    generation: str
    restarts: int
    instructions: int


class LibvirtCounters:
    name = "libvirt"

    def __init__(self, settings: CounterSettings) -> None:
        self._connect = settings.connect
        self._lives: dict[str, _Life] = {}
        self._problems: dict[str, str] = {}
        try:
            perf_event.try_pmu()
        except OSError as error:
            # Any other refusal concerns us alone: libvirtd may well be permitted.
            if error.errno in perf_event.NO_PMU_ERRNOS:
                raise CountersUnavailable(perf_event.NO_PMU) from error
        events = settings.cpu_events()
        if not events.generic_is_llc:
            raise CountersUnavailable(
                f"libvirt can count the kernel's generic cache events only, and on {events.name} "
                "they mean another cache than the last level. Use counters = perf"
            )

    def read(self, threads: Iterable[VcpuThreads]) -> Mapping[str, Reading]:
        wanted = {guest.guest_uuid: guest for guest in threads}
        self._problems = {}
        self._lives = {uuid: life for uuid, life in self._lives.items() if uuid in wanted}
        try:
            stats = self._read_stats()
        except (libvirt.libvirtError, HostUnavailable) as error:
            self._problems = dict.fromkeys(wanted, f"libvirt: {error}")
            return {}
        return {
            uuid: reading
            for uuid, guest in wanted.items()
            if uuid in stats and (reading := self._translate(guest, stats[uuid])) is not None
        }

    def problems(self) -> Mapping[str, str]:
        return dict(self._problems)

    def close(self) -> None:
        """Nothing: the connection is the agent's, the events are Nova's."""

    def _read_stats(self) -> Mapping[str, Mapping[str, int]]:
        # NOWAIT: a guest that migrates or is backed up must not hold up the tick.
        answer = self._connect().getAllDomainStats(
            libvirt.VIR_DOMAIN_STATS_PERF | libvirt.VIR_DOMAIN_STATS_CPU_TOTAL,
            libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE
            | libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT,
        )
        return {domain.UUIDString(): stats for domain, stats in answer}

    def _translate(self, guest: VcpuThreads, stats: Mapping[str, int]) -> Reading | None:
        missing = [event for event in _EVENTS if f"perf.{event}" not in stats]
        if missing:
            self._problems[guest.guest_uuid] = (
                f"libvirt: {', '.join(missing)} not counted for this server: {_REMEDY}. If that is "
                "done, libvirtd's log says why it could not open them"
            )
            return None
        is_covered = stats["perf.task_clock"] >= _MIN_COVERED_RATIO * stats.get("cpu.time", 0)
        if not is_covered:
            self._problems[guest.guest_uuid] = (
                "libvirt: the vCPU threads are not counted, only QEMU's main thread is: libvirtd "
                "was restarted, or the events enabled, after the server started. If its XML has "
                f"the events, hard-reboot the server; else {_REMEDY}"
            )
        return Reading(
            instructions=stats["perf.instructions"],
            cycles=stats["perf.cpu_cycles"],
            llc_references=stats["perf.cache_references"],
            llc_misses=stats["perf.cache_misses"],
            llc_misses_remote=0,
            vcpus_read=len(guest.tids) if is_covered else 0,
            # libvirt reads bare values: multiplexing falsifies them and cannot be seen.
            running_ratio=1.0,
            generation=self._generation(guest, stats["perf.instructions"]),
        )

    def _generation(self, guest: VcpuThreads, instructions: int) -> str:
        life = self._lives.get(guest.guest_uuid)
        if life is None or life.generation != guest.generation:
            life = _Life(guest.generation, 0, instructions)
        restarts = life.restarts + (instructions < life.instructions)
        self._lives[guest.guest_uuid] = _Life(guest.generation, restarts, instructions)
        return f"{guest.generation}/{restarts}"
