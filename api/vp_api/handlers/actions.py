# SPDX-License-Identifier: Apache-2.0
"""Actions of all agents, as they turned out, and the commands that name one: accept, reject, undo.

Operators only: an action's id, host and server tell of neighbours. A tenant asks for the actions of
a server of its own instead.
"""

from collections.abc import Callable
from typing import Any

from oslo_log import log as logging

from nova_vp.db.filters import ActionFilter
from nova_vp.db.records import ActionRecord
from nova_vp.db.report_store import ERRORS as STORE_ERRORS
from vp_api import paging
from vp_api.agent_errors import telling
from vp_api.errors import ApiError, Code
from vp_api.operation import Answer, Call
from vp_api.versions import V1_4
from vp_api.views import actions as action_views

LOG = logging.getLogger(__name__)


def list_actions(call: Call) -> Answer:
    query = call.query
    wanted = ActionFilter(
        span=paging.span_of(call),
        host=query.get("host"),
        uuid=query.get("server_id"),
        project_id=query.get("project_id"),
        result=query.get("result"),
    )
    browser = call.services.stored.browser
    found = browser.list_actions(wanted, paging.page_of(call, "at:desc"))
    names = browser.names_of(action_views.servers_in(found.items))
    told = [_stored(call, one, names) for one in found.items]
    return paging.answer(call, "actions", told, found.marker)


def show_action(call: Call, action_id: str) -> Answer:
    found = _find(call, action_id)
    names = call.services.stored.browser.names_of(action_views.servers_in([found]))
    return {"action": _stored(call, found, names)}


def _stored(call: Call, one: ActionRecord, names: action_views.Names) -> dict[str, Any]:
    return action_views.stored_action(one, names, has_acceptance=call.version >= V1_4)


def accept_action(call: Call, action_id: str) -> Answer:
    """The agent applies it with its next tick; it alone knows which proposals still stand. Who
    accepted it is kept here, since agents are not told; that cannot be kept does not undo it."""
    host = _order(call, action_id, "accept", call.services.agents.accept)
    try:
        call.services.stored.actions.note_accepted(host, action_id, by=call.user_id)
    except STORE_ERRORS as exc:
        LOG.warning("action=%s host=%s: who accepted it is not stored: %s", action_id, host, exc)
    return {"action": {"id": action_id, "host": host, "is_accepted": True}}


def reject_action(call: Call, action_id: str) -> Answer:
    """The agent withdraws it with its next tick, and records who rejected it and why."""
    by, why = call.user_id, call.body.get("reason", "")

    def reject(host: str, action_id: str) -> None:
        call.services.agents.reject(host, action_id, by, why)

    host = _order(call, action_id, "reject", reject)
    return {"action": {"id": action_id, "host": host, "is_rejected": True}}


def undo_action(call: Call, action_id: str) -> Answer:
    """The agent undoes it with its next tick; it alone knows what is still in force."""
    host = _order(call, action_id, "undo", call.services.agents.undo)
    return {"action": {"id": action_id, "host": host, "is_undone": True}}


def _order(call: Call, action_id: str, verb: str, tell: Callable[[str, str], None]) -> str:
    host = _find(call, action_id).host
    with telling(host):
        tell(host, action_id)
    LOG.info("action=%s host=%s %s by user=%s", action_id, host, verb, call.user_id)
    return host


def _find(call: Call, action_id: str) -> ActionRecord:
    found = call.services.stored.browser.find_actions(action_id, call.query.get("host"))
    if not found:
        raise ApiError(
            Code.ACTION_NOT_FOUND,
            f"No action '{action_id}' is stored. `openstack vp action list` lists the stored "
            "actions. A new action appears with the next report of its host.",
        )
    if len(found) > 1:
        hosts = ", ".join(one.host for one in found)
        raise ApiError(Code.AMBIGUOUS, f"Name its host with ?host=, one of {hosts}.")
    return found[0]
