# SPDX-License-Identifier: Apache-2.0
"""Overlays: listed, shown, created, changed, deleted, and which servers are in them.

A change is stored first and then sent to the hosts of the servers. Hosts that do not hear of it are
told by vp-scheduler with their next report.
"""

import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from oslo_log import log as logging

from nova_vp import wire
from nova_vp.core.types.overlay import ArbitrationClass
from nova_vp.db.overlays import (
    InAnotherOverlay,
    Limits,
    ListedOverlay,
    NameTaken,
    TooManyOverlays,
    TooManyServers,
)
from nova_vp.overlay_message import overlays_text
from nova_vp.registered_overlay import PRIORITY, RegisteredOverlay, overlays_on_host, running_in
from vp_api import overlay_access, paging
from vp_api.agent_errors import sending
from vp_api.errors import ApiError, Code
from vp_api.handlers.vps import no_such as no_such_server
from vp_api.operation import Answer, Call
from vp_api.overlay_access import KnownOverlay
from vp_api.policies import overlays as policies
from vp_api.project_rate import TooMany
from vp_api.views import overlays as views

LOG = logging.getLogger(__name__)
MOST_HOSTS = 32
"""Whose reports are read for one answer, and who are told at once; the others are told later."""
RANKS = ("priority", "arbitration")


def list_overlays(call: Call) -> Answer:
    sees_all = call.sees_all
    project_id = call.query.get("project_id", None if sees_all else call.project_id)
    page = paging.page_of(call, "name:asc")
    if not sees_all and not _is_own(call, project_id):
        return paging.answer(call, "overlays", [], None)
    found = call.services.stored.overlays.listed(project_id, page)
    # A database may take two names of projects for one.
    items = [one for one in found.items if sees_all or one.project_id == project_id]
    told = [views.summary(one, sees_all) for one in overlay_access.known(call, items)]
    return paging.answer(call, "overlays", told, found.marker)


def _is_own(call: Call, project_id: str) -> bool:
    owner = {"project_id": project_id}
    is_own = project_id == call.project_id
    return is_own and call.services.policy.allows(call.context, policies.SHOW, owner)


def show_overlay(call: Call, overlay_id: str) -> Answer:
    return _shown(call, overlay_access.find(call, overlay_id))


def create_overlay(call: Call) -> Answer:
    project_id = call.body.get("project_id", call.project_id)
    owner = {"project_id": project_id}
    call.services.policy.require(call.context, policies.CHANGE, owner)
    _require_rank(call, project_id)
    _require_printable(call)
    count_request(call)
    servers = _own_servers(call, project_id, call.body.get("servers", ()))
    defaults = {"priority": PRIORITY, "arbitration": "priority", "target": None, "target_unit": ""}
    settings = call.services.conf.vp_api
    with _refusals():
        made = call.services.stored.overlays.create(
            str(uuid.uuid4()),
            project_id,
            call.body["name"],
            servers,
            limits=Limits(settings.overlays_per_project, settings.servers_per_overlay),
            **_written(call),
            **{**defaults, **_fields(call)} | _arbitration(call, "priority"),
        )
    LOG.info("overlay=%s created by user=%s", made.id, call.user_id)
    return _told(call, made, servers)


def change_overlay(call: Call, overlay_id: str) -> Answer:
    found = overlay_access.find_to_change(call, overlay_id)
    _require_rank(call, found.project_id)
    _require_printable(call)
    count_request(call)
    fields = {**_fields(call), **({"name": call.body["name"]} if "name" in call.body else {})}
    if "arbitration" in call.body:
        fields |= _arbitration(call, call.body["arbitration"])
    with _refusals():
        changed = call.services.stored.overlays.change(found.id, **_written(call), **fields)
    return _told(call, changed, found.heads, overlay_id)


def delete_overlay(call: Call, overlay_id: str) -> Answer:
    found = overlay_access.find_to_change(call, overlay_id)
    count_request(call)
    call.services.stored.overlays.delete(found.id, **_written(call))
    LOG.info("overlay=%s deleted by user=%s", found.id, call.user_id)
    _tell_hosts(call, found.heads)
    return {"overlay": {"id": found.id, "is_deleted": True}}


def add_servers(call: Call, overlay_id: str) -> Answer:
    found = overlay_access.find_to_change(call, overlay_id)
    count_request(call)
    servers = _own_servers(call, found.project_id, call.body["servers"])
    most = call.services.conf.vp_api.servers_per_overlay
    with _refusals():
        changed = call.services.stored.overlays.add_servers(
            found.id, servers, most=most, **_written(call)
        )
    return _told(call, changed, servers, overlay_id)


def remove_server(call: Call, overlay_id: str, server_id: str) -> Answer:
    """Also one that is gone."""
    found = overlay_access.find_to_change(call, overlay_id)
    count_request(call)
    if server_id.lower() not in found.heads:
        raise no_member(server_id)
    changed = call.services.stored.overlays.remove_servers(found.id, [server_id], **_written(call))
    return _told(call, changed, [server_id], overlay_id)


def no_member(server_id: str) -> ApiError:
    return ApiError(
        Code.VP_NOT_FOUND,
        f"Server '{server_id}' is not in this overlay. `openstack vp overlay show` lists its "
        "servers.",
    )


def count_request(call: Call) -> None:
    """Raises ApiError: the project makes too many."""
    most = call.services.conf.vp_api.overlay_requests_per_s
    try:
        call.services.overlay_rate.count(call.project_id, call.services.clock().timestamp(), most)
    except TooMany as exc:
        raise too_many(exc) from exc


def too_many(exc: TooMany) -> ApiError:
    error = ApiError(Code.TOO_MANY_CALLS, f"{exc} Wait longer after each refusal.")
    error.headers["Retry-After"] = str(exc.wait_s)
    return error


def _written(call: Call) -> dict[str, Any]:
    return {"by": call.user_id, "now": call.services.clock()}


def _require_rank(call: Call, project_id: str) -> None:
    if not call.body.keys().isdisjoint(RANKS):
        owner = {"project_id": project_id}
        call.services.policy.require(call.context, policies.RANK, owner)


def _require_printable(call: Call) -> None:
    """Raises ApiError: a text that would not show on an operator's terminal."""
    for name in ("name", "target_unit"):
        if not call.body.get(name, "").isprintable():
            raise ApiError(Code.BAD_REQUEST, f"Give `{name}` in printable characters.")


def _fields(call: Call) -> dict[str, Any]:
    names = ("priority", "target", "target_unit")
    return {name: call.body[name] for name in names if name in call.body}


def _arbitration(call: Call, default: str) -> dict[str, ArbitrationClass]:
    return {"arbitration": ArbitrationClass(call.body.get("arbitration", default))}


def _own_servers(call: Call, project_id: str, servers: Collection[str]) -> list[str]:
    """Raises ApiError: one of them is not the project's, or no host reports it."""
    heads = call.services.stored.browser.find_heads(servers)
    for one in servers:
        head = heads.get(one.lower())
        if head is None or head.project_id != project_id:
            raise no_such_server(one)
    return sorted(heads)


@contextmanager
def _refusals() -> Iterator[None]:
    """Raises ApiError for what the registry refuses."""
    try:
        yield
    except NameTaken as exc:
        raise ApiError(
            Code.NAME_TAKEN, "Give another name, or change the overlay that has it."
        ) from exc
    except TooManyOverlays as exc:
        raise ApiError(
            Code.QUOTA_EXCEEDED,
            "Delete an overlay of the project, or ask your operator for more ([vp_api] "
            "overlays_per_project).",
        ) from exc
    except TooManyServers as exc:
        raise ApiError(
            Code.QUOTA_EXCEEDED,
            "Take servers out of the overlay, or ask your operator for more ([vp_api] "
            "servers_per_overlay).",
        ) from exc
    except InAnotherOverlay as exc:
        raise ApiError(
            Code.IN_ANOTHER_OVERLAY,
            f"A server is in one overlay at most. Take {exc} out of the other one first.",
        ) from exc


def _told(
    call: Call,
    changed: RegisteredOverlay | None,
    servers: Iterable[str],
    overlay_id: str = "",
) -> Answer:
    """The overlay as it is now, of which the hosts of these servers and of its own are told."""
    if changed is None:  # Somebody has deleted it meanwhile.
        raise overlay_access.no_such(overlay_id)
    _tell_hosts(call, {*changed.servers, *servers})
    [found] = overlay_access.known(call, [ListedOverlay(changed.project_id, changed.name, changed)])
    return _shown(call, found)


def _shown(call: Call, found: KnownOverlay) -> Answer:
    records = call.services.stored.browser.get_hosts(sorted(found.hosts)[:MOST_HOSTS])
    holds = views.holds(found, records, call.services.clock())
    return {"overlay": {**views.summary(found, call.sees_all), "holds": holds}}


def _tell_hosts(call: Call, servers: Iterable[str]) -> None:
    """Nobody waits for an agent. What goes wrong is in the log: vp-scheduler tells them too."""
    stored = call.services.stored
    hosts = sorted({head.host for head in stored.browser.find_heads(list(servers)).values()})
    for record in stored.browser.get_hosts(hosts[:MOST_HOSTS]):
        running = running_in(record.report)
        version, registered = stored.overlays.of_servers(one.uuid for one in running)
        try:
            text = overlays_text(version, overlays_on_host(running, registered))
            with sending():
                call.services.agents.tell_overlays(record.host, text)
        except wire.BadMessage as exc:
            LOG.error("host=%s cannot be told of overlays: %s", record.host, exc)
        except ApiError as exc:
            LOG.warning("hosts were not told of overlays, and will be: %s", exc)
            return
