# SPDX-License-Identifier: Apache-2.0
"""Who may see hosts, and who may say what their agents do."""

from oslo_policy import policy

from vp_api.policies import base

SHOW = "nova_vp:hosts:show"
SET_MODE = "nova_vp:hosts:set_mode"

RULES = [
    policy.DocumentedRuleDefault(
        name=SHOW,
        check_str=base.ADMIN_OR_SERVICE,
        description="List and show hosts: topology, servers, counters, proposals.",
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
        description="Set the mode of a host: observe, advise or enforce.",
        operations=[{"method": "PATCH", "path": "/v1/hosts/{host}"}],
        scope_types=base.SCOPES,
    ),
]
