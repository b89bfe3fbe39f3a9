# SPDX-License-Identifier: Apache-2.0
"""Who may report the latency of a server: its own project alone, operators neither."""

from oslo_policy import policy

from vp_api.policies import base

REPORT = "nova_vp:latency:report"

RULES = [
    policy.DocumentedRuleDefault(
        name=REPORT,
        check_str=base.PROJECT_MEMBER,
        description="Report the latency and load of a latency-critical server. Checked with the "
        "project that owns the server, which must be that of the token. Best-effort servers of "
        "other projects on the host are limited by what is reported.",
        operations=[{"method": "PUT", "path": "/v1/vps/{server_id}/latency"}],
        scope_types=base.SCOPES,
    ),
]
