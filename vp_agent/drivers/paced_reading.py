# SPDX-License-Identifier: Apache-2.0
"""What the kernel says of one knob of every guest, tick after tick, at little cost.

A guest that we hold is read each time, so that somebody else's change is seen at once; the others
now and then, and when libvirt tells of a change. What is only journalled beforehand is not held.
Where to read is looked up once per start, and kept open for as long as the guest is held.
"""

import random
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, cast

from nova_vp.core.types.knob import Knob, Value
from vp_agent.drivers.domains import Domain
from vp_agent.drivers.journal_entry import RESERVED

LOOK_EVERY_S = 30.0
"""At guests that we do not hold and of which libvirt tells no change."""


class Files(Protocol):
    """Where to read; each is opened by its first look."""

    def close(self) -> None:
        """Until the next look."""


Place = TypeVar("Place", bound=Files)
Seen = TypeVar("Seen", bound=Value)


@dataclass(frozen=True, slots=True)
class _Look(Generic[Place, Seen]):
    domain: Domain
    place: Place | None
    value: Seen
    next_s: float
    is_held: bool


class PacedReading(Generic[Place, Seen]):
    def __init__(
        self,
        knob: Knob,
        find: Callable[[Domain], Place | None],
        read: Callable[[Place, Seen | None], Seen],
        nothing: Seen,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`find`: where to read; false for a guest that is just starting or arriving, which is then
        asked again, and of which `nothing` is known. `read`: what stands there, given what we hold.
        Both raise ProcessLookupError."""
        self._knob = knob
        self._find = find
        self._read = read
        self._nothing = nothing
        self._clock = clock
        self._last: dict[str, _Look[Place, Seen]] = {}

    def of(self, domain: Domain, unwritten: Collection[Knob] = ()) -> Seen:
        """`unwritten`: knobs that are held though the guest's journal does not say so. Raises
        ProcessLookupError."""
        uuid, now_s = domain.description.uuid, self._clock()
        last, is_unwritten = self._last.get(uuid), self._knob in unwritten
        # Most guests in most ticks: the same domain says the same of what is held.
        may_wait = last is not None and not (last.is_held or is_unwritten)
        if last and may_wait and last.domain is domain and now_s < last.next_s:
            return last.value
        applied = domain.applied
        held = applied.of(self._knob) if applied else None
        is_new = last is None or last.domain.generation != domain.generation
        is_held = is_unwritten or (held is not None and held.controller != RESERVED)
        if is_new:
            self._forget(uuid)
        place = (last.place if last and not is_new else None) or self._find(domain)
        value = self._look(place, cast(Seen, held.value) if held else None, stays=is_held)
        self._last[uuid] = _Look(domain, place, value, self._next_s(last, is_new, now_s), is_held)
        return value

    def _look(self, place: Place | None, ours: Seen | None, *, stays: bool) -> Seen:
        """`stays`: it is looked at again in the next tick."""
        if not place:
            return self._nothing
        try:
            value = self._read(place, ours)
        except ProcessLookupError:
            place.close()
            raise
        if not stays:
            place.close()
        return value

    def _next_s(self, last: _Look[Place, Seen] | None, is_new: bool, now_s: float) -> float:
        if last is None or is_new:
            # Guests that are first seen together are not all looked at together ever after.
            return now_s + LOOK_EVERY_S * random.random()
        return now_s + LOOK_EVERY_S if now_s >= last.next_s else last.next_s

    def forget_others(self, present: Iterable[str]) -> None:
        for uuid in self._last.keys() - set(present):
            self._forget(uuid)

    def close(self) -> None:
        self.forget_others(())

    def _forget(self, uuid: str) -> None:
        last = self._last.pop(uuid, None)
        if last and last.place:
            last.place.close()
