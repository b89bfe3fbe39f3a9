# SPDX-License-Identifier: Apache-2.0
"""What the tick finds hopeless goes to the cluster: one thread, a slot with the latest decision.

The tick never waits for disk, libvirt or broker. An escalation is written down first and then sent
until it is acknowledged, later and later; it is dropped if its victim recovers before that. What
is sent, and how, is the sender's; what stands, the outbox's.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from nova_vp import wire
from nova_vp.core.types.decision import Decision, Escalation
from nova_vp.service import failpoints
from vp_agent.publish import escalation_message
from vp_agent.publish.host_info import HostInfo
from vp_agent.publish.outbox import AGAIN_S, Entry, Outbox, id_of

LOG = logging.getLogger(__name__)
CLOSE_TIMEOUT_S = 2.0
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
MEASURED = 8
"""Candidates whose dirty rate is measured, those that would bring most relief."""


class Sender(Protocol):
    def escalate(self, text: str) -> None:
        """Returns once the cluster has it. May block, and may raise anything: it is tried again.
        Raises wire.BadMessage: whoever got it does not take this one."""

    def close(self) -> None: ...


class DirtyRates(Protocol):
    def measure(self, guest_uuids: Sequence[str], stop: threading.Event) -> Mapping[str, float]:
        """KiB per second that guests write, of those that can be measured. May take seconds, but
        ends when `stop` is set. Never raises."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Latest:
    decision: Decision
    host_info: HostInfo


class Escalator:
    def __init__(
        self,
        outbox: Outbox,
        sender: Sender,
        rates: DirtyRates,
        host_info: Callable[[], HostInfo],
        epoch: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        dice: Callable[[], float] = random.random,
    ) -> None:
        """`host_info` is asked in the tick."""
        self._outbox = outbox
        self._sender = sender
        self._rates = rates
        self._host_info = host_info
        self._epoch = epoch
        self._clock = clock
        self._dice = dice
        self._rounds: dict[str, int] = {}
        """By the core's id: how often it was told anew."""
        self._wait_s = FIRST_WAIT_S
        self._due_s = 0.0
        self._is_failing = False
        self._is_full = False
        self._changed = threading.Condition()
        self._latest: _Latest | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="escalate", daemon=True)
        self._thread.start()

    def submit(self, decision: Decision) -> None:
        """From the tick; wakes the thread only where something stands."""
        if decision.escalations or len(self._outbox):
            with self._changed:
                self._latest = _Latest(decision, self._host_info())
                self._changed.notify()

    def stands(self, id: str) -> bool | None:
        """Whether the victim is still hurt; None: nobody knows yet, since this run is young."""
        return self._outbox.stands(id)

    def ended(self, id: str, outcome: str) -> None:
        """What the cluster made of it."""
        self._outbox.spend(id, self._clock(), is_helped=outcome == "completed")

    def close(self) -> None:
        """What is not acknowledged is in the file: the next run goes on with it."""
        self._stop.set()
        with self._changed:
            self._changed.notify()
        self._thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                latest = self._next()
                if latest is not None:
                    self._look(latest)
                self._send_due()
        finally:
            self._sender.close()
            self._rates.close()

    def _next(self) -> _Latest | None:
        """The latest decision that was not looked at, or None once something is due."""
        with self._changed:
            if self._latest is None and not self._stop.is_set():
                self._changed.wait(self._until_due_s())
            latest, self._latest = self._latest, None
            return latest

    def _until_due_s(self) -> float | None:
        return max(0.0, self._due_s - self._clock()) if self._outbox.waiting() else None

    def _look(self, latest: _Latest) -> None:
        """Which stand, which are new, which are over."""
        decision, now_s = latest.decision, self._clock()
        self._outbox.see(_hurt(decision), now_s)
        for ended in self._outbox.forget_ended(now_s):
            _tell_ended(ended)
        for one in decision.escalations:
            if one.candidates and self._outbox.find(one.victim_uuid, one.kind) is None:
                self._add(one, latest)

    def _add(self, one: Escalation, latest: _Latest) -> None:
        again = self._rounds.get(one.id, 0)
        id = id_of(latest.host_info.host, self._epoch, f"{one.id} {again}" if again else one.id)
        measured = [migrant.guest_uuid for migrant in one.candidates[:MEASURED]]
        rates = self._rates.measure(measured, self._stop)
        told = escalation_message.message(
            one, id, latest.decision, latest.host_info, self._epoch, rates
        )
        try:
            text = wire.encode(wire.ESCALATION_TOPIC, told)
        except wire.BadMessage as exc:
            LOG.error(
                "escalation=%s vp=%s cannot be sent to the cluster: %s",
                one.id,
                one.victim_uuid,
                exc,
            )
            text = ""
        is_kept = self._outbox.add(id, one.victim_uuid, one.kind, text, self._clock())
        if is_kept:
            self._rounds[one.id] = again + 1
            LOG.info("escalation=%s vp=%s stored for id %s", id, one.victim_uuid, one.id)
        elif not self._is_full:
            LOG.warning("too many open escalations: no further ones are sent")
        self._is_full = not is_kept

    def _send_due(self) -> None:
        waiting = self._outbox.waiting()
        if not waiting or self._stop.is_set() or self._clock() < self._due_s:
            return
        try:
            self._send(waiting[0])
        except Exception as exc:  # whatever the bus raises: the host goes on without it
            self._note_failure(exc)
        else:
            self._wait_s, self._due_s, self._is_failing = FIRST_WAIT_S, 0.0, False

    def _send(self, entry: Entry) -> None:
        failpoints.reach("before-escalation-sent")
        try:
            self._sender.escalate(entry.text)
        except wire.BadMessage as exc:
            # A vp-scheduler of another release may take what this one does not.
            LOG.error(
                "escalation=%s rejected by the cluster, escalated anew after %.0f s: %s",
                entry.id,
                AGAIN_S,
                exc,
            )
            self._outbox.spend(entry.id, self._clock(), is_helped=False)
            return
        failpoints.reach("after-escalation-sent")
        self._outbox.acknowledge(entry.id)
        LOG.info("escalation=%s vp=%s acknowledged by the cluster", entry.id, entry.victim)

    def _note_failure(self, exc: Exception) -> None:
        self._due_s = self._clock() + self._wait_s * (0.5 + self._dice())
        self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
        if not self._is_failing:
            LOG.warning("an escalation cannot be sent to the cluster, trying again: %r", exc)
        self._is_failing = True


def _hurt(decision: Decision) -> Collection[tuple[str, str]]:
    found = {(one.victim_uuid, one.kind.value) for one in decision.detections}
    return found | {(one.victim_uuid, one.kind.value) for one in decision.escalations}


def _tell_ended(entry: Entry) -> None:
    if entry.is_helped:
        LOG.info("escalation=%s vp=%s resolved by the cluster", entry.id, entry.victim)
    elif entry.is_spent:
        LOG.info(
            "escalation=%s vp=%s ended without effect, may be sent again", entry.id, entry.victim
        )
    elif entry.is_acknowledged:
        LOG.info("escalation=%s vp=%s no longer degraded, or gone", entry.id, entry.victim)
    else:
        LOG.info("escalation=%s vp=%s no longer degraded, never sent", entry.id, entry.victim)
