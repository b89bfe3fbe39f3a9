# SPDX-License-Identifier: Apache-2.0
"""vp-api for the user of a request: with the user's token, at the endpoint of the catalog.

A view reads what it shows each time: nothing is kept, so that no number is older than the page.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.utils.translation import gettext as _
from horizon import exceptions
from openstack_dashboard.api import base, keystone, nova

from vp_client.client import Client
from vp_client.errors import LoginFailed, Refused, Unreachable, VpError
from vp_client.transport import SERVICE_TYPE
from vp_dashboard import nova_flavors, nova_names
from vp_dashboard.adapters import adapter_of
from vp_dashboard.names import AmbiguousProject

LOG = logging.getLogger(__name__)

PERMISSION = f"openstack.services.{SERVICE_TYPE}"
"""Who has no such service in the catalog gets no panel."""
NOT_FOUND = 404


def client_of(request: Any) -> Client:
    return Client(
        adapter_of(request, SERVICE_TYPE),
        find_servers=lambda name: nova_names.servers_named(request, name),
        find_project=lambda project, domain: _project(request, project),
        find_flavor=lambda flavor: _flavor(request, flavor),
    )


class NoFlavors(VpError):
    """Nova cannot be asked."""


def flavors(request: Any) -> list[Any]:
    """Those that the user may use, with their extra specs. Raises NoFlavors."""
    try:
        return list(nova.flavor_list(request, is_public=None, get_extras=True))
    except exceptions.RECOVERABLE as exc:
        LOG.warning("Nova cannot be asked for flavors: %s", exc)
        raise NoFlavors(_("Nova does not answer, so its flavors are not known.")) from exc


def _flavor(request: Any, wanted: str) -> dict[str, Any] | None:
    """By name or id. None: Nova has none, or cannot be asked."""
    try:
        found = flavors(request)
    except NoFlavors:
        return None
    for one in found:
        if wanted in (one.id, one.name):
            specs = dict(nova_flavors.extra_specs(one))
            return {"name": one.name, "vcpus": one.vcpus, "extra_specs": specs}
    return None


def _project(request: Any, wanted: str) -> str | None:
    """Its id, in whatever domain. None: keystone has none, or does not tell this user. Raises
    AmbiguousProject."""
    try:
        projects, _has_more = keystone.tenant_list(request, filters={"name": wanted})
    except exceptions.RECOVERABLE as exc:
        LOG.warning("keystone cannot be asked for projects: %s", exc)
        return None
    found = [one.id for one in projects]
    if len(found) > 1:
        raise AmbiguousProject(wanted, found)
    return found[0] if found else None


def is_registered(request: Any) -> bool:
    return bool(base.is_service_enabled(request, SERVICE_TYPE))


@contextmanager
def unless_unknown() -> Iterator[None]:
    """Goes on behind the block where vp-api knows nothing of what is asked for."""
    try:
        yield
    except Refused as exc:
        if exc.status != NOT_FOUND:
            raise


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
