# SPDX-License-Identifier: Apache-2.0
"""Policy rules, one file per resource with the name of its handlers."""

from oslo_policy import policy

from vp_api.policies import (
    actions,
    escalations,
    hosts,
    latency,
    modes,
    overlays,
    service,
    usage,
    vps,
    what_if,
)

RESOURCES = (hosts, modes, vps, latency, overlays, actions, escalations, usage, what_if, service)


def list_rules() -> list[policy.RuleDefault]:
    return [rule for resource in RESOURCES for rule in resource.RULES]
