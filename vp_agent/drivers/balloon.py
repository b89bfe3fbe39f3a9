# SPDX-License-Identifier: Apache-2.0
"""How much memory a guest has: its virtio balloon, asked through libvirt.

The balloon's driver in the guest gets to a size within seconds, or never, so `apply` returns once
QEMU knows the size; `restore` waits until the guest has its memory again. The size travels with a
live migration, and so does the journal entry of it, past the migrate hook too.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import NO_MEMORY_SIZE, Held, Knob, MemorySize, Value
from vp_agent.drivers.base import ApplyFailed, DriverError
from vp_agent.drivers.domain_xml import DomainDescription
from vp_agent.drivers.domains import Domains
from vp_agent.drivers.vcpu_pinning import CONFIG, LIVE

LOG = logging.getLogger(__name__)
ANSWER_WITHIN_S = 0.9
"""Of QEMU."""
CONFIRM_WITHIN_S = 3.0
"""Of guests that get their memory back, all together: the tick waits for them, whoever they are. A
migration's caller waits 10 s for all servers' answer."""
TOGETHER_S = 10.0
"""Those that begin so soon after the last wait are waited for with it."""
LEAST_CONFIRM_S = 0.1
"""For each, that a driver which is well needs."""
EVENT_WITHIN_S = 2.0
"""QEMU tells libvirt of sizes once a second."""
LOOK_EVERY_S = 5.0
STALE_AFTER_S = 60.0
"""Nova has the driver report every 10 s."""
_POLL_S = 0.02
_PAGE_KIB = 4
NO_STATISTICS = (
    "its balloon driver reports no statistics: the guest needs the driver virtio_balloon, and "
    "nova.conf [libvirt] mem_stats_period_seconds above 0"
)


def used_kib(stats: dict[str, int], now_s: float) -> int | None:
    """What the guest's kernel and applications use; None: its driver does not say, or no more.
    `now_s`: seconds since 1970."""
    free_kib = stats.get("usable", stats.get("unused"))
    is_fresh = 0 <= now_s - stats.get("last_update", 0) < STALE_AFTER_S
    if free_kib is None or not is_fresh:
        return None
    return max(0, stats["actual"] - free_kib)


@dataclass(slots=True)
class _Known:
    used_kib: int | None = None
    asked_kib: set[int] = field(default_factory=set)
    """Since it was last seen to have what was asked for, and where it came from."""
    next_s: float = 0.0
    """When it is looked at again."""


class Balloon:
    """Implements `MemorySizer`."""

    name = "balloon"
    knobs = frozenset({Knob.MEMORY_SIZE})

    def __init__(self, domains: Domains, clock: Callable[[], float] = time.time) -> None:
        """`clock`: seconds since 1970."""
        self._domains = domains
        self._clock = clock
        self._monitor = domains.connection.monitor
        self._restored: dict[str, tuple[MemorySize, float]] = {}
        """Sizes that were confirmed lately, and until when libvirt may know an older one."""
        self._confirmed_by_s = -math.inf
        """Until then guests are waited for."""
        self._trusted_from_s = time.monotonic() + EVENT_WITHIN_S
        """Until then libvirt may not know yet what another process of ours asked for last."""
        self._late: set[str] = set()
        """Guests that did not take their memory back in time."""
        self._known: dict[str, _Known] = {}
        """Of guests whose size we asked for or looked up."""

    def survey(self, guests: tuple[Guest, ...], held: Mapping[str, Held]) -> tuple[Guest, ...]:
        if time.monotonic() < self._trusted_from_s:
            guests = tuple(one if one.uuid in held else _without_doubt(one) for one in guests)
        if not held and not self._known and not self._restored:
            return guests
        present = {guest.uuid for guest in guests}
        self._monitor.forget_others(present)
        self._known = {u: known for u, known in self._known.items() if u in present and u in held}
        for uuid, ended in self._monitor.ended().items():
            if uuid in self._known and not ended.exception():
                self._known[uuid].used_kib = used_kib(ended.result(), self._clock())
        now_s = time.monotonic()
        self._restored = {u: one for u, one in self._restored.items() if now_s < one[1]}
        return tuple(
            self._seen(guest, held[guest.uuid]) if guest.uuid in held else self._confirmed(guest)
            for guest in guests
        )

    def look(self, guest: Guest) -> Guest:
        if guest.balloon_obstacle:
            return guest
        try:
            used = used_kib(self._stats(guest.uuid), self._clock())
        except DriverError as exc:
            return guest._replace(memory_used_kib=None, balloon_obstacle=str(exc))
        self._known.setdefault(guest.uuid, _Known()).used_kib = used
        return _with_use(guest, used)

    def read(self, guest_uuid: str, knob: Knob) -> Value:
        return MemorySize(self._stats(guest_uuid)["actual"])

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        about, size = self._domains.find(guest_uuid).description, cast(MemorySize, value)
        if about.balloon_obstacle:
            raise ApplyFailed(f"the memory of server {guest_uuid} stays: {about.balloon_obstacle}")
        if not 0 < size.kib <= about.memory_kib:
            raise ApplyFailed(
                f"{size.kib} KiB is no memory size of server {guest_uuid}: its flavor gives "
                f"{about.memory_kib} KiB; nothing was changed"
            )
        used = used_kib(self._stats(guest_uuid), self._clock())
        if used is None:
            raise ApplyFailed(f"the memory of server {guest_uuid} stays: {NO_STATISTICS}")
        if size.kib < used:
            raise ApplyFailed(
                f"server {guest_uuid} uses {used} KiB of its memory, and {size.kib} KiB would be "
                "too little; nothing was changed"
            )
        known = self._known.setdefault(guest_uuid, _Known())
        known.used_kib = used
        known.asked_kib |= {about.current_memory_kib, size.kib}
        self._ask_for(guest_uuid, size.kib, LIVE)

    def restore(self, guest_uuid: str, held: Held) -> None:
        """Raises ApplyFailed, too, where the guest does not take its memory back in time."""
        domain = self._domains.find(guest_uuid)
        if not domain.description.has_balloon:
            return  # Nothing of ours can stand there.
        kib = _original_kib(domain.description, cast(MemorySize, held.original))
        if domain.leftover and domain.leftover.current_memory_kib != kib:
            self._ask_for(guest_uuid, kib, CONFIG)
        self._ask_for(guest_uuid, kib, LIVE)
        self._confirm(guest_uuid, kib)
        self._known.pop(guest_uuid, None)
        self._restored[guest_uuid] = MemorySize(kib), time.monotonic() + EVENT_WITHIN_S

    def _confirm(self, uuid: str, kib: int) -> None:
        """The second time that nothing came of it, nobody waits any more."""
        now_s = time.monotonic()
        if now_s > self._confirmed_by_s + TOGETHER_S:
            self._confirmed_by_s = now_s + CONFIRM_WITHIN_S
        until_s = max(self._confirmed_by_s, now_s + LEAST_CONFIRM_S)
        if uuid in self._late:
            until_s = now_s
        self._late.add(uuid)
        while (seen := self._stats(uuid)["actual"]) // _PAGE_KIB != kib // _PAGE_KIB:
            if time.monotonic() > until_s:
                raise ApplyFailed(
                    f"server {uuid} has {seen} KiB of its {kib} KiB of memory, since its balloon "
                    "driver does not answer; `vp-agent release` tries again"
                )
            time.sleep(_POLL_S)
        self._late.discard(uuid)

    def _ask_for(self, uuid: str, kib: int, where: int) -> None:
        self._with_monitor(uuid, lambda domain: domain.setMemoryFlags(kib, where))

    def _stats(self, uuid: str) -> dict[str, int]:
        found: dict[str, int] = self._with_monitor(uuid, lambda domain: domain.memoryStats())
        return found

    def _with_monitor(self, uuid: str, ask: Callable[[Any], Any]) -> Any:
        """Raises GuestGone, ApplyFailed, HostUnavailable."""
        return self._domains.connection.change(
            uuid, lambda domain: self._monitor.call(uuid, lambda: ask(domain), ANSWER_WITHIN_S)
        )

    def _seen(self, guest: Guest, held: Held) -> Guest:
        """A size on its way to what was asked for counts as that: nobody else moves it between."""
        known, now_s = self._known.setdefault(guest.uuid, _Known()), time.monotonic()
        if now_s >= known.next_s and not guest.balloon_obstacle:
            known.next_s = now_s + LOOK_EVERY_S
            self._begin_look(guest.uuid)
        wanted = cast(MemorySize, held.value)
        ours = {*known.asked_kib, wanted.kib}
        if guest.memory_size == wanted:
            known.asked_kib = {wanted.kib}
        elif min(ours) <= guest.memory_size.kib <= max(ours):
            guest = guest._replace(memory_size=wanted)
        return _with_use(guest, known.used_kib)

    def _confirmed(self, guest: Guest) -> Guest:
        size, _ = self._restored.get(guest.uuid, (guest.memory_size, 0.0))
        return guest._replace(memory_size=size)

    def _begin_look(self, uuid: str) -> None:
        try:
            domain = self._domains.connection.call(lambda c: c.lookupByUUIDString(uuid))
        except DriverError as exc:
            LOG.debug("vp=%s its balloon is not looked at: %s", uuid, exc)
            return
        self._monitor.begin(uuid, domain.memoryStats)


def _without_doubt(guest: Guest) -> Guest:
    """A size below its flavor's, which nobody journalled, may be an old one: as an original it
    would keep the server from its memory for good."""
    is_whole = guest.memory_size.kib == guest.memory_kib
    return guest if is_whole else guest._replace(memory_size=NO_MEMORY_SIZE)


def _with_use(guest: Guest, used: int | None) -> Guest:
    obstacle = guest.balloon_obstacle or (NO_STATISTICS if used is None else "")
    return guest._replace(memory_used_kib=used, balloon_obstacle=obstacle)


def _original_kib(about: DomainDescription, original: MemorySize) -> int:
    """Never more than its flavor gives; all of that where nobody knows."""
    return min(original.kib, about.memory_kib) or about.memory_kib
