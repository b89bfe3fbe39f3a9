# SPDX-License-Identifier: Apache-2.0
"""What an application reports of the latency and load of its server, sent on to the server's host.

Nothing is stored, and nobody waits for the agent: an answer means that the report is on its way.
What the agent made of it is in the next report of the host: `service` of the server.
"""

import math

from nova_vp.core.types.service_level import ServiceClass
from nova_vp.db.records import VpHead
from nova_vp.latency_message import AHEAD_S, LATE_S, LatencyMessage, latency_text
from vp_api.agent_errors import sending
from vp_api.errors import ApiError, Code
from vp_api.handlers import vps
from vp_api.latency_limits import NotNewer
from vp_api.operation import Answer, Call
from vp_api.policies import latency as policies
from vp_api.policies import vps as vp_rules
from vp_api.project_rate import TooMany
from vp_api.views import values
from vp_api.vp_report import age_of


def report_latency(call: Call, server_id: str) -> Answer:
    now = call.services.clock()
    most = call.services.conf.vp_api.latency_reports_per_s
    try:
        call.services.latency.rate.count(call.project_id, now.timestamp(), most)
        head = _find(call, server_id)
        message = _message(call, head, now.timestamp())
        call.services.latency.take(head.uuid, message.measured_at_ms, now.timestamp())
    except TooMany as exc:
        raise _too_many(exc) from exc
    except NotNewer as exc:
        raise ApiError(
            Code.STALE_REPORT,
            "A report that was measured then or later was sent before. Measure again, and send "
            "each report once.",
        ) from exc
    try:
        with sending():
            call.services.agents.report_latency(head.host, latency_text(message))
    except ApiError:
        call.services.latency.give_back(head.uuid, message.measured_at_ms)
        raise
    told = {key: call.body.get(key) for key in ("latency_ms", "load", "percentile")}
    measured_at = values.iso(message.measured_at_ms // 1000)
    return {"latency": {"server_id": head.uuid, **told, "measured_at": measured_at}}


def _find(call: Call, server_id: str) -> VpHead:
    """A latency-critical server of the caller's whose host is heard. Raises ApiError."""
    head = call.services.stored.browser.find_head(server_id)
    owner = {"project_id": head.project_id if head else ""}
    is_own = bool(owner["project_id"]) and owner["project_id"] == call.project_id
    # Who sees all servers is told that this one is not theirs to report of.
    if head is None or not (is_own or call.services.policy.allows(call.context, vp_rules.SHOW_ALL)):
        raise vps.no_such(server_id)
    call.services.policy.require(call.context, policies.REPORT, owner)
    if head.service.service_class != ServiceClass.LATENCY_CRITICAL.value:
        raise ApiError(
            Code.NOT_LATENCY_CRITICAL,
            "The server's flavor does not have vp:class=latency-critical. Resize it to one that "
            "has, or ask your operator for one; a new server is known within a minute.",
        )
    if age_of(head.received_at, call.services.clock()).is_stale:
        raise ApiError(
            Code.AGENT_SILENT,
            "Reports are not used while the server's host is silent. Go on reporting; your "
            "operator knows of silent hosts.",
        )
    return head


def _message(call: Call, head: VpHead, now_s: float) -> LatencyMessage:
    """Raises ApiError: it is late, or measured in the future."""
    body = call.body
    measured_at_s = float(body.get("measured_at", now_s))
    age_s = now_s - measured_at_s
    if not -AHEAD_S <= age_s <= LATE_S:
        when = f"{age_s:.0f} s ago" if age_s > 0 else f"in {-age_s:.0f} s"
        raise ApiError(
            Code.STALE_REPORT,
            f"It was measured {when}, by this service's clock. Send a report within {LATE_S:.0f} s "
            "after it was measured; check the clock of the application's machine.",
        )
    return LatencyMessage(
        server=head.uuid,
        project_id=head.project_id,
        latency_ms=body["latency_ms"],
        load=body.get("load"),
        percentile=body.get("percentile"),
        measured_at_ms=math.floor(measured_at_s * 1000),
        sent_at_ms=math.floor(now_s * 1000),
    )


def _too_many(exc: TooMany) -> ApiError:
    error = ApiError(Code.TOO_MANY_REPORTS, f"{exc} Report the latency of each server every 2 s.")
    error.headers["Retry-After"] = str(exc.wait_s)
    return error
