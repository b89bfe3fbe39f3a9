# SPDX-License-Identifier: Apache-2.0
"""Who may see the actions of all agents, and who may accept, reject or undo one."""

from oslo_policy import policy

from vp_api.policies import base

SHOW = "nova_vp:actions:show"
ACCEPT = "nova_vp:actions:accept"
REJECT = "nova_vp:actions:reject"
UNDO = "nova_vp:actions:undo"

RULES = [
    policy.DocumentedRuleDefault(
        name=SHOW,
        check_str=base.ADMIN_OR_SERVICE,
        description="List and show all actions and proposals. Never grant it to tenants.",
        operations=[
            {"method": "GET", "path": "/v1/actions"},
            {"method": "GET", "path": "/v1/actions/{action_id}"},
        ],
        scope_types=base.SCOPES,
    ),
    policy.DocumentedRuleDefault(
        name=ACCEPT,
        check_str=base.ADMIN,
        description="Accept an action that an agent in mode advise proposes.",
        operations=[{"method": "POST", "path": "/v1/actions/{action_id}/accept"}],
        scope_types=base.SCOPES,
    ),
    policy.DocumentedRuleDefault(
        name=REJECT,
        check_str=base.ADMIN,
        description="Reject an action that an agent proposes; it is not proposed again for a time.",
        operations=[{"method": "POST", "path": "/v1/actions/{action_id}/reject"}],
        scope_types=base.SCOPES,
    ),
    policy.DocumentedRuleDefault(
        name=UNDO,
        check_str=base.ADMIN,
        description="Revert an action that is applied.",
        operations=[{"method": "POST", "path": "/v1/actions/{action_id}/undo"}],
        scope_types=base.SCOPES,
    ),
]
