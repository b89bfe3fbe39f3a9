# SPDX-License-Identifier: Apache-2.0
"""Commands to this host over the bus, and requests of schedulers to publish again.

Only translates: what a command does is `vp_agent.commands.Commands`'. Nothing here needs the broker
to be there; it listens as soon as there is one. Import late: it brings oslo.messaging.
"""

import math
import time
from collections.abc import Callable
from typing import Any, Protocol

from nova_vp import rpcapi, rpcserver, rpctransport, wire
from nova_vp.cloud_modes import NOT_SET
from nova_vp.core.types.overlay import CallAnswer, Nack
from nova_vp.core.types.policy import Mode
from nova_vp.message_filter import may_refuse
from nova_vp.overlay_message import LATE_S, answer_text, read_call
from nova_vp.printable import printable
from nova_vp.signing.envelope import Call
from nova_vp.signing.identity import Identity
from vp_agent.commands import (
    MOST_WHY,
    Commands,
    MigrationCommands,
    NotAdvising,
    NotInForce,
    NotRejectable,
    OverlayCommands,
    UnknownAction,
)
from vp_agent.loop import request_log
from vp_agent.loop.told_facts import ToldFacts

MAX_SPREAD_S = 60.0
FIRST_WITHIN_S = 2.0
THREADS = 4
"""Commands at once: one that waits for the tick must not hold up the others."""
MOST_ID, MOST_DETAIL = 64, 1024
CLOSE_TIMEOUT_S = 1.0
"""An idle listener of oslo.messaging takes up to 5 s to notice; no agent waits for that."""


class Republishing(Protocol):
    """What of the publisher is used. Thread-safe."""

    def republish(self, within_s: float) -> None:
        """Everything, at a random moment within that time."""

    def republish_digest(self, within_s: float) -> None:
        """The digest alone."""


class Endpoint:
    """`rpcapi.AgentAPI`, served."""

    def __init__(self, commands: Commands, publisher: Republishing) -> None:
        self._commands = commands
        self._publisher = publisher

    @may_refuse(ValueError, OSError)
    def set_mode(self, call: Call, mode: str) -> None:
        request_log.note(request_log.request_of(call), "set-mode", mode=mode)
        self._commands.set_mode(None if mode == NOT_SET else Mode(mode))

    @may_refuse(UnknownAction, NotAdvising)
    def accept(self, call: Call, action_id: str) -> None:
        request_log.note(request_log.request_of(call), "accept", action=action_id)
        self._commands.accept(str(action_id))

    @may_refuse(UnknownAction, NotRejectable)
    def reject(self, call: Call, action_id: str, by: str, why: str) -> None:
        request_log.note(request_log.request_of(call), "reject", action=action_id)
        told = printable(str(by), MOST_ID), printable(str(why), MOST_WHY)
        self._commands.reject(str(action_id), *told)

    @may_refuse(UnknownAction, NotInForce)
    def undo(self, call: Call, action_id: str) -> None:
        request_log.note(request_log.request_of(call), "undo", action=action_id)
        self._commands.undo(str(action_id))

    @may_refuse(wire.BadMessage, OSError)
    def set_overrides(self, call: Call, text: Any) -> int | None:
        request_log.note(request_log.request_of(call), "set-overrides")
        return self._commands.take_overrides(text)

    @may_refuse(wire.BadMessage, OSError)
    def set_modes(self, call: Call, text: Any) -> None:
        self._commands.take_modes(text)

    @may_refuse(wire.BadMessage)
    def report_latency(self, call: Call, text: Any) -> None:
        self._commands.take_latency(text)

    @may_refuse(wire.BadMessage)
    def republish(self, call: Call, within_s: float) -> None:
        self._publisher.republish(_spread_s(within_s))

    @may_refuse(wire.BadMessage)
    def republish_digest(self, call: Call, within_s: float) -> None:
        self._publisher.republish_digest(_spread_s(within_s))


class FactsEndpoint:
    """What `rpcapi.AgentAPI` says of Nova's facts, served."""

    def __init__(self, facts: ToldFacts) -> None:
        self._facts = facts

    @may_refuse(wire.BadMessage, OSError)
    def set_facts(self, call: Call, text: Any) -> None:
        self._facts.take(text)


def _spread_s(within_s: Any) -> float:
    """What nobody can mean is answered as late as any: it may be meant for all hosts."""
    given_s = _number("within_s", within_s)
    return min(max(given_s, 0.0), MAX_SPREAD_S) if math.isfinite(given_s) else MAX_SPREAD_S


def _number(name: str, value: Any) -> float:
    """Raises wire.BadMessage."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as exc:
        raise wire.BadMessage(f"{name}: give a number") from exc


class MigrationEndpoint:
    """What `rpcapi.AgentAPI` says of migrations, served."""

    def __init__(self, commands: MigrationCommands) -> None:
        self._commands = commands

    @may_refuse(wire.BadMessage)
    def prepare_migration(
        self, call: Call, escalation_id: str, uuid: str, hold_s: float
    ) -> dict[str, Any]:
        given_s = _number("hold_s", hold_s)
        if not math.isfinite(given_s):
            raise wire.BadMessage(f"hold_s: {given_s}: give a finite number")
        prepared = self._commands.prepare(_id(escalation_id), _id(uuid), given_s)
        return {"ready": prepared.ready, "why": prepared.why}

    def end_migration(
        self, call: Call, escalation_id: str, uuid: str, outcome: str, detail: str
    ) -> None:
        known = outcome if outcome in rpcapi.MIGRATION_OUTCOMES else "failed"
        told = printable(str(detail), MOST_DETAIL)
        self._commands.end(_id(escalation_id), _id(uuid), known, told)


def _id(value: Any) -> str:
    """It is told in the log; of one that is none, nobody knows anything."""
    return printable(str(value), MOST_ID)


class OverlayEndpoint:
    """What `rpcapi.AgentAPI` says of overlays, served."""

    def __init__(self, commands: OverlayCommands, clock: Callable[[], float] = time.time) -> None:
        """`clock`: seconds since 1970."""
        self._commands = commands
        self._clock = clock

    @may_refuse(wire.BadMessage, OSError)
    def set_overlays(self, call: Call, text: Any) -> int | None:
        request_log.note(request_log.request_of(call), "set-overlays")
        return self._commands.take_overlays(text)

    @may_refuse(wire.BadMessage)
    def call_overlay(self, call: Call, text: Any) -> str:
        message = read_call(text)
        asked = message.call
        if message.age_s(int(self._clock() * 1000)) > LATE_S:
            return answer_text(CallAnswer(asked.id, Nack.HOST_REFUSED, _TOO_LATE))
        return answer_text(self._commands.call_overlay(asked, message.project_id))


_TOO_LATE = "the call was sent too long ago; check the clocks of this host and of vp-api"


class CommandServer:
    def __init__(
        self,
        identity: Identity,
        commands: Commands,
        publisher: Republishing,
        migrations: MigrationCommands | None = None,
        facts: ToldFacts | None = None,
        overlays: OverlayCommands | None = None,
    ) -> None:
        """Raises cfg.Error for an URL of the bus that cannot be used."""
        rpctransport.open_transport(identity.conf)
        where = rpctransport.target(wire.AGENT_TOPIC, server=identity.sender.host)
        endpoints: list[object] = [Endpoint(commands, publisher)]
        if migrations is not None:
            endpoints.append(MigrationEndpoint(migrations))
        if facts is not None:
            endpoints.append(FactsEndpoint(facts))
        if overlays is not None:
            endpoints.append(OverlayEndpoint(overlays))
        # A scheduler that asked before we listened is answered too.
        self._server = rpcserver.BackgroundServer(
            identity,
            where,
            endpoints,
            threads=THREADS,
            on_ready=lambda bus: publisher.republish_digest(FIRST_WITHIN_S),
        )

    def start(self) -> None:
        """Returns at once; listens from when the broker is there."""
        self._server.start()

    @property
    def is_listening(self) -> bool:
        return self._server.is_ready

    def close(self) -> None:
        self._server.stop(CLOSE_TIMEOUT_S)
