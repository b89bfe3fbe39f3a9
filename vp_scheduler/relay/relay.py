# SPDX-License-Identifier: Apache-2.0
"""Calls that a host's monitors make for servers on other hosts: checked, and sent to these.

What a host says of an overlay counts for nothing: whose it is and which servers it has says the
database, where these are say reports and Nova. An overlay that does not exist, that is another
project's, and that has no server on the calling host are answered alike.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

import oslo_messaging

from nova_vp import wire
from nova_vp.core.types.overlay import Call, CallAnswer, Nack
from nova_vp.db.overlay_members import Members, hosts_of
from nova_vp.db.report_store import ERRORS
from nova_vp.overlay_answers import combined
from nova_vp.overlay_message import LATE_S, CallMessage, call_text, read_answer
from nova_vp.overlay_waits import OverlayWaits, TooManyWait
from nova_vp.token_buckets import TokenBuckets
from vp_scheduler.relay.confirmed_hosts import ConfirmedHosts, Fault

LOG = logging.getLogger(__name__)
MOST_HOSTS = 16
"""Of one call."""
MOST_ASKED = 3
"""Servers of the calling host of which Nova is asked, until it confirms one."""
HOST_TIMES = 5
"""A host calls so many times as often as one overlay may be called."""

_TOO_LATE = "the call was sent too long ago; check the clocks of the host and of vp-scheduler"
_ISLAND = "an island of another host cannot be named"
_OFF = "[vp_scheduler] overlay_calls_per_s is 0: hosts do not call for servers on other hosts"
_UNKNOWN = (
    "no overlay with this id has a server on the calling host; see `openstack vp overlay show`"
)
_NO_MEMBER = "no host reports this server of the overlay"


class Overlay(NamedTuple):
    id: str
    project_id: str
    members: Members


class Registry(Protocol):
    def find(self, overlay_id: str, project_id: str) -> Overlay | None:
        """None: the project has no such overlay. Raises `ERRORS`."""


class Agents(Protocol):
    """Thread-safe."""

    def call_overlay(self, host: str, text: str) -> str:
        """As `rpcapi.AgentAPI`."""


class Foreign(Exception):
    """A host calls for an overlay of which it has no server."""


class Relay:
    """Thread-safe."""

    def __init__(
        self,
        registry: Registry,
        places: ConfirmedHosts,
        agents: Agents,
        *,
        calls_per_s: float,
        stale_after_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock`: seconds since 1970."""
        self._registry = registry
        self._places = places
        self._agents = agents
        self._calls_per_s = calls_per_s
        self._stale_after_s = stale_after_s
        self._clock = clock
        self._of_overlays = TokenBuckets(calls_per_s, calls_per_s)
        self._of_hosts = TokenBuckets(HOST_TIMES * calls_per_s, HOST_TIMES * calls_per_s)
        self._waits = OverlayWaits()

    def answer(self, sender_host: str, message: CallMessage) -> CallAnswer:
        """Blocks until all hosts that are concerned have answered, or are not waited for any more.
        Raises Foreign."""
        call = message.call
        try:
            self._check(sender_host, message)
            overlay = self._registry.find(call.overlay_id, message.project_id)
            if overlay is None:
                raise Foreign(f"{sender_host} calls for overlay {call.overlay_id}")
            self._check_caller(sender_host, overlay)
            hosts = _concerned(sender_host, overlay, call)
            with self._waits.one_of(overlay.project_id, hosts):
                return self._ask_all(hosts, overlay, sender_host, call)
        except Fault as exc:
            return CallAnswer(call.id, exc.nack, str(exc))
        except TooManyWait as exc:
            return CallAnswer(call.id, Nack.TOO_MANY_CALLS, str(exc))
        except ERRORS as exc:
            LOG.warning("a call of an overlay is refused: %s", str(exc).partition("\n")[0])
            return CallAnswer(call.id, Nack.UNREACHABLE, "the database does not answer")

    def _check(self, sender_host: str, message: CallMessage) -> None:
        """What needs nobody. Raises Fault."""
        call = message.call
        if message.age_s(int(self._clock() * 1000)) > LATE_S:
            raise Fault(Nack.HOST_REFUSED, _TOO_LATE)
        if not self._calls_per_s:
            raise Fault(Nack.DISABLED, _OFF)
        if call.island:
            raise Fault(Nack.UNKNOWN_ISLAND, _ISLAND)
        is_free = self._of_hosts.take(sender_host) and self._of_overlays.take(call.overlay_id)
        if not is_free:
            raise Fault(
                Nack.TOO_MANY_CALLS,
                f"{self._calls_per_s:g} calls per second between hosts are taken of an overlay; "
                "wait longer after each refusal",
            )

    def _check_caller(self, host: str, overlay: Overlay) -> None:
        """Raises Fault and Foreign."""
        fault: Fault | None = None
        for server in hosts_of(overlay.members).get(host, ())[:MOST_ASKED]:
            try:
                self._places.check(overlay.project_id, server, host)
            except Fault as exc:
                fault = exc
            else:
                return
        if fault is None or fault.nack is Nack.NOT_A_MEMBER:
            raise Foreign(f"{host} calls for overlay {overlay.id}: {fault or _UNKNOWN}")
        raise fault

    def _ask_all(
        self, hosts: Mapping[str, str], overlay: Overlay, sender_host: str, call: Call
    ) -> CallAnswer:
        """`hosts`: with one of the overlay's servers there."""
        if not hosts:
            return CallAnswer(call.id, None, "no other host reports a server of the overlay")
        there = call._replace(id=_id_there(sender_host, call.id))
        with ThreadPoolExecutor(len(hosts)) as pool:
            found = pool.map(lambda host: self._ask(host, hosts[host], overlay, there), hosts)
            return combined(call.id, dict(zip(hosts, found, strict=True)))

    def _ask(self, host: str, server: str, overlay: Overlay, call: Call) -> CallAnswer:
        """The detail of another host's answer may name islands and servers: it stays here."""
        try:
            self._check_place(host, server, overlay)
            answer = self._answer_of(host, overlay, call)
        except Fault as exc:
            return CallAnswer(call.id, exc.nack, str(exc))
        why = f"refused: {answer.nack.value}" if answer.nack else "done"
        return CallAnswer(call.id, answer.nack, why, answer.lease_s)

    def _check_place(self, host: str, server: str, overlay: Overlay) -> None:
        """Raises Fault."""
        head = overlay.members[server]
        assert head is not None
        now = datetime.fromtimestamp(self._clock(), UTC)
        if (now - head.received_at).total_seconds() > self._stale_after_s:
            raise Fault(Nack.UNREACHABLE, "the host has not reported lately")
        if self._waits.is_silent(host, self._clock()):
            raise Fault(Nack.UNREACHABLE, "the host did not answer a moment ago")
        self._places.check(overlay.project_id, server, host)

    def _answer_of(self, host: str, overlay: Overlay, call: Call) -> CallAnswer:
        """Raises Fault."""
        message = CallMessage(call, overlay.project_id, int(self._clock() * 1000))
        try:
            answer = read_answer(self._agents.call_overlay(host, call_text(message)))
        except oslo_messaging.MessagingTimeout as exc:
            self._waits.note_silent(host, self._clock())
            raise Fault(
                Nack.UNREACHABLE,
                "the host does not answer; it may have taken effect, and its lease ends it",
            ) from exc
        except (oslo_messaging.MessagingException, wire.BadMessage) as exc:
            LOG.warning("host=%s does not take a call of an overlay: %s", host, exc)
            raise Fault(Nack.UNREACHABLE, "the host does not take the call") from exc
        if answer.call_id != call.id:
            LOG.error("host=%s answers another call", host)
            raise Fault(Nack.UNREACHABLE, "the host answers another call")
        return answer


def foreign(call: Call) -> CallAnswer:
    return CallAnswer(call.id, Nack.UNKNOWN_OVERLAY, _UNKNOWN)


def _concerned(sender_host: str, overlay: Overlay, call: Call) -> dict[str, str]:
    """By host one server there: of its server, or all but the calling one. Raises Fault."""
    if call.guest_uuid:
        head = overlay.members.get(call.guest_uuid)
        if head is None:
            raise Fault(Nack.NOT_A_MEMBER, _NO_MEMBER)
        return {head.host: call.guest_uuid}
    found = {h: uuids[0] for h, uuids in hosts_of(overlay.members).items() if h != sender_host}
    if len(found) > MOST_HOSTS:
        raise Fault(
            Nack.HOST_REFUSED, f"the overlay is on more than {MOST_HOSTS} other hosts; name servers"
        )
    return found


def _id_there(sender_host: str, call_id: str) -> str:
    """No host can use up the ids of another one, or of an application."""
    return hashlib.sha256(f"{sender_host} {call_id}".encode()).hexdigest()[:32]
