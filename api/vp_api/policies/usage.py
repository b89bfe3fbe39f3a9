# SPDX-License-Identifier: Apache-2.0
"""Who may see what servers are billed for, and who sees that of all projects."""

from oslo_policy import policy

from vp_api.policies import base

SHOW = "nova_vp:usage:show"
SHOW_ALL = "nova_vp:usage:show_all"

# Quoted: the oldest oslo.policy that setup.cfg allows has no such class.
_OPERATIONS: "list[policy.Operation]" = [{"method": "GET", "path": "/v1/usage"}]

RULES = [
    policy.DocumentedRuleDefault(
        name=SHOW,
        check_str=base.PROJECT_READER_OR_OPERATOR,
        description="List the usage of the servers of a project that have a pollution permit. "
        "Checked with that project.",
        operations=_OPERATIONS,
        scope_types=base.SCOPES,
    ),
    policy.DocumentedRuleDefault(
        name=SHOW_ALL,
        check_str=base.ADMIN_OR_SERVICE,
        description="List the usage of the servers of every project with their hosts, and how "
        "pollution was attributed. Grant it to the user of a billing system. Never grant it to "
        "tenants.",
        operations=_OPERATIONS,
        scope_types=base.SCOPES,
    ),
]
