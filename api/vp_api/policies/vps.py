# SPDX-License-Identifier: Apache-2.0
"""Who may see a virtual platform, who sees all of it instead of the tenant's view, who may override
what of it.

Tenants may only refuse what is done for their own servers' sake: nothing that they override is at
others' cost.
"""

from oslo_policy import policy

from nova_vp.wire.schema_types import LEVELS
from vp_api.policies import base

SHOW = "nova_vp:vps:show"
SHOW_ALL = "nova_vp:vps:show_all"
OPT_OUT = "nova_vp:vps:opt_out"
EXEMPT = "nova_vp:vps:exempt"
SET_MODE = "nova_vp:vps:set_mode"
SET_PRIORITY = "nova_vp:vps:set_priority"
SET_LEVEL = "nova_vp:vps:set_level"
CHANGES = {
    "mode": SET_MODE,
    "opt_out": OPT_OUT,
    "priority": SET_PRIORITY,
    "exempt": EXEMPT,
    **dict.fromkeys(LEVELS, SET_LEVEL),
}
"""Which rule each property of a change is asked of."""

# Quoted: the oldest oslo.policy that setup.cfg allows has no such class.
_CHANGE: "policy.Operation" = {"method": "PATCH", "path": "/v1/vps/{server_id}"}
_OPERATIONS: "list[policy.Operation]" = [
    {"method": "GET", "path": "/v1/vps"},
    {"method": "GET", "path": "/v1/vps/{server_id}"},
    {"method": "GET", "path": "/v1/vps/{server_id}/history"},
    {"method": "GET", "path": "/v1/vps/{server_id}/actions"},
]


def _order(name: str, check_str: str, description: str) -> policy.RuleDefault:
    return policy.DocumentedRuleDefault(
        name=name,
        check_str=check_str,
        description=f"{description} Checked with the project that owns the server.",
        operations=[_CHANGE],
        scope_types=base.SCOPES,
    )


RULES = [
    policy.DocumentedRuleDefault(
        name=SHOW,
        check_str=base.PROJECT_READER_OR_OPERATOR,
        description="Show a server: its state, whether a neighbour degrades it, and its "
        "actions. Checked for each server with the project that owns it.",
        operations=[*_OPERATIONS, _CHANGE],
        scope_types=base.SCOPES,
    ),
    policy.DocumentedRuleDefault(
        name=SHOW_ALL,
        check_str=base.ADMIN_OR_SERVICE,
        description="Show the servers of every project with host, neighbours, counters "
        "and evidence. Never grant it to tenants.",
        operations=[*_OPERATIONS, _CHANGE],
        scope_types=base.SCOPES,
    ),
    _order(
        OPT_OUT,
        base.PROJECT_MEMBER_OR_ADMIN,
        "Opt a server out: nothing is done for its sake. It is still restrained if it degrades "
        "others.",
    ),
    _order(
        SET_LEVEL,
        base.PROJECT_MEMBER_OR_ADMIN,
        "Set the latency target, percentile and largest load of a latency-critical server, which "
        "its host uses as far as they ask for no more than its flavor does.",
    ),
    _order(
        SET_MODE,
        base.ADMIN,
        "Set the mode of a server: observe, advise or enforce.",
    ),
    _order(
        SET_PRIORITY,
        base.ADMIN,
        "Override the priority that the flavor gives to a server.",
    ),
    _order(
        EXEMPT,
        base.ADMIN,
        "Exempt a server: it is measured, and never changed, even if it degrades others.",
    ),
]
