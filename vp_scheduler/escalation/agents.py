# SPDX-License-Identifier: Apache-2.0
"""What is asked of the agent of one host before and after a migration, over the bus.

The bus is waited for no longer than a call takes: an agent that does not answer and a broker that
is away are the same here.
"""

from typing import Protocol

from nova_vp import wire
from nova_vp.printable import MOST_OF_FAULT, printable
from nova_vp.signing.identity import Identity
from vp_scheduler.agent_bus import AgentBus


class AgentAway(Exception):
    """No answer: whether it was done is not known. Both calls may be repeated."""


class Agents(Protocol):
    """Thread-safe; both raise AgentAway."""

    def prepare(self, host: str, escalation_id: str, server: str, hold_s: float) -> str:
        """Empty: nothing of ours is on that guest any more, and it is left alone. Else why not."""

    def end(
        self, host: str, escalation_id: str, server: str, outcome: str, detail: str
    ) -> None: ...


class BusAgents:
    """Implements `Agents`."""

    def __init__(self, identity: Identity) -> None:
        self._bus = AgentBus(identity)

    def prepare(self, host: str, escalation_id: str, server: str, hold_s: float) -> str:
        try:
            answer = self._bus.api().prepare_migration(host, escalation_id, server, hold_s)
        # Whatever else the other end has answered, it has not said that the guest may go.
        except Exception as exc:
            raise AgentAway(f"the agent of {host} does not answer: {_first_line(exc)}") from exc
        if answer.get("ready"):
            return ""
        why = str(answer.get("why") or "the agent does not say")
        if why == wire.AGENT_BUSY:
            raise AgentAway(f"the agent of {host} has had no time for it")
        return printable(why, MOST_DETAIL)

    def end(self, host: str, escalation_id: str, server: str, outcome: str, detail: str) -> None:
        try:
            api = self._bus.api()
            api.end_migration(host, escalation_id, server, outcome, detail[:MOST_DETAIL])
        except Exception as exc:  # As above.
            raise AgentAway(f"the agent of {host} does not answer: {_first_line(exc)}") from exc

    def close(self) -> None:
        self._bus.close()


MOST_DETAIL = 1000


def _first_line(exc: Exception) -> str:
    return printable(f"{type(exc).__name__} {exc}".partition("\n")[0], MOST_OF_FAULT)
