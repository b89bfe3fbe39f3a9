# SPDX-License-Identifier: Apache-2.0
"""The agent's straight line: read, decide, apply, confirm, publish. Start reading here.

Everything that decides is in `nova_vp.core.step`; everything that touches the host is a driver.
"""

import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from nova_vp.core.pipeline.confirm import confirm
from nova_vp.core.pipeline.revert import note_given_back
from nova_vp.core.step import step
from nova_vp.core.types.action import Outcome
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.knob import Knob, held_of
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.state import CoreState
from nova_vp.core.types.topology import Limits
from vp_agent.drivers.base import (
    HostUnavailable,
    Publisher,
)
from vp_agent.loop.between_ticks import Answered, Asked, BetweenTicks, refused
from vp_agent.loop.command_handler import CommandHandler
from vp_agent.loop.event_log import EventLog
from vp_agent.loop.migration_holds import MigrationHolds
from vp_agent.loop.picture import OwnHost, assemble, read_host
from vp_agent.loop.reconcile import expire_leases, reconcile
from vp_agent.loop.recorder import Recorder, Snapshot
from vp_agent.loop.reservation import originals
from vp_agent.loop.state import StateKeeper
from vp_agent.publish.escalator import Escalator
from vp_agent.publish.usage_sender import UsageSender

LOG = logging.getLogger(__name__)
GARBAGE_OBJECTS = 10_000
"""Made and not freed, before the collector looks for cycles: some ticks of a full host."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Who is told of what this host cannot mend, what it answers, and who bills."""

    escalator: Escalator
    migrations: MigrationHolds
    usage: UsageSender | None = None


class Tally(Protocol):
    """Who counts what ticks do."""

    def ticked(self, span_s: float, *, is_done: bool) -> None: ...

    def decided(self, decision: Decision, outcomes: Iterable[Outcome]) -> None: ...

    def applied(self, outcomes: Iterable[Outcome]) -> None:
        """Between two ticks."""


class Agent:
    def __init__(
        self,
        host: OwnHost,
        control: CommandHandler,
        publisher: Publisher,
        keeper: StateKeeper,
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
        self._between = BetweenTicks()
        self.state = state

    def tick(self, now_s: float) -> Decision:
        """One sample to one decision. Raises HostUnavailable: nothing was changed then."""
        picture, before, policy = self.picture(now_s), self.state, self._policy
        state, decision = step(before, picture, policy)
        self._host.executor.drop_foreign(decision.foreign)
        outcomes = self._host.executor.apply(decision.actions, now_s)
        self._host.memory.set_copy_rates(decision.copy_rate_kib_per_s)
        self._host.executor.renew(decision.renewals)
        self.state = confirm(state, outcomes, policy)
        self._between.begin(picture, decision, outcomes)
        self._reserve(picture)
        if self._recorder:
            self._recorder.record(Snapshot(policy, before, picture, decision, outcomes, self.state))
        self._control.show(decision, picture.revoked, picture.rejected)
        self._keeper.keep(state, now_s)
        self._event_log.log(decision, outcomes)
        self._publisher.publish(decision, outcomes)
        if self._cluster:
            self._cluster.escalator.submit(decision)
            if self._cluster.usage:
                self._cluster.usage.submit(decision)
        if self._tally:
            self._tally.decided(decision, outcomes)
        return decision

    def _reserve(self, picture: Picture) -> None:
        """So that no call waits for the journal."""
        if self._host.may_reserve:
            wanted = originals(picture, self._policy, self.state.foreign)
            self._host.journal.reserve_only(wanted)

    @property
    def limits(self) -> Limits:
        return self._host.limits

    def apply_config(self, policy: Policy, limits: Limits, interval_s: float) -> None:
        """The operator's new numbers, from the next tick on. From any thread."""
        self._host = replace(self._host, limits=limits)
        self._policy = policy
        self.interval_s = interval_s

    def picture(self, now_s: float) -> Picture:
        """The one picture of this tick: leases end, the host is read, what must not stand goes
        back. Raises HostUnavailable."""
        host, overrides = self._host, self._control.servers
        expire_leases(host.executor, now_s)
        reading = read_host(host.guests, host.counters, host.memory)
        holds = self._cluster.migrations if self._cluster else None
        reading, applied = reconcile(host, reading, overrides, holds, now_s)
        commanded = self._control.commanded()
        guests = overrides.mark(reading.guests, commanded.levels, now_s)
        latency = self._control.latency.of(guests, now_s)
        guests = host.memory.survey(guests, now_s)
        guests = host.balloon.survey(guests, held_of(applied, Knob.MEMORY_SIZE))
        reading = replace(reading, guests=guests, latency_reports=latency)
        knobs = host.executor.knobs
        told = self._control.overlays.by_id
        return assemble(reading, applied, commanded, knobs, host.limits, now_s, host.epoch, told)

    def run(
        self,
        stop: threading.Event,
        interval_s: float,
        beat: Callable[[], None],
        end: Callable[[], None],
    ) -> bool:
        """Tick until told to stop; then, or if a tick fails in a way nobody foresaw, give every
        guest back. Whether all are. `beat` renews the leases; `end` is called when no beat will
        follow, before memory is waited for. Neither must raise."""
        # What was imported lives for ever, and most of what a tick makes dies with the next one:
        # the garbage collector need not look for it in the middle of a tick.
        gc.freeze()
        gc.set_threshold(GARBAGE_OBJECTS)
        self.interval_s = interval_s
        next_s = time.monotonic()
        try:
            while not self._wait(stop, next_s):
                next_s = max(next_s + self.interval_s, time.monotonic())
                beat()
                self._tick_once()
                if self._control.release_requested():
                    self.give_back(waits=False)
        finally:
            end()
            if self.state.vps:
                self._keeper.save(self.state)
            is_all_back = self.give_back(waits=True)
        return is_all_back

    def _wait(self, stop: threading.Event, until_s: float) -> bool:
        """Calls of overlays are answered until the next tick is due; whether to stop. Whoever sets
        `stop` wakes the queue of calls."""
        while (left_s := until_s - time.monotonic()) > 0 and not stop.is_set():
            end_s = self._between.next_end_s - time.monotonic()
            self._control.calls.wait(max(0.0, min(left_s, end_s)))
            self.answer_calls(time.monotonic())
        return stop.is_set()

    def answer_calls(self, now_s: float) -> None:
        """Those that wait; and what was granted for a moment that is over goes back. The rest of a
        tick, what is measured or published, is the next one's."""
        control = self._control
        calls = control.calls.take()
        if not calls and now_s < self._between.next_end_s:
            return
        asked = Asked(calls, control.overlays.by_id, control.commanded().mode)
        try:
            done = self._between.answer(self._host, asked, self.state, self._policy, now_s)
        except HostUnavailable as exc:
            done = Answered(self.state, refused(calls, str(exc)))
        self.state = done.state
        if self._recorder and done.snapshot:
            self._recorder.record(done.snapshot)
        control.calls.answer(done.answers)
        self._event_log.log_outcomes(done.outcomes)
        if self._tally:
            self._tally.applied(done.outcomes)

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
            if waits:
                self._host.journal.reserve_only({}, most=sys.maxsize)
        except HostUnavailable as exc:
            LOG.error("libvirt does not answer (%s): run `vp-agent release` once it does", exc)
            self._control.released(False)
            return False
        if last := self._control.last():
            back = self.state.vps.keys() - set(failed)
            self.state = note_given_back(self.state, back, last.at_s, self._policy)
        self.state = replace(self.state, pending=())
        self._control.released(not failed)
        return not failed
