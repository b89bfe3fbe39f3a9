# SPDX-License-Identifier: Apache-2.0
"""Hosts as operators see them, and the one thing that can be said to an agent: its mode."""

from typing import Any

import oslo_messaging
import webob
from oslo_log import log as logging

from nova_vp.db.queries import HostRecord
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
    """Answers once the agent acknowledged; the next report shows it everywhere else."""
    context = context_of(request)
    services.policy.require(context, policies.SET_MODE)
    mode = body_of(request, schemas.CHANGE)["mode"]
    record = _find(services, host)
    _set_mode(services, record.host, mode)
    LOG.info("user %s set the mode of host %s to %s", context.user_id, record.host, mode)
    return {"host": {"name": record.host, "mode": mode}}


def _find(services: Services, name: str) -> HostRecord:
    record = services.store.get_host(name)
    if record is None:
        raise ApiError(
            Code.HOST_NOT_FOUND,
            f"No report of host '{name}' was ever stored. `openstack vp host list` shows the "
            "known ones; on that host look at vp-agent, here at vp-scheduler.",
        )
    return record


def _set_mode(services: Services, host: str, mode: str) -> None:
    try:
        services.agents.set_mode(host, mode)
    except oslo_messaging.MessagingTimeout as exc:
        raise ApiError(
            Code.AGENT_SILENT,
            f"The mode of '{host}' may or may not have changed: look at `openstack vp host show "
            f"{host}`. Check that vp-agent runs there and reaches the message bus, then retry.",
        ) from exc
    except oslo_messaging.RemoteError as exc:
        raise ApiError(
            Code.AGENT_REFUSED,
            f"The agent of '{host}' could not switch to {mode}; the cause is in its log there.",
        ) from exc
    except oslo_messaging.MessagingException as exc:
        LOG.warning("cannot reach the agents: %s", exc)
        raise ApiError(
            Code.BUS_UNAVAILABLE,
            "Nothing was changed. Try again; if it stays, the operator checks [bus] "
            "transport_url of vp-api and the broker.",
        ) from exc
