# SPDX-License-Identifier: Apache-2.0
"""Who may see what was asked of the cluster, and who may accept what it proposes."""

from oslo_policy import policy

from vp_api.policies import base

SHOW = "nova_vp:escalations:show"
ACCEPT = "nova_vp:escalations:accept"

RULES = [
    policy.DocumentedRuleDefault(
        name=SHOW,
        check_str=base.ADMIN_OR_SERVICE,
        description="List and show escalations with candidates and migration attempts.",
        operations=[
            {"method": "GET", "path": "/v1/escalations"},
            {"method": "GET", "path": "/v1/escalations/{escalation_id}"},
        ],
        scope_types=base.SCOPES,
    ),
    policy.DocumentedRuleDefault(
        name=ACCEPT,
        check_str=base.ADMIN,
        description="Accept a live migration that the cluster service proposed in mode advise.",
        operations=[{"method": "POST", "path": "/v1/escalations/{escalation_id}/accept"}],
        scope_types=base.SCOPES,
    ),
]
