# SPDX-License-Identifier: Apache-2.0
"""What is fuzzed, as the run sees it: it makes input, takes it, and says what became of it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import oslo_messaging
from oslo_messaging.rpc.dispatcher import RPCDispatcher

from tests.fuzz.dice import Dice
from tests.fuzz.oracle import Wrong

_ARGUMENTS = re.compile(r"\(\) (missing|got an unexpected|got multiple|takes)|not callable")
"""A method that is not there, or not with these arguments, is oslo.messaging's to refuse."""
ACCEPTED, REFUSED = "accepted", "refused"


class Subject(Protocol):
    name: str
    weight: int
    """Its share of the payloads."""

    def make(self, dice: Dice) -> Any:
        """By chance alone, so that it can be made again: JSON, bytes, or tuples and lists of it."""

    def take(self, payload: Any) -> str:
        """ACCEPTED or REFUSED. Raises Wrong, or whatever the product raises that it must not."""

    def settle(self) -> None:
        """Looks at what the inputs since the last time have left. Raises as `take`."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """One message as oslo.messaging's dispatcher has it."""

    message: dict[str, Any]
    ctxt: Any = field(default_factory=dict)
    client_timeout: None = None


class Bus:
    """Endpoints behind the real dispatcher, without a broker."""

    def __init__(self, endpoints: Sequence[object]) -> None:
        self._dispatcher = RPCDispatcher(list(endpoints), None)

    def send(
        self, method: str, arguments: dict[str, Any], refusals: tuple[type[Exception], ...] = ()
    ) -> str:
        """`refusals`: what it may raise at its caller."""
        return self.hear(Incoming({"method": method, "args": arguments}), refusals)

    def hear(self, incoming: Incoming, refusals: tuple[type[Exception], ...] = ()) -> str:
        try:
            self._dispatcher.dispatch(incoming)
        except oslo_messaging.ExpectedException as exc:
            raised = exc.exc_info[1]
            if not isinstance(raised, refusals):
                raise Wrong(f"{type(raised).__name__} at the caller: {raised}") from raised
            return REFUSED
        except (oslo_messaging.NoSuchMethod, oslo_messaging.UnsupportedVersion):
            return REFUSED
        except TypeError as exc:
            if not _ARGUMENTS.search(str(exc)):
                raise
            return REFUSED
        return ACCEPTED
