# SPDX-License-Identifier: Apache-2.0
"""What the cluster orders of a guest that it is about to migrate: let go of it, and leave it alone.

Orders arrive on other threads and wait until the tick has carried them out; only the tick touches
guests. A hold ends when the cluster says so, or by itself. It does not outlive this process, and
need not: another run undoes what it finds before it does anything else.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from nova_vp.core.types.guest import Guest, Unmanaged
from nova_vp.service import failpoints
from nova_vp.wire import AGENT_BUSY, NO_LONGER_HURT
from vp_agent.commands import Prepared

LOG = logging.getLogger(__name__)
ANSWER_WITHIN_S = 8.0
"""The caller waits 10 s."""
MOST_HOLD_S = 24 * 3600.0


@dataclass(slots=True)
class PrepareRequest:
    """One guest to be let go of; the tick answers it."""

    escalation_id: str
    uuid: str
    hold_s: float
    answer: Prepared | None = None
    is_answered: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class Hold:
    escalation_id: str
    until_s: float


class MigrationHolds:
    """Implements `MigrationCommands`."""

    def __init__(
        self, stands: Callable[[str], bool | None], ended: Callable[[str, str], None]
    ) -> None:
        """`stands`: whether the victim of that escalation is still hurt, None where nobody knows
        yet. `ended`: is told its outcome."""
        self._stands = stands
        self._ended = ended
        self._lock = threading.Lock()
        self._orders: list[PrepareRequest] = []
        self._holds: dict[str, Hold] = {}

    def prepare(self, escalation_id: str, uuid: str, hold_s: float) -> Prepared:
        """Blocks until a tick has done it. May be asked again: the hold then begins anew."""
        stands = self._stands(escalation_id)
        if not stands:
            return Prepared(False, AGENT_BUSY if stands is None else NO_LONGER_HURT)
        failpoints.reach("before-prepared")
        order = PrepareRequest(escalation_id, uuid, min(max(hold_s, 0.0), MOST_HOLD_S))
        with self._lock:
            self._orders.append(order)
        order.is_answered.wait(ANSWER_WITHIN_S)
        with self._lock:
            if order in self._orders:
                self._orders.remove(order)
        answer = order.answer or Prepared(False, AGENT_BUSY)
        failpoints.reach("after-prepared")
        return answer

    def end(self, escalation_id: str, uuid: str, outcome: str, detail: str) -> None:
        """The guest is ours again if it is still here; nothing happens if it was not held."""
        self._ended(escalation_id, outcome)
        with self._lock:
            hold = self._holds.get(uuid)
            if hold is not None and hold.escalation_id == escalation_id:
                del self._holds[uuid]
        LOG.info(
            "escalation=%s vp=%s its migration is over: %s%s",
            escalation_id,
            uuid,
            outcome,
            f" ({detail})" if detail else "",
        )

    def carry_out(self, let_go: Callable[[str], str], now_s: float) -> bool:
        """On the tick's thread. `let_go`: all of ours off a guest, or why not; it may raise, and
        the next tick tries again. Whether anything was done."""
        with self._lock:
            orders = tuple(self._orders)
        for order in orders:
            why = let_go(order.uuid)
            with self._lock:
                if order not in self._orders:  # Nobody waits for it any more.
                    continue
                self._orders.remove(order)
                order.answer = Prepared(not why, why)
                if not why:
                    self._holds[order.uuid] = Hold(order.escalation_id, now_s + order.hold_s)
            order.is_answered.set()
            told = f"not ready to be migrated: {why}" if why else "released for its migration"
            LOG.info("escalation=%s vp=%s %s", order.escalation_id, order.uuid, told)
        return bool(orders)

    def mark(self, guests: tuple[Guest, ...], now_s: float) -> tuple[Guest, ...]:
        """The same guests, those that are held as not ours to touch."""
        with self._lock:
            for uuid in [u for u, hold in self._holds.items() if hold.until_s <= now_s]:
                LOG.warning("vp=%s no end of its migration was reported; it is managed again", uuid)
                del self._holds[uuid]
            holds = dict(self._holds)
        if not holds:
            return guests
        return tuple(_left_alone(g, holds[g.uuid]) if g.uuid in holds else g for g in guests)


def _left_alone(guest: Guest, hold: Hold) -> Guest:
    if guest.unmanaged:
        return guest
    detail = f"it is about to be live-migrated (escalation {hold.escalation_id})"
    return guest._replace(unmanaged=Unmanaged.LEAVING, unmanaged_detail=detail)
