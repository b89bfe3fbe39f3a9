# SPDX-License-Identifier: Apache-2.0
"""Virtual platforms: operators see all of all, tenants the tenant's view of their own.

A server of somebody else and one that does not exist are answered alike.
"""

from collections.abc import Iterable
from typing import Any

import webob
from oslo_context.context import RequestContext

from vp_api.context import context_of
from vp_api.errors import ApiError, Code
from vp_api.policies import vps as policies
from vp_api.requests import query_of
from vp_api.schemas import hosts as host_schemas
from vp_api.schemas import vps as schemas
from vp_api.seams import Services
from vp_api.sightings import Sighting, latest
from vp_api.views import operator, tenant


def list_vps(request: webob.Request, services: Services) -> dict[str, Any]:
    context = context_of(request)
    query = query_of(request, schemas.LIST_QUERY)
    sightings = latest(services.store.list_hosts(), services.clock())
    if "host" in query:
        # A filter by host would tell a tenant where its servers are.
        services.policy.require(context, policies.SHOW_ALL)
        sightings = [s for s in sightings if s.record.host == query["host"]]
    if services.policy.allows(context, policies.SHOW_ALL):
        return {"vps": [operator.vp_summary(s) for s in sightings]}
    own = _own(services, context, sightings)
    return {"vps": [tenant.summary(s) for s in own]}


def show_vp(request: webob.Request, services: Services, server_id: str) -> dict[str, Any]:
    context = context_of(request)
    query_of(request, host_schemas.NO_QUERY)
    found = [
        s
        for s in latest(services.store.list_hosts(), services.clock())
        if s.server_id.lower() == server_id.lower()
    ]
    if services.policy.allows(context, policies.SHOW_ALL):
        return {"vp": operator.vp(_only(found, server_id))}
    return {"vp": tenant.show(_only(_own(services, context, found), server_id))}


def _own(
    services: Services, context: RequestContext, sightings: Iterable[Sighting]
) -> list[Sighting]:
    """The caller's own. A guest without a project is nobody's, whatever the policy says."""
    return [
        sighting
        for sighting in sightings
        if sighting.vp["project_id"]
        and sighting.vp["project_id"] == context.project_id
        and services.policy.allows(
            context, policies.SHOW, {"project_id": sighting.vp["project_id"]}
        )
    ]


def _only(found: list[Sighting], server_id: str) -> Sighting:
    if not found:
        raise ApiError(
            Code.VP_NOT_FOUND,
            f"No running server '{server_id}' is known to you. `openstack vp list` shows those "
            "that are; a new one appears within seconds, if its host runs vp-agent.",
        )
    return found[0]
