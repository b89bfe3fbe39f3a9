# SPDX-License-Identifier: Apache-2.0
"""Hosts as operators see them, and what can be told to their agents.

An answer means that the agent acknowledged; the next report shows it everywhere else.
"""

from oslo_log import log as logging

from nova_vp.cloud_modes import NOT_SET
from nova_vp.db.filters import HostFilter
from nova_vp.db.records import HostRecord
from vp_api import paging
from vp_api.agent_errors import telling
from vp_api.errors import ApiError, Code
from vp_api.operation import Answer, Call
from vp_api.versions import V1_1, V1_2, V1_3, V1_4
from vp_api.views import history, operator
from vp_api.vp_report import age_of, fresh_since

LOG = logging.getLogger(__name__)


def list_hosts(call: Call) -> Answer:
    now = call.services.clock()
    is_stale = call.query.get("is_stale")
    wanted = HostFilter(
        mode=call.query.get("mode"),
        heard_since=fresh_since(now) if is_stale is False else None,
        not_heard_since=fresh_since(now) if is_stale else None,
    )
    page, has_heat = paging.page_of(call, "name:asc"), call.query.get("heat", False)
    if has_heat and call.version < V1_3:
        raise ApiError(Code.BAD_REQUEST, f"Ask for microversion {V1_3} or later to set heat.")
    found = call.services.stored.browser.list_hosts(wanted, page, has_heat=has_heat)
    told = [operator.host_summary(one, age_of(one.received_at, now)) for one in found.items]
    if call.version >= V1_3:
        told = [
            {**one, "mode_source": operator.mode_source(summary.mode_source)}
            for summary, one in zip(found.items, told, strict=True)
        ]
    if has_heat:
        told = [
            one
            | operator.heat(summary.heat, is_stale=one["is_stale"], has_losses=call.version >= V1_4)
            for summary, one in zip(found.items, told, strict=True)
        ]
    return paging.answer(call, "hosts", told, found.marker)


def show_host(call: Call, host: str) -> Answer:
    record = _find(call, host)
    age = age_of(record.received_at, call.services.clock())
    most = call.services.conf.vp_scheduler.llc_permits_per_domain
    told = operator.host(record, age, most, is_full=call.version >= V1_1)
    if call.version >= V1_2:
        told["latency_projects"] = record.report.get("latency_projects", [])
    if call.version >= V1_3:
        told |= operator.overlays_of_host(record, has_loans=call.version >= V1_4)
        told |= operator.modes_of_host(record.report)
    if call.version >= V1_4:
        told["vps"] = operator.losses_on_host(told["vps"], record, age)
    return {"host": told}


def change_host(call: Call, host: str) -> Answer:
    mode = call.body["mode"]
    if mode is None and call.version < V1_3:
        raise ApiError(Code.BAD_REQUEST, f"Ask for microversion {V1_3} or later to unset a mode.")
    record = _find(call, host)
    with telling(record.host):
        call.services.agents.set_mode(record.host, mode or NOT_SET)
    LOG.info("host=%s mode=%s set by user=%s", record.host, mode, call.user_id)
    return {"host": {"name": record.host, "mode": mode}}


def show_host_history(call: Call, host: str) -> Answer:
    """Of a host that is not known any more too, as long as its history is kept."""
    minutes = paging.Minutes(call)
    browser = call.services.stored.browser
    found = browser.host_history(host, minutes.begin, minutes.end, minutes.every)
    if not found:
        _find(call, host)
    told = [history.of_host(one, has_losses=call.version >= V1_4) for one in found]
    return paging.answer(call, "history", told, minutes.marker)


def _find(call: Call, name: str) -> HostRecord:
    record = call.services.stored.browser.get_host(name)
    if record is None:
        raise ApiError(
            Code.HOST_NOT_FOUND,
            f"No report of host '{name}' is stored. `openstack vp host list` lists the known "
            "hosts. Check vp-agent on that host, and vp-scheduler on the controllers.",
        )
    return record
