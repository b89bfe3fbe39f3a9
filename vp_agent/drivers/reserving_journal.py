# SPDX-License-Identifier: Apache-2.0
"""A journal that knows beforehand what may be changed, so that a change need not wait for it.

Writing libvirt's metadata takes longer than all else that a call of an overlay needs. Undo needs
the original alone, so originals of an overlay's servers are written when it is registered. What
holds since then, its leases too, this process remembers; should it die, everything in the domain's
metadata goes back to its original all the same, changed or not.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from nova_vp.core.types.knob import Applied, Held, Knob, Value
from vp_agent.drivers.base import DriverError, Journal
from vp_agent.drivers.journal_entry import RESERVED

LOG = logging.getLogger(__name__)
MOST_AT_ONCE = 4
"""Each takes some milliseconds of the tick."""
Originals = Mapping[Knob, Value]
Unwritten = dict[str, frozenset[Knob]]
_NONE: Originals = MappingProxyType({})


class _Read(NamedTuple):
    stored: Mapping[str, Applied]
    """What the inner journal said."""
    whole: Mapping[str, Applied]
    """With what holds and is not written."""


class ReservingJournal:
    """Implements `Journal` on top of another one. For one thread."""

    def __init__(self, inner: Journal, epoch: int, unwritten: Unwritten | None = None) -> None:
        """`unwritten`: kept up to date, what holds of guests of which the inner one does not say
        all."""
        self._inner = inner
        self._unwritten: Unwritten = {} if unwritten is None else unwritten
        self._epoch = epoch
        self._reserved: dict[str, Originals] = {}
        self._held: dict[str, Applied] = {}
        """What holds, of guests with something reserved."""
        self._last: _Read | None = None
        """None: something of ours has changed since then."""

    def read(self) -> Mapping[str, Applied]:
        stored = self._inner.read()
        if not self._reserved:
            return stored
        if self._last is None or self._last.stored is not stored:
            for uuid in self._reserved.keys() - stored.keys():  # It ended, or another QEMU runs it.
                self._forget(uuid)
            free = {uuid: one for uuid, one in stored.items() if uuid not in self._reserved}
            self._last = _Read(stored, MappingProxyType({**free, **self._held}))
        return self._last.whole

    def write(self, applied: Applied) -> None:
        uuid = applied.guest_uuid
        stored = self._inner.read().get(uuid) if uuid in self._reserved else None
        if stored is None:
            self._forget(uuid)
            self._inner.write(applied)
            return
        if not self._says_all(stored, applied):
            self._inner.write(self._with_reserved(applied))
        self._hold(applied)

    def drop(self, guest_uuid: str) -> None:
        stored = self._inner.read().get(guest_uuid) if guest_uuid in self._reserved else None
        if stored is None:
            self._forget(guest_uuid)
            self._inner.drop(guest_uuid)
            return
        nothing = Applied(guest_uuid, self._epoch)
        if not self._says_all(stored, nothing):
            self._inner.write(self._with_reserved(nothing))
        self._held.pop(guest_uuid, None)
        self._unwritten.pop(guest_uuid, None)
        self._last = None

    def reserve_only(self, wanted: Mapping[str, Originals], most: int = MOST_AT_ONCE) -> None:
        """Of these guests, and of no other, changes of these knobs from these originals need not be
        written. `most`: guests that are written now; the others follow next time. Changes of one
        that could not be written are journalled as they are made."""
        self.read()  # Forgets who is gone.
        due = [u for u in self._reserved if u not in wanted]
        due += [u for u, originals in wanted.items() if originals != self._reserved.get(u)]
        for uuid in due[:most]:
            self.reserve(uuid, wanted.get(uuid, _NONE))

    def reserve(self, guest_uuid: str, originals: Originals = _NONE) -> None:
        """Only these, or nothing any more."""
        before = self._reserved.get(guest_uuid, _NONE)
        if originals == before:
            return
        held = self.read().get(guest_uuid) or Applied(guest_uuid, self._epoch)
        self._reserved[guest_uuid] = dict(originals)
        try:
            self._store(self._with_reserved(held))
        except DriverError as exc:
            LOG.warning("vp=%s originals are not journalled beforehand: %s", guest_uuid, exc)
            originals = before  # As it is stored.
        self._forget(guest_uuid)
        if originals:
            self._reserved[guest_uuid] = originals
            if held.held:
                self._hold(held)

    def _store(self, entry: Applied) -> None:
        if entry.held:
            self._inner.write(entry)
        else:
            self._inner.drop(entry.guest_uuid)

    def _with_reserved(self, applied: Applied) -> Applied:
        """What holds, and what may. What is reserved has no lease there: it is renewed without
        being written, and whoever ends leases beside a living agent must not find one over."""
        originals = self._reserved[applied.guest_uuid]
        held = tuple(
            replace(one, until_s=None) if one.knob in originals else one for one in applied.held
        )
        spare = tuple(
            Held(knob, original, original, RESERVED, "")
            for knob, original in originals.items()
            if applied.of(knob) is None
        )
        return replace(applied, epoch=self._epoch, held=(*held, *spare))

    def _says_all(self, stored: Applied, applied: Applied) -> bool:
        """Whether undoing what is stored undoes this, and nothing else."""
        originals = self._reserved[applied.guest_uuid]
        return all(
            one.knob in originals or applied.of(one.knob) is not None for one in stored.held
        ) and all(
            (there := stored.of(one.knob)) is not None
            and there.original == one.original
            and (there == one or (one.knob in originals and _is_silent(one)))
            for one in applied.held
        )

    def _hold(self, applied: Applied) -> None:
        self._last = None
        self._held[applied.guest_uuid] = applied
        self._unwritten[applied.guest_uuid] = frozenset(one.knob for one in applied.held)

    def _forget(self, uuid: str) -> None:
        self._last = None
        self._unwritten.pop(uuid, None)
        self._reserved.pop(uuid, None)
        self._held.pop(uuid, None)


def _is_silent(held: Held) -> bool:
    """Whether nobody needs to read its value: vCPUs that are placed apart are taken for somebody
    else's doing, unless the journal says so."""
    return held.knob is not Knob.PLACEMENT or len(held.value) == 1
