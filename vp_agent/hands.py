# SPDX-License-Identifier: Apache-2.0
"""Journal, then act, then confirm; and undo by the same path.

The order is the safety: whatever kills the agent between two of these lines, the journal in the
domain's metadata says what stood there before, and the next run or `vp-agent release` restores it.
"""

import logging
from collections.abc import Iterable

from nova_vp.core.model import Action, Applied, Outcome, Result
from vp_agent.drivers.base import Actuator, ApplyFailed, DriverError, GuestGone, Journal

LOG = logging.getLogger(__name__)


class Hands:
    """The only code that changes a guest."""

    def __init__(self, journal: Journal, actuator: Actuator, epoch: int) -> None:
        self._journal = journal
        self._actuator = actuator
        self._epoch = epoch

    def apply(self, actions: Iterable[Action], at_s: float) -> tuple[Outcome, ...]:
        return tuple(self._apply(action, at_s) for action in actions)

    def _apply(self, action: Action, at_s: float) -> Outcome:
        try:
            if action.is_undo and action.cpus == action.original_cpus:
                self._undo(self._entry(action))
            else:
                self._place(action)
        except GuestGone:
            return Outcome(action, Result.FAILED, at_s, "the guest is gone")
        except DriverError as exc:
            return Outcome(action, Result.FAILED, at_s, str(exc))
        return Outcome(action, Result.APPLIED, at_s)

    def _place(self, action: Action) -> None:
        before = self._journal.read().get(action.guest_uuid)
        self._journal.write(self._entry(action))
        try:
            self._actuator.place(action.guest_uuid, action.cpus)
            self._confirm(action)
        except ApplyFailed:
            self._take_back(action, before)
            raise

    def _confirm(self, action: Action) -> None:
        now = self._actuator.placement(action.guest_uuid)
        if now != action.cpus:
            raise ApplyFailed(
                f"the host placed it on CPUs {sorted(now)} instead of {sorted(action.cpus)}; "
                "see whether another tool pins it"
            )

    def _take_back(self, action: Action, before: Applied | None) -> None:
        """A change that failed half-way: back to what the journal said before it."""
        try:
            if before is None:
                self._undo(self._entry(action))
            else:
                self._journal.write(before)
                self._actuator.place(before.guest_uuid, before.cpus)
        except DriverError as exc:
            LOG.warning("%s: could not take back %s: %s", action.guest_uuid, action.id, exc)

    def _entry(self, action: Action) -> Applied:
        return Applied(
            guest_uuid=action.guest_uuid,
            cpus=action.cpus,
            original_cpus=action.original_cpus,
            controller=action.controller,
            action_id=action.id,
            epoch=self._epoch,
        )

    def undo(self, entries: Iterable[Applied]) -> tuple[str, ...]:
        """Back to the values before us. Returns the guests that could not be restored."""
        failed = []
        for applied in entries:
            try:
                self._undo(applied)
            except GuestGone:
                LOG.info("%s is gone: nothing to undo", applied.guest_uuid)
            except DriverError as exc:
                LOG.error("%s could not be restored: %s", applied.guest_uuid, exc)
                failed.append(applied.guest_uuid)
        return tuple(failed)

    def _undo(self, applied: Applied) -> None:
        self._actuator.restore(applied)
        self._journal.drop(applied.guest_uuid)

    def disown(self, guest_uuids: Iterable[str]) -> None:
        """Somebody else placed these: their journal goes, their placement stays.

        A journal that cannot be dropped now is seen and dropped in a later tick.
        """
        for uuid in guest_uuids:
            try:
                self._journal.drop(uuid)
            except DriverError as exc:
                LOG.warning("%s: the journal stays for now: %s", uuid, exc)
