# SPDX-License-Identifier: Apache-2.0
"""Hardware counters of guests, from perf events on their vCPU threads.

Which thread is counted, and what becomes of it when guests come, go and reboot, lives here; the
system call is in `perf_event.py`. Events of a thread that ended keep their last value and raise no
error, so they are opened anew whenever the guests driver reports other threads.
"""

import errno
import os
from collections.abc import Iterable, Mapping

from nova_vp.core.types.sample import Reading
from vp_agent.drivers import ll_cache_trial, perf_event
from vp_agent.drivers.base import CountersUnavailable, VcpuThreads
from vp_agent.drivers.counters import CounterSettings
from vp_agent.drivers.hardware_events import CpuEvents, Event
from vp_agent.drivers.perf_event import ThreadGroup

_WORTH_TELLING_RATIO = 0.95


class PerfCounters:
    name = "perf"

    def __init__(self, settings: CounterSettings) -> None:
        if perf_event.is_mediated(settings.sys_directory):
            raise CountersUnavailable(
                "KVM's mediated vPMU is on: counting servers from the host would keep VMs from "
                "starting. Load kvm_intel or kvm_amd with enable_mediated_pmu=0 to use perf"
            )
        try:
            perf_event.try_pmu()
        except OSError as error:
            raise CountersUnavailable(perf_event.explain(error, 0)) from error
        self._events = _tried(settings.cpu_events())
        self._guests: dict[str, _Guest] = {}
        self._problems: dict[str, str] = {}
        self._opened = 0

    def read(self, threads: Iterable[VcpuThreads]) -> Mapping[str, Reading]:
        wanted = {guest.guest_uuid: guest for guest in threads}
        # First let go, then open: at the limit of descriptors the order decides.
        self._close_except(wanted)
        self._problems = {}
        self._open_missing(wanted)
        readings = {}
        for uuid, guest in self._guests.items():
            try:
                reading = guest.read()
            except OSError as error:
                self._problems[uuid] = f"perf: {os.strerror(error.errno or 0)}; opened again soon"
                guest.close()
                continue
            if reading is not None:
                readings[uuid] = reading
                self._tell_degraded(guest, reading)
        return readings

    def problems(self) -> Mapping[str, str]:
        return dict(self._problems)

    def close(self) -> None:
        self._close_except({})

    def _close_except(self, kept: Mapping[str, VcpuThreads]) -> None:
        for uuid, guest in list(self._guests.items()):
            if kept.get(uuid) != guest.threads or not guest.groups:
                guest.close()
                del self._guests[uuid]

    def _open_missing(self, wanted: Mapping[str, VcpuThreads]) -> None:
        exhausted = ""
        for uuid, threads in wanted.items():
            guest = self._guests.get(uuid) or self._new_guest(threads)
            if guest.is_complete:
                continue
            if exhausted:
                self._problems[uuid] = exhausted
                continue
            try:
                guest.open_missing(self._events)
            except OSError as error:
                # All or nothing for this guest: descriptors it could not use are given back.
                guest.close()
                self._problems[uuid] = f"perf: {perf_event.explain(error, self._fds(wanted))}"
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    exhausted = self._problems[uuid]
            else:
                self._guests[uuid] = guest

    def _new_guest(self, threads: VcpuThreads) -> "_Guest":
        self._opened += 1
        return _Guest(threads, f"{threads.generation}/{self._opened}")

    def _fds(self, wanted: Mapping[str, VcpuThreads]) -> int:
        return len(self._events) * sum(len(guest.tids) for guest in wanted.values())

    def _tell_degraded(self, guest: "_Guest", reading: Reading) -> None:
        if not guest.is_complete:
            self._problems[guest.threads.guest_uuid] = (
                f"perf: counts {reading.vcpus_read} of {len(guest.threads.tids)} vCPU threads, "
                "the others are gone"
            )
        elif reading.running_ratio < _WORTH_TELLING_RATIO:
            self._problems[guest.threads.guest_uuid] = (
                f"perf: multiplexed, counted {reading.running_ratio:.0%} of the time. Other users "
                "hold hardware counters: stop perf sessions, set kernel.nmi_watchdog = 0"
            )


def _tried(events: CpuEvents) -> tuple[Event, ...]:
    """Raises CountersUnavailable where they do not count what they are named for."""
    try:
        found = perf_event.find_events(events)
        why_not = ll_cache_trial.why_not(events)
    except OSError as error:
        why_not = perf_event.explain(error, 0)
        if error.errno in perf_event.NO_PMU_ERRNOS:
            why_not = (
                f"the PMU here does not count the events of {events.name}, which the CPU claims to "
                f"be ({error}). In a virtual machine, give it the CPU of its host"
            )
    if why_not:
        raise CountersUnavailable(why_not)
    return found


class _Guest:
    """One life of one guest's vCPU threads."""

    __slots__ = ("_generation", "groups", "threads")

    def __init__(self, threads: VcpuThreads, generation: str) -> None:
        self.threads = threads
        self.groups: dict[int, ThreadGroup] = {}
        self._generation = generation

    @property
    def is_complete(self) -> bool:
        return len(self.groups) == len(self.threads.tids)

    def open_missing(self, events: tuple[Event, ...]) -> None:
        """Leaves out threads that are gone. Raises OSError."""
        for tid in self.threads.tids:
            if tid in self.groups:
                continue
            try:
                self.groups[tid] = ThreadGroup(tid, events)
            except ProcessLookupError:
                continue

    def read(self) -> Reading | None:
        """None when every thread is gone. Raises OSError."""
        if not self.groups:
            return None
        enabled_ns = running_ns = 0
        for group in self.groups.values():
            enabled_for, running_for = group.read()
            enabled_ns += enabled_for
            running_ns += running_for
        totals = zip(*(group.totals for group in self.groups.values()), strict=True)
        vcpu_cycles, *others = totals
        instructions, references, misses, *remote = map(sum, others)
        return Reading(
            instructions=instructions,
            cycles=sum(vcpu_cycles),
            llc_references=references,
            llc_misses=misses,
            llc_misses_remote=remote[0] if remote else 0,
            vcpus_read=len(self.groups),
            running_ratio=running_ns / enabled_ns if enabled_ns else 1.0,
            generation=self._generation,
            vcpu_cycles=vcpu_cycles,
        )

    def close(self) -> None:
        for group in self.groups.values():
            group.close()
        self.groups.clear()
