# SPDX-License-Identifier: Apache-2.0
"""Who may see what was learned, what is in force, and how well the service is."""

from oslo_policy import policy

from vp_api.policies import base

SHOW_PROFILES = "nova_vp:profiles:show"
SHOW_POLICIES = "nova_vp:policies:show"
SHOW_HEALTH = "nova_vp:health:show"


def _show(name: str, what: str, *paths: str) -> policy.RuleDefault:
    return policy.DocumentedRuleDefault(
        name=name,
        check_str=base.ADMIN_OR_SERVICE,
        description=f"Show {what}.",
        operations=[{"method": "GET", "path": path} for path in paths],
        scope_types=base.SCOPES,
    )


RULES = [
    _show(
        SHOW_PROFILES,
        "what servers of each flavor and image were measured to be like",
        "/v1/profiles",
        "/v1/profiles/{profile_id}",
    ),
    _show(SHOW_POLICIES, "the options and rules in force", "/v1/policies"),
    _show(SHOW_HEALTH, "how well the service is", "/v1/health"),
]
