# SPDX-License-Identifier: Apache-2.0
"""Choosing what divides the cache and the memory bandwidth (stevedore namespace
`vp_agent.partition`), and what its groups tell of the guests in every tick.

Groups outlive the guest and its journal, unlike all else that we apply: one that holds nobody any
more is removed as soon as it is seen.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast

from stevedore import DriverManager, ExtensionManager
from stevedore.exception import NoMatches

from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import (
    NO_LLC_LIMIT,
    NO_MEMBW_LIMIT,
    Held,
    Knob,
    LlcShare,
    MembwShare,
    Value,
)
from vp_agent.drivers.base import (
    Actuator,
    ApplyFailed,
    DriverError,
    GuestGone,
    GuestsDriver,
)
from vp_agent.drivers.domains import Domains
from vp_agent.drivers.wrapped_guests import WrappedGuests

LOG = logging.getLogger(__name__)
NAMESPACE = "vp_agent.partition"
AUTO = "auto"
NONE = "none"
BEST_FIRST = ("resctrl",)
FREE: Mapping[Knob, LlcShare | MembwShare] = {
    Knob.LLC: NO_LLC_LIMIT,
    Knob.MEMBW: NO_MEMBW_LIMIT,
}
"""What every guest has of each of these knobs until somebody limits it."""


class PartitionUnavailable(DriverError):
    """This host cannot divide its cache. The message says why and what would help."""


class PartitionActuator(Actuator, Protocol):
    """Turns LLC and MEMBW, or the one of them that the hardware has. What it reads of the other is
    free, and giving that back is no error."""

    def held(self) -> frozenset[str]:
        """UUIDs of guests that something of ours stands for, whoever of us made it."""

    def discard_if_empty(self, guest_uuid: str) -> None:
        """What stands for a guest that has ended goes. Raises ApplyFailed."""


@dataclass(frozen=True, slots=True)
class OpenedPartition:
    actuator: PartitionActuator
    why_not: str = ""
    """Why it applies nothing, for people; empty: it does."""


def open_partition(name: str, domains: Domains) -> OpenedPartition:
    """Raises PartitionUnavailable if the one that was named cannot work here.

    Otherwise there always is one, if only to undo: a journal may have come from another host, or
    from an agent that was told otherwise.
    """
    if name not in (AUTO, NONE):
        return OpenedPartition(_open(name, domains))
    reasons = []
    for candidate in BEST_FIRST:
        try:
            found = _open(candidate, domains)
        except PartitionUnavailable as exc:
            reasons.append(str(exc))
            continue
        if name == AUTO:
            return OpenedPartition(found)
        return OpenedPartition(UndoOnly(found), "[agent] partition = none")
    return OpenedPartition(UndoOnly(None), "; ".join(reasons))


def _open(name: str, domains: Domains) -> PartitionActuator:
    try:
        manager = DriverManager(NAMESPACE, name, on_missing_entrypoints_callback=None)
    except NoMatches:
        installed = ", ".join(sorted(ExtensionManager(NAMESPACE).names()))
        raise PartitionUnavailable(
            f"there is no partition driver {name!r}: set [agent] partition to {AUTO}, {NONE} "
            f"or one of {installed}"
        ) from None
    try:
        actuator: PartitionActuator = manager.driver(domains)
    except PartitionUnavailable as exc:
        raise PartitionUnavailable(f"{name}: {exc}") from exc
    return actuator


class UndoOnly:
    """Gives back what stands, if anything can stand here, and applies nothing new."""

    name = NONE
    knobs: frozenset[Knob] = frozenset()

    def __init__(self, inner: PartitionActuator | None) -> None:
        self._inner = inner

    def read(self, guest_uuid: str, knob: Knob) -> Value:
        return self._inner.read(guest_uuid, knob) if self._inner else FREE[knob]

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        raise ApplyFailed("this agent partitions no cache: see [agent] partition")

    def restore(self, guest_uuid: str, held: Held) -> None:
        if self._inner:
            self._inner.restore(guest_uuid, held)

    def held(self) -> frozenset[str]:
        return self._inner.held() if self._inner else frozenset()

    def discard_if_empty(self, guest_uuid: str) -> None:
        if self._inner:
            self._inner.discard_if_empty(guest_uuid)


class PartitionedGuests(WrappedGuests):
    """A guests driver whose guests also say what holds them back. It costs one look at a folder
    per tick where nothing does."""

    def __init__(self, guests: GuestsDriver, actuator: PartitionActuator) -> None:
        super().__init__(guests)
        self._actuator = actuator
        self._stuck: frozenset[str] = frozenset()

    def read(self) -> tuple[Guest, ...]:
        guests = self._guests.read()
        held = self._actuator.held()
        if not held:
            return guests
        self._tidy(held)
        return tuple(self._seen(guest) if guest.uuid in held else guest for guest in guests)

    def _seen(self, guest: Guest) -> Guest:
        try:
            llc = self._actuator.read(guest.uuid, Knob.LLC)
            membw = self._actuator.read(guest.uuid, Knob.MEMBW)
        except GuestGone:
            return guest
        return guest._replace(llc=cast(LlcShare, llc), membw=cast(MembwShare, membw))

    def _tidy(self, held: frozenset[str]) -> None:
        stuck = set()
        for uuid in held:
            try:
                self._actuator.discard_if_empty(uuid)
            except DriverError as exc:
                stuck.add(uuid)
                if uuid not in self._stuck:
                    LOG.warning("vp=%s has ended, but its cache partition remains: %s", uuid, exc)
        self._stuck = frozenset(stuck)
