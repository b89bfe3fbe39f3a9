# SPDX-License-Identifier: Apache-2.0
"""Journal, then act; and undo by the same path.

The order is the safety: whatever kills the agent between two of these lines, the journal in the
domain's metadata says what stood there before, and the next run or `vp-agent release` restores it.
"""

import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import cast

from nova_vp.core.types.action import Action, Change, Outcome, Renewal, Result
from nova_vp.core.types.guest import MemoryMove
from nova_vp.core.types.knob import Applied, Held, Knob, MemorySize, Value
from vp_agent.drivers.base import Actuator, ApplyFailed, DriverError, GuestGone, Journal

LOG = logging.getLogger(__name__)


class Executor:
    """The only code that changes a guest."""

    def __init__(self, journal: Journal, actuators: Mapping[Knob, Actuator], epoch: int) -> None:
        self._journal = journal
        self._actuators = actuators
        self._epoch = epoch
        self._put: dict[tuple[str, Knob], set[Value]] = {}
        """What this run has set, or may have: not every failure could be taken back."""

    @property
    def knobs(self) -> frozenset[Knob]:
        """Those that can be turned; one whose actuator does not offer it is only undone."""
        return frozenset(knob for knob, one in self._actuators.items() if knob in one.knobs)

    def apply(self, actions: Iterable[Action], at_s: float) -> tuple[Outcome, ...]:
        return tuple(self._apply(action, at_s) for action in actions)

    def _apply(self, action: Action, at_s: float) -> Outcome:
        done: list[tuple[Change, Held | None]] = []
        try:
            for change in action.changes:
                done.append((change, self._entry(change.guest_uuid).of(change.knob)))
                self._turn(change, action)
        except GuestGone:
            self._take_back(action, done)
            return Outcome(action, Result.FAILED, at_s, "the server is gone")
        except DriverError as exc:
            self._take_back(action, done)
            return Outcome(action, Result.FAILED, at_s, str(exc))
        return Outcome(action, Result.APPLIED, at_s)

    def renew(self, renewals: Iterable[Renewal]) -> None:
        """Limits that stand on. One that cannot be renewed now ends with its lease, if it is not
        renewed in a later tick."""
        for renewal in renewals:
            try:
                entry = self._entry(renewal.guest_uuid)
                if held := entry.of(renewal.knob):
                    self._journal.write(entry.holding(replace(held, until_s=renewal.until_s)))
            except DriverError as exc:
                LOG.warning("vp=%s a lease is not renewed: %s", renewal.guest_uuid, exc)

    def _turn(self, change: Change, action: Action) -> None:
        held = Held(
            knob=change.knob,
            value=change.to,
            original=change.original,
            controller=action.controller,
            action_id=action.id,
            until_s=change.until_s,
        )
        if change.is_restoring:
            self._give_back(change.guest_uuid, held)
        else:
            self._hold(change.guest_uuid, held)

    def _hold(self, guest_uuid: str, held: Held) -> None:
        actuator, before = self._actuator(held.knob), self._entry(guest_uuid)
        self._put.setdefault((guest_uuid, held.knob), set()).add(held.value)
        self._journal.write(before.holding(held))
        try:
            actuator.apply(guest_uuid, held.knob, held.value)
        except ApplyFailed:
            if held.knob is Knob.MEMORY:  # A move is refused before it begins, or not at all.
                self._keep(before)
            raise

    def _give_back(self, guest_uuid: str, held: Held) -> None:
        """Without waiting for memory, which is on its way then: `finish_moves` notes its end."""
        if held.knob is not Knob.MEMORY or not held.original:
            self._restore(guest_uuid, held)
            return
        back = replace(held, value=held.original, until_s=None)
        # Of this run from now on, whoever moved it: else the next tick would give it back again.
        entry = replace(self._entry(guest_uuid), epoch=self._epoch)
        self._journal.write(entry.holding(back))
        self._actuator(held.knob).apply(guest_uuid, held.knob, held.original)

    def finish_moves(self, moves: Mapping[str, MemoryMove]) -> None:
        """The journal forgets memory that is back; of what is not, the next undo tries again."""
        for uuid, move in moves.items():
            held = self._entry(uuid).of(Knob.MEMORY) if move.is_over else None
            if held is None or not move.to == held.value == held.original:
                continue
            try:
                if move.problem:
                    raise ApplyFailed(f"{move.problem}; `vp-agent release` tries again")
                self._forget(uuid, Knob.MEMORY)
            except DriverError as exc:
                LOG.warning("vp=%s its memory is not given back: %s", uuid, exc)

    def _restore(self, guest_uuid: str, held: Held) -> None:
        """Returns once all is as it was, memory too."""
        self._actuator(held.knob).restore(guest_uuid, held)
        self._forget(guest_uuid, held.knob)

    def _forget(self, guest_uuid: str, knob: Knob) -> None:
        self._put.pop((guest_uuid, knob), None)
        self._keep(self._entry(guest_uuid).without(knob))

    def _keep(self, entry: Applied) -> None:
        if entry.held:
            self._journal.write(entry)
        else:
            self._journal.drop(entry.guest_uuid)

    def _actuator(self, knob: Knob) -> Actuator:
        try:
            return self._actuators[knob]
        except KeyError:
            raise ApplyFailed(f"no actuator of this host turns {knob.value}") from None

    def _entry(self, guest_uuid: str) -> Applied:
        """What we hold of a guest now."""
        return self._journal.read().get(guest_uuid) or Applied(guest_uuid, self._epoch)

    def _take_back(self, action: Action, done: list[tuple[Change, Held | None]]) -> None:
        """A want is granted whole or not at all: the last change first, as the journal had it."""
        for change, before in reversed(done):
            try:
                if self._entry(change.guest_uuid).of(change.knob) == before:
                    continue  # Refused before it began.
                if before is not None:
                    self._hold(change.guest_uuid, before)
                else:
                    held = Held(change.knob, change.to, change.original, "", "")
                    self._give_back(change.guest_uuid, held)
            except GuestGone:
                continue  # And its limits with it.
            except DriverError as exc:
                LOG.warning("action=%s vp=%s not taken back: %s", action.id, change.guest_uuid, exc)

    def undo(self, entries: Iterable[Applied], *, waits: bool) -> tuple[str, ...]:
        """Back to the values before us, memory last, since it takes long; `waits`: until it is
        back. Returns the guests that could not be restored."""
        todo = tuple(entries)
        self._begin_to_grow(todo)
        slow = self._restore if waits else self._give_back
        failed = [a.guest_uuid for a in todo if not self._undo(_quick(a), self._restore)]
        failed += [a.guest_uuid for a in todo if not self._undo(_slow(a), slow)]
        return tuple(dict.fromkeys(failed))

    def _begin_to_grow(self, entries: Collection[Applied]) -> None:
        """Guests that get memory back take it all at the same time: each is waited for later."""
        found = ((entry.guest_uuid, entry.of(Knob.MEMORY_SIZE)) for entry in entries)
        shrunk = [(uuid, held) for uuid, held in found if held is not None]
        for uuid, held in shrunk if len(shrunk) > 1 else ():
            with contextlib.suppress(DriverError):  # The restore says why.
                self._actuator(held.knob).apply(uuid, held.knob, held.original)

    def release_guest(self, applied: Applied) -> bool:
        """Before the guest leaves this host: all goes back but its memory, which is laid anew where
        it arrives. Whether nothing of ours is left."""
        is_back = self._undo(_quick(applied), self._restore)
        try:
            if applied.of(Knob.MEMORY):
                self._forget(applied.guest_uuid, Knob.MEMORY)
        except DriverError as exc:
            LOG.error("vp=%s its journal could not be cleared: %s", applied.guest_uuid, exc)
            return False
        return is_back

    def _undo(self, applied: Applied, restore: Callable[[str, Held], None]) -> bool:
        """Knob by knob, so that one that fails keeps no other from going back."""
        is_back = True
        for held in applied.held:
            try:
                restore(applied.guest_uuid, held)
            except GuestGone:
                LOG.info("vp=%s is gone: nothing to undo", applied.guest_uuid)
                return True
            except DriverError as exc:
                LOG.error("vp=%s could not be restored: %s", applied.guest_uuid, exc)
                is_back = False
        return is_back

    def forget_others(self, guest_uuids: Collection[str]) -> None:
        """Only these are here: what was put on others ended with them."""
        self._put = {key: values for key, values in self._put.items() if key[0] in guest_uuids}

    def drop_foreign(self, guest_uuids: Iterable[str]) -> None:
        """Somebody else changed these: what they changed stays as it is, and is forgotten; what
        still stands as we set it goes back.

        A journal that cannot be written now is seen and cleared in a later tick.
        """
        for uuid in guest_uuids:
            for held in self._entry(uuid).held:
                try:
                    self._drop_foreign(uuid, held)
                except DriverError as exc:
                    LOG.warning("vp=%s the journal stays for now: %s", uuid, exc)

    def _drop_foreign(self, uuid: str, held: Held) -> None:
        # Where memory lies is never exactly as asked, and nobody else moves it.
        ours = {held.value, *self._put.get((uuid, held.knob), ())}
        is_memory = held.knob is Knob.MEMORY
        now = None if is_memory else self._actuator(held.knob).read(uuid, held.knob)
        if is_memory or now in ours or _is_between(now, (*ours, held.original)):
            self._give_back(uuid, held)
        else:
            self._forget(uuid, held.knob)

    def expire_leases(self, now_s: float) -> tuple[str, ...]:
        """What was not renewed in time goes back. Returns the guests that had such; monotonic."""
        entries = self._journal.read().values()
        lapsed = tuple(over(one, now_s) for one in entries if _ended(one, now_s))
        self.undo(lapsed, waits=False)
        return tuple(applied.guest_uuid for applied in lapsed)


def over(applied: Applied, now_s: float) -> Applied:
    """Only what is held beyond its lease."""
    return replace(applied, held=tuple(_ended(applied, now_s)))


def _ended(applied: Applied, now_s: float) -> list[Held]:
    return [h for h in applied.held if h.until_s is not None and h.until_s <= now_s]


def _is_between(now: Value | None, ours: Iterable[Value]) -> bool:
    """A guest takes its time to get from one size to another."""
    if not isinstance(now, MemorySize):
        return False
    sizes = [cast(MemorySize, one) for one in ours]
    return min(sizes) <= now <= max(sizes)


def _quick(applied: Applied) -> Applied:
    return applied.without(Knob.MEMORY)


def _slow(applied: Applied) -> Applied:
    return replace(applied, held=tuple(h for h in applied.held if h.knob is Knob.MEMORY))
