# SPDX-License-Identifier: Apache-2.0
"""The part of the table of routes that tenants have, too: servers, overlays, usage."""

from collections.abc import Mapping
from typing import Any

from vp_api.errors import Code
from vp_api.handlers import latency, overlay_calls, overlays, usage, vps
from vp_api.operation import Operation, Routes
from vp_api.policies import latency as latency_rules
from vp_api.policies import overlays as overlay_rules
from vp_api.policies import usage as usage_rules
from vp_api.policies import vps as vp_rules
from vp_api.schemas import actions as action_schemas
from vp_api.schemas import history as history_schemas
from vp_api.schemas import latency as latency_schemas
from vp_api.schemas import overlays as overlay_schemas
from vp_api.schemas import usage as usage_schemas
from vp_api.schemas import vps as vp_schemas
from vp_api.versions import V1_1, V1_2, V1_3

OWN: Mapping[str, Any] = {"rule": vp_rules.SHOW, "operator_rule": vp_rules.SHOW_ALL}
OVERLAYS: Mapping[str, Any] = {
    "rule": overlay_rules.SHOW,
    "operator_rule": overlay_rules.SHOW_ALL,
    "since": V1_3,
}
ONE_OVERLAY: Mapping[str, Any] = {
    **OVERLAYS,
    "tenant_answer": overlay_schemas.TENANT_SHOW_ANSWER,
}
CHANGED = (Code.OVERLAY_NOT_FOUND, Code.GROUP_OVERLAY, Code.TOO_MANY_CALLS)
REGISTERED = (Code.QUOTA_EXCEEDED, Code.IN_ANOTHER_OVERLAY, Code.VP_NOT_FOUND)

SERVER_ROUTES: Routes = {
    "/v1/vps": {
        "GET": Operation(
            vps.list_vps,
            "Servers: to a tenant its own, to an operator all",
            vp_schemas.LIST_ANSWER,
            **OWN,
            tenant_answer=vp_schemas.TENANT_LIST_ANSWER,
            query=vp_schemas.LIST_QUERY,
            query_1_0=vp_schemas.LIST_QUERY_1_0,
        )
    },
    "/v1/vps/{server_id}": {
        "GET": Operation(
            vps.show_vp,
            "One server",
            vp_schemas.SHOW_ANSWER,
            **OWN,
            tenant_answer=vp_schemas.TENANT_SHOW_ANSWER,
            errors=(Code.VP_NOT_FOUND,),
        ),
        "PATCH": Operation(
            vps.change_vp,
            "Order its mode, priority, opt-out and exemption",
            vp_schemas.CHANGE_ANSWER,
            **OWN,
            tenant_answer=vp_schemas.TENANT_CHANGE_ANSWER,
            body=vp_schemas.CHANGE,
            since=V1_1,
            errors=(Code.VP_NOT_FOUND, Code.CHANGED_MEANWHILE, Code.TOO_MANY_CHANGES),
        ),
    },
    "/v1/vps/{server_id}/latency": {
        "PUT": Operation(
            latency.report_latency,
            "Report how its application answers, and under which load",
            latency_schemas.ANSWER,
            rule=latency_rules.REPORT,
            operator_rule=latency_rules.REPORT,
            body=latency_schemas.REPORT,
            since=V1_2,
            errors=(
                Code.VP_NOT_FOUND,
                Code.NOT_LATENCY_CRITICAL,
                Code.STALE_REPORT,
                Code.TOO_MANY_REPORTS,
                Code.BUS_UNAVAILABLE,
                Code.AGENT_SILENT,
            ),
        )
    },
    "/v1/vps/{server_id}/history": {
        "GET": Operation(
            vps.show_vp_history,
            "What it did, minute by minute",
            history_schemas.ANSWER_OF_VP,
            **OWN,
            tenant_answer=history_schemas.TENANT_ANSWER_OF_VP,
            query=history_schemas.QUERY,
            since=V1_1,
            errors=(Code.VP_NOT_FOUND,),
        )
    },
    "/v1/vps/{server_id}/actions": {
        "GET": Operation(
            vps.list_vp_actions,
            "What was done to it or for it, the newest first",
            action_schemas.LIST_ANSWER,
            **OWN,
            tenant_answer=action_schemas.OF_VP_TENANT_ANSWER,
            query=action_schemas.OF_VP_QUERY,
            since=V1_1,
            errors=(Code.VP_NOT_FOUND,),
        )
    },
    "/v1/overlays": {
        "GET": Operation(
            overlays.list_overlays,
            "Overlays: to a tenant its own, to an operator all",
            overlay_schemas.LIST_ANSWER,
            **OVERLAYS,
            tenant_answer=overlay_schemas.TENANT_LIST_ANSWER,
            query=overlay_schemas.LIST_QUERY,
        ),
        "POST": Operation(
            overlays.create_overlay,
            "Make servers of a project one overlay",
            overlay_schemas.SHOW_ANSWER,
            **ONE_OVERLAY,
            body=overlay_schemas.CREATE,
            errors=(*REGISTERED, Code.NAME_TAKEN, Code.TOO_MANY_CALLS),
        ),
    },
    "/v1/overlays/{overlay_id}": {
        "GET": Operation(
            overlays.show_overlay,
            "One overlay, and what it holds now",
            overlay_schemas.SHOW_ANSWER,
            **ONE_OVERLAY,
            errors=(Code.OVERLAY_NOT_FOUND,),
        ),
        "PATCH": Operation(
            overlays.change_overlay,
            "Change its name, target, priority and arbitration class",
            overlay_schemas.SHOW_ANSWER,
            **ONE_OVERLAY,
            body=overlay_schemas.CHANGE,
            errors=(*CHANGED, Code.NAME_TAKEN),
        ),
        "DELETE": Operation(
            overlays.delete_overlay,
            "Delete it; what it holds is released",
            overlay_schemas.DELETE_ANSWER,
            **OVERLAYS,
            errors=CHANGED,
        ),
    },
    "/v1/overlays/{overlay_id}/servers": {
        "POST": Operation(
            overlays.add_servers,
            "Add servers of its project",
            overlay_schemas.SHOW_ANSWER,
            **ONE_OVERLAY,
            body=overlay_schemas.ADD_SERVERS,
            errors=(*CHANGED, *REGISTERED),
        )
    },
    "/v1/overlays/{overlay_id}/servers/{server_id}": {
        "DELETE": Operation(
            overlays.remove_server,
            "Take a server out of it",
            overlay_schemas.SHOW_ANSWER,
            **ONE_OVERLAY,
            errors=(*CHANGED, Code.VP_NOT_FOUND),
        )
    },
    "/v1/overlays/{overlay_id}/calls": {
        "POST": Operation(
            overlay_calls.call_overlay,
            "Call it: tune, trigger, borrow, release",
            overlay_schemas.CALL_ANSWER,
            **OVERLAYS,
            body=overlay_schemas.CALL,
            errors=(
                Code.OVERLAY_NOT_FOUND,
                Code.VP_NOT_FOUND,
                Code.TOO_MANY_CALLS,
                Code.BUS_UNAVAILABLE,
                Code.AGENT_SILENT,
            ),
        )
    },
    "/v1/usage": {
        "GET": Operation(
            usage.list_usage,
            "What servers with a pollution permit are billed for",
            usage_schemas.LIST_ANSWER,
            rule=usage_rules.SHOW,
            operator_rule=usage_rules.SHOW_ALL,
            tenant_answer=usage_schemas.TENANT_LIST_ANSWER,
            query=usage_schemas.LIST_QUERY,
            since=V1_1,
        )
    },
}
