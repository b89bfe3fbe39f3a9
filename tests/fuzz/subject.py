# SPDX-License-Identifier: Apache-2.0
"""What is fuzzed, as the run sees it: it makes input, takes it, and says what became of it."""

import json
import re
from collections.abc import Sequence
from typing import Any, Protocol

import oslo_messaging

from nova_vp.signing.envelope import Call
from nova_vp.signing.senders import MAY_CALL
from tests.fuzz.dice import Dice
from tests.fuzz.oracle import Wrong
from tests.identities import call_of

_ARGUMENTS = re.compile(r"\(\) (missing|got an unexpected|got multiple|takes)|not callable")
"""With arguments that the method does not take."""
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


class Bus:
    """Endpoints as `nova_vp.rpcserver` calls them, once it has checked who signed."""

    def __init__(self, endpoints: Sequence[object]) -> None:
        self._endpoints = endpoints

    def send(
        self,
        method: str,
        arguments: dict[str, Any],
        refusals: tuple[type[Exception], ...] = (),
        call: Call | None = None,
    ) -> str:
        """`refusals`: what it may raise at its caller. `call`: without, from the host that the
        message in it names."""
        found = next((one for one in self._endpoints if hasattr(one, method)), None)
        if found is None or method not in MAY_CALL:
            return REFUSED
        try:
            getattr(found, method)(call or call_of(host=_host_in(arguments)), **arguments)
        except oslo_messaging.ExpectedException as exc:
            raised = exc.exc_info[1]
            if not isinstance(raised, refusals):
                raise Wrong(f"{type(raised).__name__} at the caller: {raised}") from raised
            return REFUSED
        except TypeError as exc:
            if not _ARGUMENTS.search(str(exc)):
                raise
            return REFUSED
        return ACCEPTED


def _host_in(arguments: dict[str, Any]) -> str:
    try:
        return str(json.loads(arguments["text"])["host"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return "vp1"
