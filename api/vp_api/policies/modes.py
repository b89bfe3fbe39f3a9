# SPDX-License-Identifier: Apache-2.0
"""Who may see and set the modes of the cloud and of host aggregates."""

from oslo_policy import policy

from vp_api.policies import base

SHOW = "nova_vp:modes:show"
SET = "nova_vp:modes:set"

RULES = [
    policy.DocumentedRuleDefault(
        name=SHOW,
        check_str=base.ADMIN_OR_SERVICE,
        description="List the modes that are set for the cloud and for host aggregates.",
        operations=[{"method": "GET", "path": "/v1/modes"}],
        scope_types=base.SCOPES,
    ),
    policy.DocumentedRuleDefault(
        name=SET,
        check_str=base.ADMIN,
        description="Set the mode of the cloud or of a host aggregate: observe, advise or enforce, "
        "or none.",
        operations=[
            {"method": "PUT", "path": "/v1/modes/cloud"},
            {"method": "PUT", "path": "/v1/modes/aggregates"},
        ],
        scope_types=base.SCOPES,
    ),
]
