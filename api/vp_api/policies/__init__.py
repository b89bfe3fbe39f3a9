# SPDX-License-Identifier: Apache-2.0
"""Policy rules, one file per resource with the name of its handlers."""

from oslo_policy import policy

from vp_api.policies import hosts, vps


def list_rules() -> list[policy.RuleDefault]:
    return [*hosts.RULES, *vps.RULES]
