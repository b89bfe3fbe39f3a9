# SPDX-License-Identifier: Apache-2.0
"""Who may ask what a server would meet on each host."""

from oslo_policy import policy

from vp_api.policies import base

ASK = "nova_vp:what_if:ask"

RULES = [
    policy.DocumentedRuleDefault(
        name=ASK,
        check_str=base.ADMIN,
        description="Ask what a server would meet on each host: predicted losses, and whether the "
        "filter accepts it. Never grant it to tenants.",
        operations=[{"method": "POST", "path": "/v1/what-if"}],
        scope_types=base.SCOPES,
    ),
]
