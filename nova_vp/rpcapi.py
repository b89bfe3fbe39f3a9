# SPDX-License-Identifier: Apache-2.0
"""RPC clients of what crosses processes, with their version history; servers: `rpcserver.py`.

How their calls travel is said in `rpctransport.py`. 1.x were unsigned calls, which are refused; the
methods below are those of 2.0.
"""

from collections.abc import Mapping
from typing import Any

import oslo_messaging

from nova_vp import wire
from nova_vp.rpctransport import CALL_TIMEOUT_S, Bus, Client
from nova_vp.signing.senders import Process, Sender

NO_LONGER_HURT = wire.NO_LONGER_HURT
"""Why a migration is not needed any more, from `prepare_migration`."""
MIGRATION_OUTCOMES = ("completed", "failed", "aborted", "timed-out", "refused", "withdrawn")

OVERLAY_CALL_TIMEOUT_S = 5.0
"""An application waits for the answer; its agent needs some milliseconds."""
ELSEWHERE_TIMEOUT_S = OVERLAY_CALL_TIMEOUT_S + 1.0
"""A monitor waits for the answer of another host, for which a vp-scheduler waits."""


class NobodyListens(Exception):
    """The broker is there, but no queue for the message. The text says what to do."""


class DigestAPI:
    """To every scheduler process.

    digest(text), a cast of a `wire.DIGEST_TOPIC` message, from each agent.
    profiles(text), a cast of a `wire.PROFILES` message, from any vp-scheduler.
    host_keys(text), a cast of a `wire.HOST_KEYS` message, from any vp-scheduler.
    """

    def __init__(self, bus: Bus) -> None:
        self._all = Client(bus, wire.DIGEST_TOPIC)

    def digest(self, text: str) -> None:
        """Raises oslo.messaging's exceptions where the broker is away."""
        self._all.cast("digest", text=text)

    def profiles(self, text: str) -> None:
        """Raises oslo.messaging's exceptions where the broker is away."""
        self._all.cast("profiles", text=text)

    def host_keys(self, text: str) -> None:
        """Raises oslo.messaging's exceptions where the broker is away."""
        self._all.cast("host_keys", text=text)


class ReportAPI:
    """To whichever vp-scheduler is free.

    report(text), a cast of a `wire.REPORT_TOPIC` message, from each agent.
    scheduler_started(), a cast from a scheduler process that has just started: whichever
    vp-scheduler gets it sends the hosts' keys and what it has learned to all (`DigestAPI`), and
    has all hosts repeat their digests (`AgentAPI.republish_digest`), as fast as their number
    allows.

    A cast rather than a notification: the notifier hides failures from the sender, logs the whole
    message then, and creates the queue where nobody may ever consume it.
    """

    def __init__(self, bus: Bus) -> None:
        # Otherwise a broker drops what no queue is there for, as after its restart, in silence.
        must_arrive = oslo_messaging.TransportOptions(at_least_once=True)
        self._client = Client(bus, wire.REPORT_TOPIC, must_arrive)

    def report(self, text: str) -> None:
        """Raises oslo.messaging's exceptions where the broker is away, and NobodyListens."""
        self._cast("report", text=text)

    def scheduler_started(self) -> None:
        """Raises oslo.messaging's exceptions where the broker is away, and NobodyListens."""
        self._cast("scheduler_started")

    def _cast(self, method: str, **arguments: str) -> None:
        try:
            self._client.cast(method, **arguments)
        except oslo_messaging.MessageUndeliverable as exc:
            raise NobodyListens(
                "no vp-scheduler listens on this broker; hosts are placed by, but not shown: "
                "start one, or check that its [bus] transport_url is the same"
            ) from exc


class EscalationAPI:
    """From an agent whose node has nothing left to whichever vp-scheduler is free.

    escalate(text), a call with a `wire.ESCALATION_TOPIC` message.
    """

    def __init__(self, bus: Bus) -> None:
        """`bus`: one that waits for answers."""
        self._client = Client(bus, wire.ESCALATION_TOPIC)

    def escalate(self, text: str) -> None:
        """Returns once the ledger has it: what raises may have arrived or not, and is sent again.

        Raises wire.BadMessage as the receiver's refusal, oslo.messaging's exceptions otherwise.
        """
        self._client.call("escalate", lambda who: who.process is Process.SCHEDULER, text=text)


class UsageAPI:
    """From an agent that has something to bill to whichever vp-scheduler is free.

    usage(text), a call with a `wire.USAGE_TOPIC` message.
    """

    def __init__(self, bus: Bus) -> None:
        """`bus`: one that waits for answers."""
        self._client = Client(bus, wire.USAGE_TOPIC)

    def usage(self, text: str) -> Mapping[str, str]:
        """Returns once the database has it: by server that was left out, why. What raises may have
        arrived or not, and is sent again.

        Raises wire.BadMessage as the receiver's refusal, oslo.messaging's exceptions otherwise.
        """
        return dict(
            self._client.call("usage", lambda who: who.process is Process.SCHEDULER, text=text)
        )


class OverlayAPI:
    """From an agent on whose host a monitor calls for servers on other hosts, to whichever
    vp-scheduler is free.

    call_elsewhere(text), a call with a `wire.OVERLAY_CALL` message.
    """

    def __init__(self, bus: Bus) -> None:
        """`bus`: one that waits for answers."""
        # Else nobody would say that no vp-scheduler of this release was ever there.
        must_arrive = oslo_messaging.TransportOptions(at_least_once=True)
        self._client = Client(bus, wire.OVERLAY_CALL, must_arrive)

    def call_elsewhere(self, text: str) -> str:
        """A `wire.OVERLAY_ANSWER` message. A call that is repeated with its id is carried out once.

        Raises wire.BadMessage as the receiver's refusal, NobodyListens, and oslo.messaging's
        exceptions otherwise.
        """
        try:
            answer = self._client.call(
                "call_elsewhere",
                lambda who: who.process is Process.SCHEDULER,
                ELSEWHERE_TIMEOUT_S,
                text=text,
            )
        except oslo_messaging.MessageUndeliverable as exc:
            raise NobodyListens("no vp-scheduler takes calls of overlays") from exc
        return str(answer)


class AgentAPI:
    """To agents.

    set_mode(mode), accept(action_id), reject(action_id, by, why), undo(action_id): calls to one
    host, from vp-api. `mode` may be `cloud_modes.NOT_SET`.
    set_overrides(text): a call from vp-api or a cast from vp-scheduler to one host with a
    `wire.OVERRIDES` message: all that is overridden of the servers it names.
    set_facts(text): a cast from vp-scheduler to one host with a `wire.FACTS` message.
    set_modes(text): a cast from vp-scheduler to one host with a `wire.MODES` message.
    report_latency(text): a cast from vp-api to one host with a `wire.LATENCY` message.
    set_overlays(text): a call from vp-api or a cast from vp-scheduler to one host with a
    `wire.OVERLAYS` message: all overlays with servers there.
    call_overlay(text): a call from vp-api or vp-scheduler to one host with a `wire.OVERLAY_CALL`
    message.
    prepare_migration and end_migration: calls to one host that may be repeated, from vp-scheduler.
    republish(within_s), a cast to all: every agent sends its digest and report again at a random
    moment within that time. republish_digest(within_s): nobody needs the reports.
    """

    def __init__(self, bus: Bus) -> None:
        """`bus`: one that waits for answers, for whoever calls."""
        self._client = Client(bus, wire.AGENT_TOPIC)

    def set_mode(self, host: str, mode: str) -> None:
        """Returns once the agent has remembered it. Raises MessagingTimeout: no agent there."""
        self._call(host, "set_mode", mode=mode)

    def accept(self, host: str, action_id: str) -> None:
        """Raises the agent's UnknownAction or NotAdvising, or MessagingTimeout."""
        self._call(host, "accept", action_id=action_id)

    def reject(self, host: str, action_id: str, by: str, why: str) -> None:
        """Raises the agent's UnknownAction or NotRejectable, or MessagingTimeout."""
        self._call(host, "reject", action_id=action_id, by=by, why=why)

    def prepare_migration(
        self, host: str, escalation_id: str, uuid: str, hold_s: float
    ) -> dict[str, Any]:
        """`ready`: nothing of ours is on that guest any more, and it is left alone until
        `end_migration`, or for `hold_s`; else `why` not. Raises MessagingTimeout."""
        asked = {"escalation_id": escalation_id, "uuid": uuid, "hold_s": hold_s}
        return dict(self._call(host, "prepare_migration", **asked))

    def end_migration(
        self, host: str, escalation_id: str, uuid: str, outcome: str, detail: str
    ) -> None:
        """`outcome`: one of `MIGRATION_OUTCOMES`. Raises MessagingTimeout."""
        self._call(
            host,
            "end_migration",
            escalation_id=escalation_id,
            uuid=uuid,
            outcome=outcome,
            detail=detail,
        )

    def set_overrides(self, host: str, text: str) -> int | None:
        """Returns once the agent has remembered them: None. Or it has newer ones and ignores these:
        the version that holds there. May be repeated.

        Raises wire.BadMessage as the agent's refusal, or MessagingTimeout.
        """
        newer = self._call(host, "set_overrides", text=text)
        return newer if isinstance(newer, int) else None

    def tell_overrides(self, host: str, text: str) -> None:
        """Does not wait for the agent."""
        self._client.prepare(server=host).cast("set_overrides", text=text)

    def tell_facts(self, host: str, text: str) -> None:
        """Does not wait for the agent."""
        self._client.prepare(server=host).cast("set_facts", text=text)

    def tell_modes(self, host: str, text: str) -> None:
        """Does not wait for the agent."""
        self._client.prepare(server=host).cast("set_modes", text=text)

    def report_latency(self, host: str, text: str) -> None:
        """Does not wait for the agent."""
        self._client.prepare(server=host).cast("report_latency", text=text)

    def set_overlays(self, host: str, text: str) -> int | None:
        """As `set_overrides`."""
        newer = self._call(host, "set_overlays", text=text)
        return newer if isinstance(newer, int) else None

    def tell_overlays(self, host: str, text: str) -> None:
        """Does not wait for the agent."""
        self._client.prepare(server=host).cast("set_overlays", text=text)

    def call_overlay(self, host: str, text: str) -> str:
        """A `wire.OVERLAY_ANSWER` message, which may be none: it is the agent's. A call that is
        repeated with its id is carried out once.

        Raises wire.BadMessage as the agent's refusal, or MessagingTimeout.
        """
        return str(self._call(host, "call_overlay", OVERLAY_CALL_TIMEOUT_S, text=text))

    def undo(self, host: str, action_id: str) -> None:
        """Returns once the agent has taken the order. Raises its UnknownAction or NotInForce, or
        MessagingTimeout."""
        self._call(host, "undo", action_id=action_id)

    def republish(self, within_s: float) -> None:
        self._client.cast("republish", within_s=within_s)

    def republish_digest(self, within_s: float) -> None:
        self._client.cast("republish_digest", within_s=within_s)

    def _call(
        self, host: str, method: str, timeout_s: float = CALL_TIMEOUT_S, /, **arguments: Any
    ) -> Any:
        agent = Sender(Process.AGENT, host)
        client = self._client.prepare(server=host)
        return client.call(method, lambda who: who == agent, timeout_s, **arguments)


class AnswerAPI:
    """To whoever has called and waits: `nova_vp.answers`."""

    def __init__(self, bus: Bus) -> None:
        self._client = Client(bus, wire.ANSWER_TOPIC)

    def answer(self, address: str, arguments: Mapping[str, Any]) -> None:
        """`address`: as the call gave it. Raises oslo.messaging's exceptions, wire.BadMessage."""
        self._client.prepare(server=address).cast("answer", **arguments)
