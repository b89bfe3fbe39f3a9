# SPDX-License-Identifier: Apache-2.0
"""Which rules of vp-api a panel asks for. vp-api checks them again with each request."""

from typing import Any

from openstack_dashboard import policy

from vp_client.client import SERVICE_TYPE

HOSTS = "nova_vp:hosts:show"
SERVERS = "nova_vp:vps:show_all"
ACTIONS = "nova_vp:actions:show"
ACCEPT_ACTION = "nova_vp:actions:accept"


def rule(name: str) -> tuple[str, str]:
    return (SERVICE_TYPE, name)


def allows(request: Any, name: str) -> bool:
    return bool(policy.check((rule(name),), request))
