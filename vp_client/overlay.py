# SPDX-License-Identifier: Apache-2.0
"""How an application calls its overlay: one connection that is kept, one line for each call.

It needs keystoneauth1 and openstacksdk, as the rest of this package, and nothing of the shell.
"""

import uuid
from types import TracebackType
from typing import Any, NamedTuple

from keystoneauth1.session import Session

from vp_client.client import Client
from vp_client.connection import client_from_environment, client_over
from vp_client.errors import Refused, Unreachable

TIMEOUT_S = 8.0
"""vp-api gives a host five seconds to answer."""
AWAY = 503
HELD = ("borrow", "trigger")
"""What is released at the end of a `with` block."""


class CallResult(NamedTuple):
    granted: bool
    """By all hosts that were asked."""
    nack: str | None
    """Why the first of those that refused did."""
    detail: str
    lease_s: float | None
    """How long it stands at most; None: it does not end by itself, or nothing stands."""


class Overlay:
    """One overlay of the project. At the end of a `with` block in which something was borrowed or
    triggered everything is released. Not for several threads at once.

    All methods raise VpError: vp-api refused the request (`Refused`, with its HTTP status), or does
    not answer, or there is no token (`LoginFailed`). A call that a host refuses is no error.
    """

    def __init__(self, session: Session | None, overlay: str, region: str | None = None) -> None:
        """`session`: None: one with the credentials of the environment. `overlay`: its id or name.
        `region`: whose vp-api to call; None: the only one."""
        client = client_from_environment() if session is None else client_over(session, region)
        self._client: Client = client
        self.id = client.overlay_id(overlay)
        self._holds = False

    def tune(
        self, resource: str, direction: str, server_id: str, lease_s: float | None = None
    ) -> CallResult:
        """A little more (`up`) or less (`down`) of `cpu`, `memory-size` or `io` for one server."""
        about = {"resource": resource, "direction": direction, "server_id": server_id}
        return self._call("tune", **about, lease_s=lease_s)

    def trigger(self, server_id: str | None = None, lease_s: float | None = None) -> CallResult:
        """The server goes first, at once and for a short time; None: all of the overlay."""
        return self._call("trigger", server_id=server_id, lease_s=lease_s)

    def borrow(self, cpus: int, server_id: str, lease_s: float | None = None) -> CallResult:
        """Whole CPUs for the island of the server."""
        return self._call("borrow", cpus=cpus, server_id=server_id, lease_s=lease_s)

    def renew(self, server_id: str | None = None, lease_s: float | None = None) -> CallResult:
        """What was tuned and borrowed stands for another lease; None: of all servers."""
        return self._call("renew", server_id=server_id, lease_s=lease_s)

    def release(self, server_id: str | None = None) -> CallResult:
        """What was tuned, borrowed and triggered goes back."""
        return self._call("release", server_id=server_id)

    def __enter__(self) -> "Overlay":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._holds:
            self.release()

    def _call(self, verb: str, **about: Any) -> CallResult:
        """Repeated once with the same id where nobody has answered: it is carried out once."""
        given = {name: value for name, value in about.items() if value is not None}
        body = {"id": str(uuid.uuid4()), "verb": verb, **given}
        try:
            told = self._client.call_overlay(self.id, body, TIMEOUT_S)
        except (Unreachable, Refused) as exc:
            if isinstance(exc, Refused) and exc.status != AWAY:
                raise
            told = self._client.call_overlay(self.id, body, TIMEOUT_S)
        result = _result(told)
        self._holds = (self._holds or (verb in HELD and result.granted)) and verb != "release"
        return result


def _result(told: dict[str, Any]) -> CallResult:
    answers = told["answers"]
    refused = [one for one in answers if not one["granted"]]
    first = (refused or answers)[0]
    leases = [one["lease_s"] for one in answers if one["lease_s"] is not None]
    return CallResult(told["granted"], first["nack"], first["detail"], min(leases, default=None))
