# SPDX-License-Identifier: Apache-2.0
"""The one table of routes: each operation with its policy, schemas, errors and microversion."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from vp_api import openapi
from vp_api.errors import DOCUMENT, Code
from vp_api.handlers import (
    actions,
    escalations,
    hosts,
    latency,
    modes,
    overlay_calls,
    overlays,
    profiles,
    root,
    service,
    usage,
    vps,
    what_if,
)
from vp_api.operation import Answer, Call, Operation, Routes
from vp_api.policies import actions as action_rules
from vp_api.policies import escalations as escalation_rules
from vp_api.policies import hosts as host_rules
from vp_api.policies import latency as latency_rules
from vp_api.policies import modes as mode_rules
from vp_api.policies import overlays as overlay_rules
from vp_api.policies import service as service_rules
from vp_api.policies import usage as usage_rules
from vp_api.policies import vps as vp_rules
from vp_api.policies import what_if as what_if_rules
from vp_api.schemas import actions as action_schemas
from vp_api.schemas import escalations as escalation_schemas
from vp_api.schemas import history as history_schemas
from vp_api.schemas import hosts as host_schemas
from vp_api.schemas import latency as latency_schemas
from vp_api.schemas import modes as mode_schemas
from vp_api.schemas import overlays as overlay_schemas
from vp_api.schemas import profiles as profile_schemas
from vp_api.schemas import root as root_schemas
from vp_api.schemas import service as service_schemas
from vp_api.schemas import usage as usage_schemas
from vp_api.schemas import vps as vp_schemas
from vp_api.schemas import what_if as what_if_schemas
from vp_api.versions import V1_1, V1_2, V1_3

TOLD = (Code.AGENT_REFUSED, Code.BUS_UNAVAILABLE, Code.AGENT_SILENT)
"""What can go wrong where an agent is told something."""
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


def show_openapi(call: Call) -> Answer:
    return _document()


@cache
def _document() -> Answer:
    return openapi.document(ROUTES)


ROUTES: Routes = {
    "/": {"GET": Operation(root.list_versions, "Versions", root_schemas.LIST_ANSWER)},
    "/v1": {"GET": Operation(root.show_version, "This version", root_schemas.SHOW_ANSWER)},
    DOCUMENT: {"GET": Operation(show_openapi, "This document", root_schemas.OPENAPI)},
    "/v1/hosts": {
        "GET": Operation(
            hosts.list_hosts,
            "Hosts: mode, counters, freshness",
            host_schemas.LIST_ANSWER,
            rule=host_rules.SHOW,
            query=host_schemas.LIST_QUERY,
            query_1_0=host_schemas.LIST_QUERY_1_0,
        )
    },
    "/v1/hosts/{host}": {
        "GET": Operation(
            hosts.show_host,
            "One host: cells, LLC domains, who runs where, contention, proposals",
            host_schemas.SHOW_ANSWER,
            rule=host_rules.SHOW,
            errors=(Code.HOST_NOT_FOUND,),
        ),
        "PATCH": Operation(
            hosts.change_host,
            "Set the mode of the host, since 1.3 to none with null",
            host_schemas.CHANGE_ANSWER,
            rule=host_rules.SET_MODE,
            body=host_schemas.CHANGE,
            errors=(Code.HOST_NOT_FOUND, *TOLD),
        ),
    },
    "/v1/hosts/{host}/history": {
        "GET": Operation(
            hosts.show_host_history,
            "What its servers did, minute by minute",
            history_schemas.ANSWER_OF_HOST,
            rule=host_rules.SHOW,
            query=history_schemas.QUERY,
            since=V1_1,
            errors=(Code.HOST_NOT_FOUND,),
        )
    },
    "/v1/modes": {
        "GET": Operation(
            modes.list_modes,
            "Modes that are set for the cloud and for host aggregates",
            mode_schemas.LIST_ANSWER,
            rule=mode_rules.SHOW,
            since=V1_3,
        )
    },
    "/v1/modes/cloud": {
        "PUT": Operation(
            modes.set_cloud_mode,
            "Set the mode of the cloud, or with null none",
            mode_schemas.CHANGE_ANSWER,
            rule=mode_rules.SET,
            body=mode_schemas.CHANGE,
            since=V1_3,
        )
    },
    "/v1/modes/aggregates": {
        "PUT": Operation(
            modes.set_aggregate_mode,
            "Set the mode of a host aggregate, or with null none",
            mode_schemas.CHANGE_ANSWER,
            rule=mode_rules.SET,
            body=mode_schemas.CHANGE_OF_AGGREGATE,
            since=V1_3,
        )
    },
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
    "/v1/actions": {
        "GET": Operation(
            actions.list_actions,
            "What agents did or propose",
            action_schemas.LIST_ANSWER,
            rule=action_rules.SHOW,
            query=action_schemas.LIST_QUERY,
            since=V1_1,
        )
    },
    "/v1/actions/{action_id}": {
        "GET": Operation(
            actions.show_action,
            "One action: what, why, what else was weighed, how it turned out",
            action_schemas.SHOW_ANSWER,
            rule=action_rules.SHOW,
            query=action_schemas.ONE_QUERY,
            since=V1_1,
            errors=(Code.ACTION_NOT_FOUND, Code.AMBIGUOUS),
        )
    },
    "/v1/actions/{action_id}/accept": {
        "POST": Operation(
            actions.accept_action,
            "Accept a proposal: its agent, in mode advise, applies it",
            action_schemas.ACCEPT_ANSWER,
            rule=action_rules.ACCEPT,
            query=action_schemas.ONE_QUERY,
            body=action_schemas.EMPTY_BODY,
            errors=(Code.ACTION_NOT_FOUND, Code.AMBIGUOUS, *TOLD),
        )
    },
    "/v1/actions/{action_id}/undo": {
        "POST": Operation(
            actions.undo_action,
            "Have its agent undo it",
            action_schemas.UNDO_ANSWER,
            rule=action_rules.UNDO,
            query=action_schemas.ONE_QUERY,
            body=action_schemas.EMPTY_BODY,
            since=V1_1,
            errors=(Code.ACTION_NOT_FOUND, Code.AMBIGUOUS, *TOLD),
        )
    },
    "/v1/escalations": {
        "GET": Operation(
            escalations.list_escalations,
            "What agents asked the cluster for, the newest first",
            escalation_schemas.LIST_ANSWER,
            rule=escalation_rules.SHOW,
            query=escalation_schemas.LIST_QUERY,
            since=V1_1,
        )
    },
    "/v1/escalations/{escalation_id}": {
        "GET": Operation(
            escalations.show_escalation,
            "One escalation: why, who could move, what was tried",
            escalation_schemas.SHOW_ANSWER,
            rule=escalation_rules.SHOW,
            since=V1_1,
            errors=(Code.ESCALATION_NOT_FOUND,),
        )
    },
    "/v1/escalations/{escalation_id}/accept": {
        "POST": Operation(
            escalations.accept_escalation,
            "Accept the migration that it proposes",
            escalation_schemas.ACCEPT_ANSWER,
            rule=escalation_rules.ACCEPT,
            body=action_schemas.EMPTY_BODY,
            since=V1_1,
            errors=(Code.ESCALATION_NOT_FOUND, Code.NOT_PROPOSED),
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
    "/v1/what-if": {
        "POST": Operation(
            what_if.ask_what_if,
            "What a server or a flavor would meet on each host",
            what_if_schemas.ANSWER,
            rule=what_if_rules.ASK,
            query=what_if_schemas.QUERY,
            body=what_if_schemas.BODY,
            since=V1_3,
            errors=(Code.VP_NOT_FOUND,),
        )
    },
    "/v1/profiles": {
        "GET": Operation(
            profiles.list_profiles,
            "What servers of each flavor and image were measured to be like",
            profile_schemas.LIST_ANSWER,
            rule=service_rules.SHOW_PROFILES,
            query=profile_schemas.LIST_QUERY,
            since=V1_1,
        )
    },
    "/v1/profiles/{profile_id}": {
        "GET": Operation(
            profiles.show_profile,
            "Those of one flavor and image",
            profile_schemas.SHOW_ANSWER,
            rule=service_rules.SHOW_PROFILES,
            since=V1_1,
            errors=(Code.PROFILE_NOT_FOUND,),
        )
    },
    "/v1/policies": {
        "GET": Operation(
            service.show_policies,
            "Options and rules in force, and how many hosts are in which mode",
            service_schemas.POLICIES_ANSWER,
            rule=service_rules.SHOW_POLICIES,
            since=V1_1,
        )
    },
    "/v1/health": {
        "GET": Operation(
            service.show_health,
            "How well the service is",
            service_schemas.HEALTH_ANSWER,
            rule=service_rules.SHOW_HEALTH,
            since=V1_1,
        )
    },
}

PUBLIC = frozenset(
    path for path, methods in ROUTES.items() if any(o.is_public for o in methods.values())
)
"""Answered without a token: clients discover versions and operations before they have one."""
