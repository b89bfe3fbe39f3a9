# SPDX-License-Identifier: Apache-2.0
"""What agents asked the cluster for, how far that is, and an operator's yes to what it proposes."""

from oslo_log import log as logging

from nova_vp.db.escalations import NotProposed
from vp_api import paging
from vp_api.errors import ApiError, Code
from vp_api.operation import Answer, Call
from vp_api.views import escalations

LOG = logging.getLogger(__name__)


def list_escalations(call: Call) -> Answer:
    found = call.services.stored.browser.list_escalations(
        call.query.get("host"),
        call.query.get("status"),
        paging.page_of(call, "received_at:desc"),
    )
    told = [escalations.summary(one) for one in found.items]
    return paging.answer(call, "escalations", told, found.marker)


def show_escalation(call: Call, escalation_id: str) -> Answer:
    found = call.services.stored.ledger.get(escalation_id)
    if found is None:
        raise _no_such(escalation_id)
    return {"escalation": escalations.show(found)}


def accept_escalation(call: Call, escalation_id: str) -> Answer:
    """The vp-scheduler that is next at it has the migration made, budgets permitting."""
    try:
        call.services.stored.ledger.accept(
            escalation_id, by=call.user_id, now=call.services.clock()
        )
    except KeyError as exc:
        raise _no_such(escalation_id) from exc
    except NotProposed as exc:
        raise ApiError(Code.NOT_PROPOSED, f"Check its status: {exc}.") from exc
    LOG.info("escalation=%s accepted by user=%s", escalation_id, call.user_id)
    return {"escalation": {"id": escalation_id, "is_accepted": True}}


def _no_such(escalation_id: str) -> ApiError:
    return ApiError(
        Code.ESCALATION_NOT_FOUND,
        f"No escalation '{escalation_id}' is stored. `openstack vp escalation list` lists the "
        "stored escalations.",
    )
