# SPDX-License-Identifier: Apache-2.0
"""Where the guests' memory lies, looked at seldom, and why some of it cannot be moved.

A look asks for a sample of pages and costs about a millisecond whatever the guest's size, so it is
made when a guest is new or was moved, and else of one guest at a time.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Shares
from vp_agent.drivers.base import ApplyFailed, GuestGone
from vp_agent.drivers.guest_pages import Look
from vp_agent.drivers.page_migration import Pages
from vp_agent.drivers.vcpu_threads import Process

EVERY_S = 5.0
NEW_PER_TICK = 4
_LOCKED_RATIO = 0.01
"""QEMU itself locks a little, for io_uring; VFIO and memory locking lock everything."""


@dataclass(frozen=True, slots=True)
class Ram:
    """What looking at one guest's memory, and moving it, needs to know of the guest."""

    process: Process
    memory_kib: int
    obstacle: str = ""


FindRam = Callable[[str], Ram]
"""By guest UUID. Raises GuestGone, HostUnavailable."""


@dataclass(frozen=True, slots=True)
class Residency:
    """One guest's memory at the last look."""

    generation: str
    at_s: float
    by_node: tuple[tuple[int, int], ...] = ()
    obstacle: str = ""


class ResidencyReader:
    """The last look at each guest."""

    def __init__(self, find: FindRam, pages: Pages) -> None:
        self._find = find
        self._pages = pages
        self._seen: dict[str, Residency] = {}
        self._last_at_s = -math.inf

    def survey(self, guests: tuple[Guest, ...], now_s: float) -> tuple[Guest, ...]:
        """The same guests with what is known of their memory. Raises HostUnavailable."""
        here = {guest.uuid for guest in guests}
        self._seen = {uuid: seen for uuid, seen in self._seen.items() if uuid in here}
        for guest in self._due(guests, now_s):
            self._see(guest, now_s)
        return tuple(map(self._described, guests))

    def forget(self, guest_uuid: str) -> None:
        """Its memory was moved: it is looked at again at once."""
        self._seen.pop(guest_uuid, None)

    def look(self, uuid: str, ram: Ram) -> Look:
        """Raises GuestGone, ApplyFailed."""
        try:
            return self._pages.look(ram.process.pid, ram.process.started, ram.memory_kib)
        except OSError as exc:
            raise translated(uuid, exc) from exc

    def _due(self, guests: Iterable[Guest], now_s: float) -> list[Guest]:
        new = [guest for guest in guests if self._is_new(guest)]
        if new or now_s - self._last_at_s < EVERY_S:
            return new[:NEW_PER_TICK]
        oldest = min(guests, key=lambda guest: self._seen[guest.uuid].at_s, default=None)
        return [oldest] if oldest else []

    def _is_new(self, guest: Guest) -> bool:
        seen = self._seen.get(guest.uuid)
        return seen is None or seen.generation != guest.generation

    def _see(self, guest: Guest, now_s: float) -> None:
        self._last_at_s = now_s
        seen = Residency(guest.generation, now_s)
        try:
            ram = self._find(guest.uuid)
            looked = self.look(guest.uuid, ram)
        except GuestGone:
            return
        except ApplyFailed as exc:
            seen = replace(seen, obstacle=str(exc))
        else:
            obstacle = obstacle_of(ram, looked)
            seen = replace(seen, by_node=kib_by_node(looked), obstacle=obstacle)
        self._seen[guest.uuid] = seen

    def _described(self, guest: Guest) -> Guest:
        seen = self._seen.get(guest.uuid)
        if seen is None:
            return guest
        obstacle = guest.memory_obstacle or seen.obstacle
        return guest._replace(memory_by_node=seen.by_node, memory_obstacle=obstacle)


def shares_of(looked: Look) -> Shares:
    pages = sum(count for _, count in looked.nodes)
    return tuple((node, count / pages) for node, count in looked.nodes)


def kib_by_node(looked: Look) -> tuple[tuple[int, int], ...]:
    size_kib = sum(size for _, size in looked.spans) // 1024
    return tuple((node, size_kib * count // looked.sampled) for node, count in looked.nodes)


def obstacle_of(ram: Ram, looked: Look) -> str:
    """Why this memory cannot be moved; empty: it can."""
    if ram.obstacle:
        return ram.obstacle
    if looked.huge_kib:
        return f"{looked.huge_kib} KiB of its process are huge pages"
    if looked.locked_kib > _LOCKED_RATIO * ram.memory_kib:
        return f"{looked.locked_kib} KiB of its process are locked or pinned (mlock, VFIO)"
    return ""


def translated(uuid: str, exc: OSError) -> GuestGone | ApplyFailed:
    if isinstance(exc, ProcessLookupError):
        return GuestGone(f"server {uuid} has ended or was restarted")
    if isinstance(exc, PermissionError):
        return ApplyFailed(
            f"may not see or move its pages ({exc}): the agent needs CAP_SYS_PTRACE, its own or by "
            "[vp_agent_sys_ptrace] helper_command"
        )
    return ApplyFailed(f"the kernel does not move its pages: {exc}")
