# SPDX-License-Identifier: Apache-2.0
"""Calls of overlays on their way from whoever makes them to the tick's thread, and back.

Whoever asks waits on a thread of its own for the one answer. What is too much is refused there and
then, and costs the tick nothing: each overlay has a rate and so many calls that wait, and so has
the host; and which overlay is held off, the answer to its last call said. A call with an id that
was answered lately gets that answer again.
"""

import collections
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from nova_vp.core.types.overlay import Call, CallAnswer, Nack, Verb, held_off
from nova_vp.token_buckets import TokenBuckets

ANSWER_WITHIN_S = 4.0
"""vp-api waits a little longer."""
MOST_WAITING = 128
MOST_WAITING_OF_ONE = 16
CALLS_PER_S = 250.0
"""Of one overlay: what it may cost the agent. What is considered of it is `[controller_overlays]
calls_per_s`."""
BURST = 100.0
ANSWERS_KEPT_OF_ONE = 256
"""Overlay: calls of others cost no overlay its answers. vp-api lets a project make so many calls in
five seconds."""
KEPT_S = 30.0
_BUSY = "the agent does not answer now; try again"
_LATE = "the agent was told too late whether it is done; see `vp-agent status`"


@dataclass(slots=True)
class WaitingCall:
    call: Call
    answer: CallAnswer | None = None
    is_answered: threading.Event = field(default_factory=threading.Event)
    answered_at_s: float = 0.0


class CallQueue:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._arrived = threading.Event()
        self._waiting: dict[tuple[str, str], WaitingCall] = {}
        self._taken: dict[tuple[str, str], WaitingCall] = {}
        self._answered: dict[str, collections.OrderedDict[str, WaitingCall]] = {}
        """By overlay and id of the call."""
        self._rates = TokenBuckets(CALLS_PER_S, BURST, clock)
        self._held_off_until_s: dict[str, float] = {}
        """By overlay."""
        self._totals: collections.Counter[Nack | None] = collections.Counter()

    def ask(self, call: Call, within_s: float = ANSWER_WITHIN_S) -> CallAnswer:
        """Blocks until the tick's thread has answered. One that it has not begun with by then is
        withdrawn."""
        key = (call.overlay_id, call.id)
        with self._lock:
            one = self._known(key)
            if one is None:
                if refusal := self._refusal(call):
                    return self._counted(refusal)
                one = self._waiting[key] = WaitingCall(call)
        self._arrived.set()
        if not one.is_answered.wait(within_s):
            self._withdraw(key, one)
        return one.answer or CallAnswer(call.id, Nack.HOST_REFUSED, _LATE)

    def wait(self, within_s: float) -> None:
        """On the tick's thread: until there is something to answer, or somebody wakes it."""
        self._arrived.wait(within_s)

    def wake(self) -> None:
        self._arrived.set()

    def take(self) -> tuple[Call, ...]:
        """On the tick's thread, which answers all of them."""
        self._arrived.clear()
        with self._lock:
            self._taken, self._waiting = self._waiting, {}
            return tuple(one.call for one in self._taken.values())

    def answer(self, answers: Iterable[CallAnswer]) -> None:
        """To the calls taken last, in their order."""
        now_s = self._clock()
        with self._lock:
            for (key, one), answer in zip(self._taken.items(), answers, strict=True):
                one.answer, one.answered_at_s = self._counted(answer), now_s
                self._keep(*key, one)
                one.is_answered.set()
                if answer.held_off_s:
                    self._held_off_until_s[one.call.overlay_id] = now_s + answer.held_off_s
            self._taken = {}
            self._held_off_until_s = {
                overlay_id: until_s
                for overlay_id, until_s in self._held_off_until_s.items()
                if until_s > now_s
            }
            self._forget_old(now_s)

    def totals(self) -> dict[Nack | None, int]:
        """Answers since the agent started, by why they were refused; None: they were granted."""
        with self._lock:
            return dict(self._totals)

    def refuse(self, call: Call, nack: Nack, detail: str) -> CallAnswer:
        """Of an overlay that nobody knows."""
        with self._lock:
            self._totals[nack] += 1
        return CallAnswer(call.id, nack, detail)

    def _known(self, key: tuple[str, str]) -> WaitingCall | None:
        overlay_id, call_id = key
        of_overlay = self._answered.get(overlay_id)
        answered = of_overlay.get(call_id) if of_overlay else None
        one = self._waiting.get(key) or self._taken.get(key) or answered
        return None if one is None or _is_old(one, self._clock()) else one

    def _keep(self, overlay_id: str, call_id: str, one: WaitingCall) -> None:
        of_overlay = self._answered.setdefault(overlay_id, collections.OrderedDict())
        of_overlay[call_id] = one
        if len(of_overlay) > ANSWERS_KEPT_OF_ONE:
            of_overlay.popitem(last=False)

    def _forget_old(self, now_s: float) -> None:
        for of_overlay in self._answered.values():
            while of_overlay and _is_old(next(iter(of_overlay.values())), now_s):
                of_overlay.popitem(last=False)
        self._answered = {overlay_id: kept for overlay_id, kept in self._answered.items() if kept}

    def _refusal(self, call: Call) -> CallAnswer | None:
        held_off_s = self._held_off_until_s.get(call.overlay_id, 0.0) - self._clock()
        if held_off_s > 0.0 and call.verb is not Verb.RELEASE:
            return held_off(call.id, held_off_s)
        same = sum(1 for overlay_id, _ in self._waiting if overlay_id == call.overlay_id)
        if not self._rates.take(call.overlay_id):
            return _too_many(call, f"{CALLS_PER_S:.0f} calls per second are taken of an overlay")
        if same >= MOST_WAITING_OF_ONE:
            return _too_many(call, f"{MOST_WAITING_OF_ONE} calls of the overlay wait already")
        if len(self._waiting) >= MOST_WAITING:
            return _too_many(call, f"{MOST_WAITING} calls wait on this host already")
        return None

    def _withdraw(self, key: tuple[str, str], one: WaitingCall) -> None:
        with self._lock:
            if self._waiting.pop(key, None) is one:
                refusal = CallAnswer(one.call.id, Nack.HOST_REFUSED, _BUSY)
                one.answer = self._counted(refusal)
                one.is_answered.set()

    def _counted(self, answer: CallAnswer) -> CallAnswer:
        self._totals[answer.nack] += 1
        return answer


def _is_old(one: WaitingCall, now_s: float) -> bool:
    return one.answer is not None and now_s - one.answered_at_s > KEPT_S


def _too_many(call: Call, why: str) -> CallAnswer:
    return CallAnswer(call.id, Nack.TOO_MANY_CALLS, f"{why}; wait before the next one")
