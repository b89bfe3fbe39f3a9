# SPDX-License-Identifier: Apache-2.0
"""A call of an overlay, sent to the agents of its servers' hosts, which grant or refuse it.

A refusal is an answer, not an error. What an agent says of it may name islands and other servers:
tenants are told the reason in words of ours.
"""

import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import oslo_messaging
from oslo_log import log as logging

from nova_vp import wire
from nova_vp.core.types.overlay import Call as OverlayCall
from nova_vp.core.types.overlay import CallAnswer, CallResource, Direction, Nack, Verb
from nova_vp.overlay_message import LATE_S, CallMessage, call_text, fault_of, read_answer
from nova_vp.overlay_waits import SLOW_S, TooManyWait
from vp_api import overlay_access
from vp_api.agent_errors import sending
from vp_api.errors import ApiError, Code
from vp_api.handlers.overlays import count_request, no_member, too_many
from vp_api.operation import Answer, Call
from vp_api.overlay_access import KnownOverlay
from vp_api.policies import overlays as policies
from vp_api.project_rate import TooMany
from vp_api.views import overlays as views
from vp_api.vp_report import age_of

LOG = logging.getLogger(__name__)
MOST_HOSTS = 16
"""Of one call."""


def call_overlay(call: Call, overlay_id: str) -> Answer:
    count_request(call)
    found = overlay_access.find(call, overlay_id)
    owner = {"project_id": found.project_id}
    call.services.policy.require(call.context, policies.CALL, owner)
    if "island" in call.body:
        call.services.policy.require(call.context, policies.NAME_ISLAND, owner)
    asked = _asked(call, found)
    hosts = _hosts(call, found, asked)
    answers = _answers(call, found, asked, hosts)
    told = [views.answer(hosts[host], answer, call.sees_all) for host, answer in answers.items()]
    return {
        "call": {
            "id": asked.id,
            "overlay_id": found.id,
            "verb": asked.verb.value,
            "granted": all(one["granted"] for one in told),
            "answers": told,
        }
    }


def _asked(call: Call, found: KnownOverlay) -> OverlayCall:
    """Raises ApiError: no call can mean it."""
    body = call.body
    asked = OverlayCall(
        id=body.get("id") or str(uuid.uuid4()),
        overlay_id=found.id,
        verb=Verb(body["verb"]),
        resource=CallResource(body.get("resource", "cpu")),
        direction=Direction(body.get("direction", "up")),
        guest_uuid=(body.get("server_id") or "").lower(),
        cpus=int(body.get("cpus", 0)),
        island=body.get("island", ""),
        lease_s=body.get("lease_s"),
    )
    if fault := fault_of(asked):
        raise ApiError(Code.BAD_REQUEST, f"Correct the body: {fault}.")
    return asked


def _hosts(call: Call, found: KnownOverlay, asked: OverlayCall) -> Mapping[str, list[str]]:
    """Who is asked, and for which servers. Raises ApiError: nobody can be, or too many."""
    hosts: Mapping[str, list[str]] = found.hosts
    if asked.guest_uuid:
        if asked.guest_uuid not in found.heads:
            raise no_member(asked.guest_uuid)
        hosts = {h: [asked.guest_uuid] for h, uuids in hosts.items() if asked.guest_uuid in uuids}
    if not hosts:
        raise ApiError(
            Code.VP_NOT_FOUND,
            "No host reports a server of this call. Start it; a new server is known within "
            "seconds if its host runs vp-agent.",
        )
    if len(hosts) > MOST_HOSTS:
        raise ApiError(
            Code.BAD_REQUEST,
            f"The overlay is on more than {MOST_HOSTS} hosts. Call it for single servers.",
        )
    return hosts


def _silent_hosts(call: Call, found: KnownOverlay, hosts: Mapping[str, list[str]]) -> set[str]:
    """Of these, who is not asked: who stopped reporting, or did not answer a moment ago."""
    now, waits = call.services.clock(), call.services.overlay_waits
    heads = [head for head in found.heads.values() if head is not None and head.host in hosts]
    stale = {head.host for head in heads if age_of(head.received_at, now).is_stale}
    return stale | {host for host in hosts if waits.is_silent(host, now.timestamp())}


def _answers(
    call: Call, found: KnownOverlay, asked: OverlayCall, hosts: Mapping[str, list[str]]
) -> dict[str, CallAnswer]:
    """Of each host; those that are silent refuse. Raises ApiError if all are, or the bus is
    away."""
    message = CallMessage(asked, found.project_id, _now_ms(call))
    silent = _silent_hosts(call, found, hosts)
    heard = [host for host in hosts if host not in silent]
    told = _ask_all(call, heard, message) if heard else {}
    if not any(told.values()):
        raise _silent(asked.id)
    nobody = CallAnswer(asked.id, Nack.UNREACHABLE, "the host does not answer")
    return {host: told.get(host) or nobody for host in hosts}


def _ask_all(
    call: Call, hosts: Sequence[str], message: CallMessage
) -> dict[str, CallAnswer | None]:
    """Of all hosts at once; None: it is silent. Raises ApiError."""
    services, now_s = call.services, call.services.clock().timestamp()
    if not services.callers.acquire(blocking=False):
        raise too_many(TooMany("Other calls wait for agents.", 1.0))
    try:
        with (
            services.overlay_waits.one_of(message.project_id, hosts),
            ThreadPoolExecutor(len(hosts)) as pool,
        ):
            context = call.context

            def ask(host: str) -> CallAnswer | None:
                context.update_store()  # The agents are told the id of the request.
                return _ask(call, host, message, now_s)

            return dict(zip(hosts, pool.map(ask, hosts), strict=True))
    except TooManyWait as exc:
        raise too_many(TooMany(str(exc), 1.0)) from exc
    finally:
        services.callers.release()


def _ask(call: Call, host: str, message: CallMessage, now_s: float) -> CallAnswer | None:
    """None: it is silent. Raises ApiError: the bus is away."""
    try:
        with sending():
            text = _sent(call, host, message, now_s)
        if text is None:
            return None
        answer = read_answer(text)
    except wire.BadMessage as exc:
        LOG.error("host=%s does not take or answer calls of overlays: %s", host, exc)
        return None
    if answer.call_id != message.call.id:
        LOG.error("host=%s answers another call", host)
        return None
    return answer


def _sent(call: Call, host: str, message: CallMessage, now_s: float) -> str | None:
    """What it answers; None: it is silent."""
    clock, waits = call.services.clock, call.services.overlay_waits
    try:
        text = call.services.agents.call_overlay(host, call_text(message))
        now_s = clock().timestamp()
        if now_s - message.sent_at_ms / 1000 > SLOW_S:
            waits.note_silent(host, now_s)
            LOG.warning("host=%s took long to answer a call of an overlay", host)
        return text
    except oslo_messaging.MessagingTimeout as exc:
        waits.note_silent(host, now_s)
        LOG.warning("host=%s does not answer calls of overlays: %s", host, exc)
    except oslo_messaging.RemoteError as exc:
        LOG.error("host=%s does not take calls of overlays: %s", host, exc)
    return None


def _silent(call_id: str) -> ApiError:
    return ApiError(
        Code.AGENT_SILENT,
        f"The call may still be carried out within {LATE_S:g} s; its lease ends it. Repeat it with "
        f"its id {call_id}, with which it is carried out once. If it stays: your operator knows of "
        "silent hosts.",
    )


def _now_ms(call: Call) -> int:
    return int(call.services.clock().timestamp() * 1000)
