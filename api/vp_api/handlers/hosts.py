# SPDX-License-Identifier: Apache-2.0
"""Hosts as operators see them, and what can be told to their agents.

An answer means that the agent acknowledged; the next report shows it everywhere else.
"""

from typing import Any

import webob
from oslo_log import log as logging

from nova_vp.db.queries import HostRecord
from vp_api.agents import telling
from vp_api.context import context_of
from vp_api.errors import ApiError, Code
from vp_api.policies import hosts as policies
from vp_api.requests import body_of, query_of
from vp_api.schemas import hosts as schemas
from vp_api.seams import Services
from vp_api.sightings import age_of
from vp_api.views import operator

LOG = logging.getLogger(__name__)


def list_hosts(request: webob.Request, services: Services) -> dict[str, Any]:
    services.policy.require(context_of(request), policies.SHOW)
    query_of(request, schemas.NO_QUERY)
    now = services.clock()
    records = services.store.list_hosts()
    return {"hosts": [operator.host_summary(record, age_of(record, now)) for record in records]}


def show_host(request: webob.Request, services: Services, host: str) -> dict[str, Any]:
    services.policy.require(context_of(request), policies.SHOW)
    query_of(request, schemas.NO_QUERY)
    record = _find(services, host)
    return {"host": operator.host(record, age_of(record, services.clock()))}


def change_host(request: webob.Request, services: Services, host: str) -> dict[str, Any]:
    context = context_of(request)
    services.policy.require(context, policies.SET_MODE)
    mode = body_of(request, schemas.CHANGE)["mode"]
    record = _find(services, host)
    with telling(record.host):
        services.agents.set_mode(record.host, mode)
    LOG.info("user %s set the mode of host %s to %s", context.user_id, record.host, mode)
    return {"host": {"name": record.host, "mode": mode}}


def accept_proposal(
    request: webob.Request, services: Services, host: str, action_id: str
) -> dict[str, Any]:
    """The agent applies it with its next tick; it alone knows which proposals still stand."""
    context = context_of(request)
    services.policy.require(context, policies.ACCEPT)
    body_of(request, schemas.ACCEPT)
    record = _find(services, host)
    with telling(record.host):
        services.agents.accept(record.host, action_id)
    LOG.info("user %s accepted %s on host %s", context.user_id, action_id, record.host)
    return {"proposal": {"id": action_id, "accepted": True}}


def _find(services: Services, name: str) -> HostRecord:
    record = services.store.get_host(name)
    if record is None:
        raise ApiError(
            Code.HOST_NOT_FOUND,
            f"No report of host '{name}' was ever stored. `openstack vp host list` shows the "
            "known ones; on that host look at vp-agent, here at vp-scheduler.",
        )
    return record
