# SPDX-License-Identifier: Apache-2.0
"""vp-api for the user of a request: with the user's token, at the endpoint of the catalog.

A view reads what it shows each time: nothing is kept, so that no number is older than the page.
"""

import logging
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _
from horizon import exceptions
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token
from openstack_dashboard.api import base, nova

from vp_client.client import Client
from vp_client.errors import LoginFailed, Refused, Unreachable, VpError
from vp_client.transport import SERVICE_TYPE
from vp_dashboard import nova_flavors

LOG = logging.getLogger(__name__)

PERMISSION = f"openstack.services.{SERVICE_TYPE}"
"""Who has no such service in the catalog gets no panel."""
TIMEOUT_S = 5.0
"""Of each request, unless the setting VP_API_TIMEOUT_S says otherwise."""


def client_of(request: Any) -> Client:
    endpoint = base.url_for(request, SERVICE_TYPE)
    session = Session(
        auth=Token(endpoint, request.user.token.id),
        timeout=getattr(settings, "VP_API_TIMEOUT_S", TIMEOUT_S),
        verify=not settings.OPENSTACK_SSL_NO_VERIFY and (settings.OPENSTACK_SSL_CACERT or True),
    )
    return Client(
        Adapter(
            session=session,
            service_type=SERVICE_TYPE,
            endpoint_override=endpoint,
            user_agent="vp-dashboard",
        ),
        find_flavor=lambda flavor: _flavor(request, flavor),
    )


def _flavor(request: Any, wanted: str) -> dict[str, Any] | None:
    """By name or id. None: Nova has none, or cannot be asked."""
    try:
        flavors = nova.flavor_list(request, is_public=None, get_extras=True)
    except exceptions.RECOVERABLE as exc:
        LOG.warning("Nova cannot be asked for flavors: %s", exc)
        return None
    for one in flavors:
        if wanted in (one.id, one.name):
            specs = dict(nova_flavors.extra_specs(one))
            return {"name": one.name, "vcpus": one.vcpus, "extra_specs": specs}
    return None


def is_registered(request: Any) -> bool:
    return bool(base.is_service_enabled(request, SERVICE_TYPE))


def problem(exc: VpError) -> str:
    """What a page shows instead of numbers. Raises NotAuthenticated: the session is over."""
    if isinstance(exc, Refused) and exc.status == 401:
        raise exceptions.NotAuthenticated from exc
    if not isinstance(exc, Unreachable | LoginFailed):
        return str(exc)
    LOG.warning("vp-api cannot be asked: %s", exc)
    message: str = _(
        "The performance isolation service does not answer. No figures are shown, because they "
        "would be out of date. Try again in a minute. If the message stays, the operator checks "
        "vp-api."
    )
    return message
