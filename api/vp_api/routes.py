# SPDX-License-Identifier: Apache-2.0
"""The one table of routes: each operation with its policy, schemas, errors and microversion.

What tenants may ask for, too, stands in `server_routes.py`.
"""

from functools import cache

from vp_api import openapi
from vp_api.errors import DOCUMENT, Code
from vp_api.handlers import (
    actions,
    escalations,
    hosts,
    modes,
    profiles,
    root,
    service,
    what_if,
)
from vp_api.operation import Answer, Call, Operation, Routes
from vp_api.policies import actions as action_rules
from vp_api.policies import escalations as escalation_rules
from vp_api.policies import hosts as host_rules
from vp_api.policies import modes as mode_rules
from vp_api.policies import service as service_rules
from vp_api.policies import what_if as what_if_rules
from vp_api.schemas import actions as action_schemas
from vp_api.schemas import escalations as escalation_schemas
from vp_api.schemas import history as history_schemas
from vp_api.schemas import hosts as host_schemas
from vp_api.schemas import modes as mode_schemas
from vp_api.schemas import profiles as profile_schemas
from vp_api.schemas import root as root_schemas
from vp_api.schemas import service as service_schemas
from vp_api.schemas import what_if as what_if_schemas
from vp_api.server_routes import SERVER_ROUTES
from vp_api.versions import V1_1, V1_3, V1_4

TOLD = (Code.AGENT_REFUSED, Code.BUS_UNAVAILABLE, Code.AGENT_SILENT)
"""What can go wrong where an agent is told something."""


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
    **SERVER_ROUTES,
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
    "/v1/actions/{action_id}/reject": {
        "POST": Operation(
            actions.reject_action,
            "Reject a proposal: its agent does not make it again for a time",
            action_schemas.REJECT_ANSWER,
            rule=action_rules.REJECT,
            query=action_schemas.ONE_QUERY,
            body=action_schemas.REJECTION,
            since=V1_4,
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
