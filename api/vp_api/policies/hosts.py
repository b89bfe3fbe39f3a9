# SPDX-License-Identifier: Apache-2.0
"""Who may see hosts, and who may say what their agents do."""

from oslo_policy import policy

from vp_api.policies import base

SHOW = "nova_vp:hosts:show"
SET_MODE = "nova_vp:hosts:set_mode"
ACCEPT = "nova_vp:hosts:accept_proposal"

RULES = [
    policy.DocumentedRuleDefault(
        name=SHOW,
        check_str=base.ADMIN_OR_SERVICE,
        description="See hosts: topology, the virtual platforms on them, counters, proposals.",
        operations=[
            {"method": "GET", "path": "/v1/hosts"},
            {"method": "GET", "path": "/v1/hosts/{host}"},
            {"method": "GET", "path": "/v1/hosts/{host}/history"},
        ],
        scope_types=base.SCOPES,
    ),
    policy.DocumentedRuleDefault(
        name=SET_MODE,
        check_str=base.ADMIN,
        description="Say what the agent of a host may do: observe, advise or enforce.",
        operations=[{"method": "PATCH", "path": "/v1/hosts/{host}"}],
        scope_types=base.SCOPES,
    ),
    policy.DocumentedRuleDefault(
        name=ACCEPT,
        check_str=base.ADMIN,
        description="Have an agent in mode advise apply an action that it proposed.",
        operations=[{"method": "PUT", "path": "/v1/hosts/{host}/proposals/{action_id}"}],
        scope_types=base.SCOPES,
    ),
]
