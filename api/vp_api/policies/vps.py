# SPDX-License-Identifier: Apache-2.0
"""Who may see a virtual platform, and who sees all of it instead of the tenant's view."""

from oslo_policy import policy

from vp_api.policies import base

SHOW = "nova_vp:vps:show"
SHOW_ALL = "nova_vp:vps:show_all"

_OPERATIONS = [
    {"method": "GET", "path": "/v1/vps"},
    {"method": "GET", "path": "/v1/vps/{server_id}"},
]

RULES = [
    policy.DocumentedRuleDefault(
        name=SHOW,
        check_str=base.PROJECT_READER_OR_OPERATOR,
        description="See a virtual platform: its state, whether a neighbour hurts it, what was "
        "done. Checked for each one with the project that owns it.",
        operations=_OPERATIONS,
        scope_types=base.SCOPES,
    ),
    policy.DocumentedRuleDefault(
        name=SHOW_ALL,
        check_str=base.ADMIN_OR_SERVICE,
        description="See the virtual platforms of every project with host, neighbours, counters "
        "and evidence. Never grant it to tenants.",
        operations=_OPERATIONS,
        scope_types=base.SCOPES,
    ),
]
