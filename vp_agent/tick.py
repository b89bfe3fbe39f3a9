# SPDX-License-Identifier: Apache-2.0
"""The agent's straight line: read, decide, apply, confirm, publish. Start reading here.

Everything that decides is in `nova_vp.core.step`; everything that touches the host is a driver.
"""

import gc
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from nova_vp.core.memory import Memory, confirm
from nova_vp.core.model import Applied, Decision, Guest, Picture, Policy, Unmanaged
from nova_vp.core.step import step
from vp_agent.control import Control
from vp_agent.drivers.base import (
    CountersDriver,
    GuestsDriver,
    HostUnavailable,
    Journal,
    Publisher,
)
from vp_agent.hands import Hands
from vp_agent.state import ProfileKeeper
from vp_agent.story import Story

LOG = logging.getLogger(__name__)
GARBAGE_OBJECTS = 10_000
"""Made and not freed, before the collector looks for cycles: some ticks of a full host."""


@dataclass(frozen=True, slots=True)
class Host:
    """This host, as the drivers give it."""

    guests: GuestsDriver
    counters: CountersDriver
    journal: Journal
    hands: Hands
    epoch: int
    last_epoch: int
    """Of the run before this one on this host: what it journalled is ours to restore exactly."""


class Agent:
    def __init__(
        self,
        host: Host,
        control: Control,
        publisher: Publisher,
        keeper: ProfileKeeper,
        policy: Policy,
        memory: Memory,
    ) -> None:
        self._host = host
        self._control = control
        self._publisher = publisher
        self._keeper = keeper
        self._policy = policy
        self._story = Story()
        self.memory = memory

    def tick(self, now_s: float) -> Decision:
        """One sample to one decision. Raises HostUnavailable: nothing was changed then."""
        picture = self.read(now_s)
        memory, decision = step(self.memory, picture, self._policy)
        self._host.hands.disown(decision.foreign)
        outcomes = self._host.hands.apply(decision.actions, now_s)
        self.memory = confirm(memory, outcomes)
        self._control.show(decision)
        self._keeper.keep(memory.undisturbed, now_s)
        self._story.tell(decision, outcomes)
        self._publisher.publish(decision, outcomes)
        return decision

    def read(self, now_s: float) -> Picture:
        """The one picture of this tick. Raises HostUnavailable."""
        guests = self._host.guests.read()
        readings = self._host.counters.read(self._host.guests.threads())
        guests, applied = self._undo_strangers(guests)
        orders = self._control.orders()
        return Picture(
            at_s=now_s,
            mode=orders.mode,
            topology=self._host.guests.topology(),
            guests=guests,
            readings=readings,
            applied=applied,
            approved=orders.approved,
        )

    def _undo_strangers(
        self, guests: tuple[Guest, ...]
    ) -> tuple[tuple[Guest, ...], dict[str, Applied]]:
        """What another run wrote (a crash, an arriving migrant) goes back before we decide.

        A guest that is still arriving takes no change; its turn comes once it is here.
        """
        entries = self._host.journal.read()
        ours = {uuid: a for uuid, a in entries.items() if a.epoch == self._host.epoch}
        here = {guest.uuid for guest in guests if guest.unmanaged is not Unmanaged.MIGRATING}
        strangers = here & (entries.keys() - ours.keys())
        if not strangers:
            return guests, ours
        self._host.hands.undo(
            to_undo(entries[guest.uuid], guest, self._host.last_epoch)
            for guest in guests
            if guest.uuid in strangers
        )
        LOG.info("undid what another run had applied to: %s", ", ".join(sorted(strangers)))
        return self._host.guests.read(), ours

    def run(self, stop: threading.Event, interval_s: float, beat: Callable[[], None]) -> bool:
        """Tick until told to stop; then, or if a tick fails in a way nobody foresaw, give every
        guest back. Whether all are. `beat` renews the leases; it must not raise."""
        # What was imported lives for ever, and most of what a tick makes dies with the next one:
        # the garbage collector need not look for it in the middle of a tick.
        gc.freeze()
        gc.set_threshold(GARBAGE_OBJECTS)
        next_s = time.monotonic()
        try:
            while not stop.wait(max(0.0, next_s - time.monotonic())):
                next_s = max(next_s + interval_s, time.monotonic())
                beat()
                try:
                    self.tick(time.monotonic())
                except HostUnavailable as exc:
                    self._story.unavailable(exc)
                if self._control.release_requested():
                    self.give_back()
        finally:
            is_all_back = self.give_back()
        return is_all_back

    def give_back(self) -> bool:
        """Every guest to the values that stood there before us; whether all are there."""
        try:
            failed = self._host.hands.undo(self._host.journal.read().values())
        except HostUnavailable as exc:
            LOG.error("libvirt is away (%s): run `vp-agent release` once it is back", exc)
            self._control.released(False)
            return False
        self.memory = replace(self.memory, pending=())
        self._control.released(not failed)
        return not failed


def to_undo(entry: Applied, guest: Guest, last_epoch: int) -> Applied:
    """What to restore: exactly the original on this host, Nova's bound for a migrant.

    A journal that travelled names CPUs of the host it came from.
    """
    if entry.epoch == last_epoch:
        return entry
    return replace(entry, original_cpus=guest.allowed_cpus)
