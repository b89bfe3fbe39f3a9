# SPDX-License-Identifier: Apache-2.0
"""Which rules of vp-api a panel asks for. vp-api checks them again with each request."""

from typing import Any

from openstack_dashboard import policy

from vp_client.transport import SERVICE_TYPE

HOSTS = "nova_vp:hosts:show"
SERVERS = "nova_vp:vps:show_all"
OWN_SERVERS = "nova_vp:vps:show"
OPT_OUT = "nova_vp:vps:opt_out"
SET_LEVEL = "nova_vp:vps:set_level"
ACTIONS = "nova_vp:actions:show"
ACCEPT_ACTION = "nova_vp:actions:accept"
REJECT_ACTION = "nova_vp:actions:reject"
ESCALATIONS = "nova_vp:escalations:show"
ACCEPT_ESCALATION = "nova_vp:escalations:accept"
OVERLAYS = "nova_vp:overlays:show_all"
USAGE = "nova_vp:usage:show_all"
WHAT_IF = "nova_vp:what_if:ask"
MODES = "nova_vp:modes:show"
SET_MODES = "nova_vp:modes:set"


def rule(name: str) -> tuple[str, str]:
    return (SERVICE_TYPE, name)


def allows(request: Any, name: str) -> bool:
    return bool(policy.check((rule(name),), request))
