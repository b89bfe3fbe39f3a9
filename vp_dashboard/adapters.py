# SPDX-License-Identifier: Apache-2.0
"""Requests with the token of Horizon's user, at the endpoints that the catalog has."""

from typing import Any

from django.conf import settings
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token
from openstack_dashboard.api import base

TIMEOUT_S = 5.0
"""Of each request, unless the setting VP_API_TIMEOUT_S says otherwise."""


def adapter_of(request: Any, service_type: str) -> Adapter:
    """Raises ServiceCatalogException: the catalog has no such service."""
    endpoint = base.url_for(request, service_type)
    session = Session(
        auth=Token(endpoint, request.user.token.id),
        timeout=getattr(settings, "VP_API_TIMEOUT_S", TIMEOUT_S),
        verify=not settings.OPENSTACK_SSL_NO_VERIFY and (settings.OPENSTACK_SSL_CACERT or True),
    )
    return Adapter(
        session=session,
        service_type=service_type,
        endpoint_override=endpoint,
        user_agent="vp-dashboard",
    )
