# SPDX-License-Identifier: Apache-2.0
"""The agent's straight line: read, decide, apply, confirm, publish. Start reading here.

Everything that decides is in `nova_vp.core.step`; everything that touches the host is a driver.
"""

import gc
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from nova_vp.core.pipeline.confirm import confirm
from nova_vp.core.pipeline.revert import note_given_back
from nova_vp.core.step import step
from nova_vp.core.types.action import Outcome
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.guest import Guest, Unmanaged
from nova_vp.core.types.knob import Applied, Held, Knob
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.state import CoreState
from nova_vp.core.types.topology import Limits
from vp_agent.drivers.base import (
    CountersDriver,
    GuestsDriver,
    HostUnavailable,
    Journal,
    MemoryMover,
    Publisher,
)
from vp_agent.drivers.journal_entry import NEVER
from vp_agent.loop.command_handler import CommandHandler
from vp_agent.loop.event_log import EventLog
from vp_agent.loop.executor import Executor
from vp_agent.loop.migration_holds import MigrationHolds
from vp_agent.loop.recorder import Recorder, Snapshot
from vp_agent.loop.state import ProfileKeeper
from vp_agent.publish.escalator import Escalator

LOG = logging.getLogger(__name__)
GARBAGE_OBJECTS = 10_000
"""Made and not freed, before the collector looks for cycles: some ticks of a full host."""


@dataclass(frozen=True, slots=True)
class OwnHost:
    """This host, as the drivers give it."""

    guests: GuestsDriver
    counters: CountersDriver
    memory: MemoryMover
    journal: Journal
    executor: Executor
    epoch: int
    last_epoch: int
    """Of the run before this one on this host: what it journalled is ours to restore exactly."""
    limits: Limits = field(default_factory=Limits)
    """What its memory bears."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Who is told of what this host cannot mend, and what is ordered in return."""

    escalator: Escalator
    migrations: MigrationHolds


class Tally(Protocol):
    """Who counts what ticks do."""

    def ticked(self, span_s: float, *, is_done: bool) -> None: ...

    def decided(self, decision: Decision, outcomes: Iterable[Outcome]) -> None: ...


class Agent:
    def __init__(
        self,
        host: OwnHost,
        control: CommandHandler,
        publisher: Publisher,
        keeper: ProfileKeeper,
        policy: Policy,
        state: CoreState,
        recorder: Recorder | None = None,
        cluster: Cluster | None = None,
        tally: Tally | None = None,
    ) -> None:
        self._host = host
        self._control = control
        self._publisher = publisher
        self._keeper = keeper
        self._policy = policy
        self._recorder = recorder
        self._cluster = cluster
        self._tally = tally
        self.interval_s = 0.0
        """Between the beginnings of two ticks of `run`."""
        self._event_log = EventLog()
        self.state = state

    def tick(self, now_s: float) -> Decision:
        """One sample to one decision. Raises HostUnavailable: nothing was changed then."""
        picture, before, policy = self.read(now_s), self.state, self._policy
        state, decision = step(before, picture, policy)
        self._host.executor.drop_foreign(decision.foreign)
        outcomes = self._host.executor.apply(decision.actions, now_s)
        self._host.memory.set_copy_rates(decision.copy_rate_kib_per_s)
        self.state = confirm(state, outcomes)
        if self._recorder:
            self._recorder.record(Snapshot(policy, before, picture, decision, outcomes, self.state))
        self._control.show(decision, picture.revoked)
        self._keeper.keep(state, now_s)
        self._event_log.log(decision, outcomes)
        self._publisher.publish(decision, outcomes)
        if self._cluster:
            self._cluster.escalator.submit(decision)
        if self._tally:
            self._tally.decided(decision, outcomes)
        return decision

    @property
    def limits(self) -> Limits:
        return self._host.limits

    def apply_config(self, policy: Policy, limits: Limits, interval_s: float) -> None:
        """The operator's new numbers, from the next tick on. From any thread."""
        self._host = replace(self._host, limits=limits)
        self._policy = policy
        self.interval_s = interval_s

    def read(self, now_s: float) -> Picture:
        """The one picture of this tick. Raises HostUnavailable."""
        self._end_leases(now_s)
        guests = self._host.guests.read()
        self._host.executor.forget_others({guest.uuid for guest in guests})
        readings = self._host.counters.read(self._host.guests.threads())
        moves = self._host.memory.moves()
        self._host.executor.finish_moves(moves)
        guests, applied = self._undo_strangers(guests)
        guests, applied = self._give_back_opted_out(guests, applied)
        guests, applied = self._leave_migrants(guests, applied, now_s)
        orders = self._control.orders()
        return Picture(
            at_s=now_s,
            mode=orders.mode,
            topology=self._host.guests.topology(),
            guests=self._host.memory.survey(
                self._control.servers.mark(guests, orders.mode, now_s), now_s
            ),
            readings=readings,
            applied=applied,
            approved=orders.approved,
            revoked=orders.revoked,
            knobs=self._host.executor.knobs,
            memory_moves=moves,
            limits=self._host.limits,
            epoch=self._host.epoch,
        )

    def _end_leases(self, now_s: float) -> None:
        """The core renews what it still wants; after a hang it may have come too late."""
        lapsed = self._host.executor.expire_leases(now_s)
        for uuid in sorted(lapsed):
            LOG.warning("vp=%s not renewed in time, and given back", uuid)

    def _undo_strangers(
        self, guests: tuple[Guest, ...]
    ) -> tuple[tuple[Guest, ...], dict[str, Applied]]:
        """What another run wrote (a crash, an arriving migrant) goes back before we decide.

        A guest that is still arriving takes no change; its turn comes once it is here.
        """
        entries = self._host.journal.read()
        ours = {uuid: a for uuid, a in entries.items() if a.epoch == self._host.epoch}
        if len(ours) == len(entries):
            return guests, ours
        here = {guest.uuid for guest in guests if guest.unmanaged is not Unmanaged.MIGRATING}
        strangers = here & (entries.keys() - ours.keys())
        if not strangers:
            return guests, ours
        found = (
            to_undo(entries[guest.uuid], guest, self._host.last_epoch)
            for guest in guests
            if guest.uuid in strangers
        )
        self._host.executor.undo(found, waits=False)
        for uuid in sorted(strangers):
            LOG.info("vp=%s what another run had applied is undone", uuid)
        return self._host.guests.read(), ours

    def _give_back_opted_out(
        self, guests: tuple[Guest, ...], applied: dict[str, Applied]
    ) -> tuple[tuple[Guest, ...], dict[str, Applied]]:
        """Those that somebody wants left alone bear nothing of ours, from the order on."""
        opted_out = self._control.servers.opted_out(guests)
        ours = [not_on_its_way(applied[uuid]) for uuid in opted_out & applied.keys()]
        ours = [entry for entry in ours if entry.held]
        if not ours:
            return guests, applied
        failed = self._host.executor.undo(ours, waits=False)
        given_back = sorted({entry.guest_uuid for entry in ours} - set(failed))
        for uuid in given_back:
            LOG.info("vp=%s left alone by order, and given back", uuid)
        left = self._host.journal.read()
        return self._host.guests.read(), {u: left[u] for u in applied if u in left}

    def _leave_migrants(
        self, guests: tuple[Guest, ...], applied: dict[str, Applied], now_s: float
    ) -> tuple[tuple[Guest, ...], dict[str, Applied]]:
        """Those that the cluster migrates are let go of first, and left alone."""
        if self._cluster is None:
            return guests, applied
        here = {guest.uuid for guest in guests}
        if self._cluster.migrations.carry_out(lambda uuid: self._release_guest(uuid, here), now_s):
            guests = self._host.guests.read()
            left = self._host.journal.read()
            applied = {uuid: held for uuid, held in applied.items() if uuid in left}
        return self._cluster.migrations.mark(guests, now_s), applied

    def _release_guest(self, uuid: str, here: Collection[str]) -> str:
        """Why not; empty: nothing of ours is on it. Raises HostUnavailable."""
        if uuid not in here:
            return "it does not run on this host"
        if self._control.servers.is_opted_out(uuid):
            return "somebody ordered that nova-vp leave it alone"
        held = self._host.journal.read().get(uuid)
        self._host.memory.abort(uuid, "it is about to leave this host")
        if held is not None and not self._host.executor.release_guest(held):
            return "its settings could not be taken back; see the agent's log"
        return ""

    def run(self, stop: threading.Event, interval_s: float, beat: Callable[[], None]) -> bool:
        """Tick until told to stop; then, or if a tick fails in a way nobody foresaw, give every
        guest back. Whether all are. `beat` renews the leases; it must not raise."""
        # What was imported lives for ever, and most of what a tick makes dies with the next one:
        # the garbage collector need not look for it in the middle of a tick.
        gc.freeze()
        gc.set_threshold(GARBAGE_OBJECTS)
        self.interval_s = interval_s
        next_s = time.monotonic()
        try:
            while not stop.wait(max(0.0, next_s - time.monotonic())):
                next_s = max(next_s + self.interval_s, time.monotonic())
                beat()
                self._tick_once()
                if self._control.release_requested():
                    self.give_back(waits=False)
        finally:
            if self.state.vps:
                self._keeper.save(self.state)
            is_all_back = self.give_back(waits=True)
        return is_all_back

    def _tick_once(self) -> None:
        begun_s = time.monotonic()
        is_done = True
        try:
            self.tick(begun_s)
        except HostUnavailable as exc:
            is_done = False
            self._event_log.unavailable(exc)
        if self._tally:
            self._tally.ticked(time.monotonic() - begun_s, is_done=is_done)

    def give_back(self, *, waits: bool) -> bool:
        """Every guest to the values that stood there before us; whether all are there. Memory is
        on its way back, or, with `waits`, there."""
        try:
            failed = self._host.executor.undo(self._host.journal.read().values(), waits=waits)
        except HostUnavailable as exc:
            LOG.error("libvirt is away (%s): run `vp-agent release` once it is back", exc)
            self._control.released(False)
            return False
        if last := self._control.last():
            back = self.state.vps.keys() - set(failed)
            self.state = note_given_back(self.state, back, last.at_s)
        self.state = replace(self.state, pending=())
        self._control.released(not failed)
        return not failed


def not_on_its_way(entry: Applied) -> Applied:
    """Without memory that is going back already."""
    return replace(entry, held=tuple(held for held in entry.held if held.value != held.original))


def to_undo(entry: Applied, guest: Guest, last_epoch: int) -> Applied:
    """What to restore: exactly the original on this host, Nova's bound for a migrant.

    A journal that travelled names CPUs and nodes of the host it came from.
    """
    if entry.epoch == last_epoch != NEVER:
        return entry
    return replace(entry, held=tuple(_to_bound(held, guest) for held in entry.held))


def _to_bound(held: Held, guest: Guest) -> Held:
    if held.knob is Knob.PLACEMENT:
        return replace(held, original=(guest.allowed_cpus,))
    # Its memory was laid anew as it arrived.
    return replace(held, original=()) if held.knob is Knob.MEMORY else held
