# SPDX-License-Identifier: Apache-2.0
"""Virtual platforms: operators see all of all, tenants the tenant's view of their own.

A server of somebody else and one that does not exist are answered alike. An override (mode,
opt-out, priority, exemption) is stored first and then sent to the agent of the server's host. An
agent that does not answer asks for what it missed; the answer says whether it has remembered them.
"""

from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging

from nova_vp.core.types.policy import Mode
from nova_vp.db.filters import VpFilter
from nova_vp.db.gate import NEVER_WRITTEN
from nova_vp.db.overrides import ChangedMeanwhile, ChangedTooOften
from nova_vp.db.paging import BadMarker, Listed, Page, has_values
from nova_vp.db.records import StoredOverride, VpHead
from nova_vp.wire.schema_types import LEVELS
from vp_api import paging
from vp_api.agent_errors import telling
from vp_api.errors import ApiError, Code
from vp_api.operation import Answer, Call
from vp_api.policies import vps as policies
from vp_api.schemas import vps as schemas
from vp_api.versions import V1_1, V1_2, V1_3, V1_4
from vp_api.views import actions as action_views
from vp_api.views import history, operator, tenant
from vp_api.vp_groups import groups_of
from vp_api.vp_report import VpReport, age_of, fresh_since, vp_reports_of

PER_HOUR = "override_changes_per_hour"
BY_DEGRADATION = "degradation"
LOG = logging.getLogger(__name__)


def list_vps(call: Call) -> Answer:
    page = paging.page_of(call, "server_id:asc")
    if page.key in schemas.OPERATORS_ONLY_SORTS or schemas.OPERATORS_ONLY & call.query.keys():
        call.services.policy.require(call.context, policies.SHOW_ALL)
    if page.key == BY_DEGRADATION and call.version < V1_4:
        raise ApiError(Code.BAD_REQUEST, f"Ask for microversion {V1_4} or later to sort by it.")
    now = call.services.clock()
    if call.sees_all:
        found = call.services.stored.browser.list_vps(_wanted(call), page)
        told = [operator.vp_summary(one, age_of(one.received_at, now)) for one in found.items]
    else:
        found = _list_own(call, page)
        told = [tenant.summary(one, age_of(one.received_at, now)) for one in found.items]
    if call.version >= V1_1:
        told = _with_groups(call, found.items, told)
    if call.version >= V1_2:
        told = [
            {**one, **tenant.listed_service(head, age_of(head.received_at, now))}
            for head, one in zip(found.items, told, strict=True)
        ]
    if call.version >= V1_4:
        view: Any = operator if call.sees_all else tenant
        told = [
            {**one, **view.degradation(head, is_stale=one["is_stale"])}
            for head, one in zip(found.items, told, strict=True)
        ]
    return paging.answer(call, "vps", told, found.marker)


def _with_groups(
    call: Call, heads: Sequence[VpHead], told: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    groups = groups_of(call.services.stored.browser, heads, call.services.clock())
    return [
        {**one, **tenant.listed_group(head, groups.get((head.project_id, head.group)))}
        for head, one in zip(heads, told, strict=True)
    ]


def _wanted(call: Call, project_id: str | None = None) -> VpFilter:
    query = call.query
    # What holds now is asked for, and of a host that is silent nobody knows it.
    is_of_now = "state" in query or "hurt_by_neighbour" in query
    return VpFilter(
        project_id=project_id or query.get("project_id"),
        host=query.get("host"),
        name=query.get("name"),
        state=query.get("state"),
        is_hurt=query.get("hurt_by_neighbour"),
        heard_since=fresh_since(call.services.clock()) if is_of_now else None,
    )


def _list_own(call: Call, page: Page) -> Listed[VpHead]:
    project_id = call.project_id
    if not _is_own(call, project_id):
        return Listed([], None)
    # Markers hold what is sorted by, and so the second since when a state holds, or what exactly a
    # server loses.
    is_by_id = page.key in ("since", BY_DEGRADATION)
    if is_by_id and page.marker and has_values(page.marker):
        raise BadMarker(page.marker)
    found = call.services.stored.browser.list_vps(_wanted(call, project_id), page)
    marker = found.items[-1].uuid if is_by_id and found.marker else found.marker
    # A database may take two names of projects for one.
    return Listed([one for one in found.items if one.project_id == project_id], marker)


def _is_own(call: Call, project_id: str) -> bool:
    """A guest without a project is nobody's, whatever the policy says."""
    rule = call.operation.rule
    assert rule is not None
    return (
        bool(project_id)
        and project_id == call.project_id
        and call.services.policy.allows(call.context, rule, {"project_id": project_id})
    )


def show_vp(call: Call, server_id: str) -> Answer:
    report = find(call, server_id)
    view: Any = operator if call.sees_all else tenant
    told = operator.vp(report) if call.sees_all else tenant.show(report)
    if call.version >= V1_1:
        found = call.services.stored.overrides.get(report.server_id)
        overrides = view.overrides(found)
        if call.version >= V1_2:
            overrides |= tenant.levels(found)
        told = {**view.since_1_1(told, report), "overrides": overrides}
        groups = groups_of(call.services.stored.browser, [report.head], call.services.clock())
        told["group_state"] = view.group_state(next(iter(groups.values()), None))
    if call.version >= V1_2:
        told = view.since_1_2(told, report)
    if call.version >= V1_3 and call.sees_all:
        told = operator.since_1_3(told, report)
    if call.version >= V1_4:
        told |= view.degradation(report.head, is_stale=report.age.is_stale)
    return {"vp": told}


def show_vp_history(call: Call, server_id: str) -> Answer:
    """Of a server that is gone too, as long as its history is kept."""
    minutes = paging.Minutes(call)
    browser = call.services.stored.browser
    sees_all, has_losses = call.sees_all, call.version >= V1_4
    if not sees_all:
        _require_own(call, server_id)
    found = browser.vp_history(server_id, minutes.begin, minutes.end, minutes.every)
    if sees_all:
        if not found and not browser.owners_of(server_id):
            raise no_such(server_id)
        told = [history.of_vp(one, has_losses=has_losses) for one in found]
    else:
        project_id = call.project_id
        own = [one for one in found if one.vp.project_id == project_id]
        told = [tenant.history(one, has_losses) for one in tenant.one_a_minute(own)]
    return paging.answer(call, "history", told, minutes.marker)


def list_vp_actions(call: Call, server_id: str) -> Answer:
    browser = call.services.stored.browser
    sees_all = call.sees_all
    pages = paging.Skipping(call, paging.SECOND if sees_all else paging.MINUTE)
    if not sees_all:
        _require_own(call, server_id)
    elif not browser.owners_of(server_id):
        raise no_such(server_id)
    project_id = None if sees_all else call.project_id
    found = browser.vp_actions(server_id, project_id, pages.span, pages.offset, pages.limit + 1)
    marker = pages.marker([one.at for one in found[: pages.limit]], len(found) > pages.limit)
    found = found[: pages.limit]
    if sees_all:
        names = browser.names_of(action_views.servers_in(found))
        has_acceptance = call.version >= V1_4
        told = [
            action_views.stored_action(one, names, has_acceptance=has_acceptance) for one in found
        ]
    else:
        words = (tenant.action(one.action, server_id) for one in found)
        told = [one for one in words if one is not None]
    return paging.answer(call, "actions", told, marker)


def _require_own(call: Call, server_id: str) -> None:
    """It belongs to the caller's project, or did. Raises ApiError."""
    project_id = call.project_id
    owners = call.services.stored.browser.owners_of(server_id)
    if project_id not in owners or not _is_own(call, project_id):
        raise no_such(server_id)


def find(call: Call, server_id: str) -> VpReport:
    """One that the caller may know of. Raises ApiError."""
    record = call.services.stored.browser.find_vp(server_id)
    if record is not None:
        for report in vp_reports_of(record, call.services.clock()):
            if report.server_id.lower() == server_id.lower() and (
                call.sees_all or _is_own(call, report.vp["project_id"])
            ):
                return report
    raise no_such(server_id)


def no_such(server_id: str) -> ApiError:
    """Of one that does not exist and one of somebody else alike."""
    return ApiError(
        Code.VP_NOT_FOUND,
        f"You can see no running server '{server_id}'. `openstack vp list` lists the known "
        "servers. A new server appears within seconds if its host runs vp-agent.",
    )


def change_vp(call: Call, server_id: str) -> Answer:
    if call.version < V1_2 and not call.body.keys().isdisjoint(LEVELS):
        raise ApiError(
            Code.BAD_REQUEST, f"Ask for microversion {V1_2} or later to set {', '.join(LEVELS)}."
        )
    report = find(call, server_id)
    for name in call.body:
        owner = {"project_id": report.vp["project_id"]}
        call.services.policy.require(call.context, policies.CHANGES[name], owner)
    found = _put(call, report)
    said = ", ".join(f"{name}={value}" for name, value in call.body.items())
    LOG.info("vp=%s overridden by user=%s: %s", found.uuid, call.user_id, said)
    shown = operator.overrides(found) if call.sees_all else tenant.overrides(found)
    if call.version >= V1_2:
        shown |= tenant.levels(found)
    told = _tell(call, report)
    return {"vp": {"server_id": report.server_id, "overrides": shown, "is_told": told}}


def _put(call: Call, report: VpReport) -> StoredOverride:
    overrides = call.services.stored.overrides
    stands = overrides.get(report.server_id)
    now: dict[str, Any] = {
        "mode": stands and stands.mode,
        "opt_out": stands is not None and stands.opt_out,
        "priority": stands and stands.priority,
        "exempt": stands is not None and stands.exempt,
        **tenant.levels(stands),
    }
    asked = dict(call.body)
    if asked.get("mode") is not None:
        asked["mode"] = Mode(asked["mode"])
    if asked.get("priority") is not None:
        asked["priority"] = int(asked["priority"])
    try:
        return overrides.put(
            report.server_id,
            report.vp["project_id"],
            **{**now, **asked},
            by=call.user_id,
            now=call.services.clock(),
            expected=stands.version if stands else NEVER_WRITTEN,
            changes_per_hour=None if call.sees_all else call.services.conf.vp_api[PER_HOUR],
        )
    except ChangedTooOften as exc:
        raise _too_often(exc.wait_s) from exc
    except ChangedMeanwhile as exc:
        raise ApiError(
            Code.CHANGED_MEANWHILE,
            "Read the overrides of the server again, then repeat the request if it still applies.",
        ) from exc


def _too_often(wait_s: int) -> ApiError:
    error = ApiError(
        Code.TOO_MANY_CHANGES,
        f"Repeat the request in {wait_s} s. What was set before holds. Operators can change it "
        "now.",
    )
    error.headers["Retry-After"] = str(wait_s)
    return error


def _tell(call: Call, report: VpReport) -> bool:
    """Whether the agent has remembered them. Its words may name the host: they go to the log."""
    host, tellers = report.record.host, call.services.tellers
    if not tellers.acquire(blocking=False):
        LOG.warning(
            "host=%s was not told its overrides, and will ask: others wait for agents", host
        )
        return False
    servers = [vp["uuid"] for vp in report.record.report["vps"]]
    try:
        with telling(host):
            newer = _send(call, host, servers)
    except ApiError as exc:
        LOG.warning("host=%s was not told its overrides, and will ask: %s", host, exc)
        return False
    finally:
        tellers.release()
    if newer is not None:
        LOG.warning(
            "host=%s ignores its overrides: it obeys version %d, which no service has given; check"
            " the clock of that host and of this one",
            host,
            newer,
        )
    return newer is None


def _send(call: Call, host: str, servers: list[str]) -> int | None:
    """The newer version for which the agent ignores them; None: it has remembered them."""
    overrides, agents = call.services.stored.overrides, call.services.agents
    newer = agents.set_overrides(host, overrides.message(servers))
    if newer is None:
        return None
    # The database was restored, or somebody else has sent overrides to the host.
    overrides.outbid(newer, call.services.clock())
    return agents.set_overrides(host, overrides.message(servers))
