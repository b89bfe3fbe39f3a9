# SPDX-License-Identifier: Apache-2.0
"""What servers with a pollution permit are billed for, by server, within full hours.

Tenants see that of their own project. How pollution was attributed tells of neighbours, and a host
of where a server is: both are for operators.
"""

from nova_vp.db.filters import Span, UsageFilter
from nova_vp.db.usage import ServerUsage
from vp_api import paging
from vp_api.operation import Answer, Call
from vp_api.policies import usage as policies


def list_usage(call: Call) -> Answer:
    page, sees_all = paging.page_of(call, "server_id:asc"), call.sees_all
    project_id = call.query.get("project_id")
    if not sees_all:
        if project_id not in (None, call.project_id):
            call.services.policy.require(call.context, policies.SHOW_ALL)
        project_id = call.project_id
        if not call.services.policy.allows(call.context, policies.SHOW, {"project_id": project_id}):
            return paging.answer(call, "usage", [], None)
    wanted = UsageFilter(
        span=Span(paging.moment_of(call, "start"), paging.moment_of(call, "end")),
        project_id=project_id,
        uuid=call.query.get("server_id"),
    )
    stored = call.services.stored
    found = stored.usage.list_usage(wanted, page)
    names = stored.browser.names_of([one.uuid for one in found.items])
    show = _operators if sees_all else _tenants
    # A database may take two names of projects for one.
    own = (one for one in found.items if sees_all or one.project_id == project_id)
    told = [show(one, names.get(one.uuid)) for one in own]
    return paging.answer(call, "usage", told, found.marker)


def _tenants(one: ServerUsage, name: str | None) -> Answer:
    return {
        "server_id": one.uuid,
        "name": name,
        "project_id": one.project_id,
        "booked_s": one.total.booked_s,
        "over_s": one.total.over_s,
        "permit_misses": one.total.permit_misses,
        "pollution_misses": one.total.pollution_misses,
        "cpu_taken_core_s": one.total.cpu_taken_core_s,
    }


def _operators(one: ServerUsage, name: str | None) -> Answer:
    return {
        **_tenants(one, name),
        "hosts": list(one.hosts),
        "sure_misses": one.total.sure_misses,
        "attributed_misses": dict(one.pollution),
    }
