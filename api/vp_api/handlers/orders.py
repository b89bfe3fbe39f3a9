# SPDX-License-Identifier: Apache-2.0
"""What people order of a single server: its mode, to be left alone, its priority.

Stored first, then told to the agent of its host. An agent that does not answer asks for what it
missed, so the order holds either way; the answer says whether it was told.
"""

from typing import Any

from oslo_log import log as logging

from nova_vp.core.types.policy import Mode
from nova_vp.db.overrides import NEVER_WRITTEN, ChangedMeanwhile, ServerOrders
from vp_api.agents import telling
from vp_api.errors import ApiError, Code
from vp_api.handlers.vps import find
from vp_api.operation import Answer, Call
from vp_api.policies import vps as policies
from vp_api.sightings import Sighting
from vp_api.views import operator, tenant

LOG = logging.getLogger(__name__)


def change_vp(call: Call, server_id: str) -> Answer:
    sighting = find(call, server_id)
    for name in call.body:
        owner = {"project_id": sighting.vp["project_id"]}
        call.services.policy.require(call.context, policies.CHANGES[name], owner)
    found = _put(call, sighting)
    said = ", ".join(f"{name}={value}" for name, value in call.body.items())
    LOG.info("vp=%s ordered by user=%s: %s", found.uuid, call.user_id, said)
    shown = operator.orders(found) if call.sees_all else tenant.orders(found)
    told = _tell(call, sighting)
    return {"vp": {"server_id": sighting.server_id, "orders": shown, "is_told": told}}


def _put(call: Call, sighting: Sighting) -> ServerOrders:
    book = call.services.stored.orders
    stands = book.get(sighting.server_id)
    now: dict[str, Any] = {
        "mode": stands and stands.mode,
        "opt_out": stands is not None and stands.opt_out,
        "priority": stands and stands.priority,
    }
    asked = dict(call.body)
    if asked.get("mode") is not None:
        asked["mode"] = Mode(asked["mode"])
    if asked.get("priority") is not None:
        asked["priority"] = int(asked["priority"])
    try:
        return book.put(
            sighting.server_id,
            sighting.vp["project_id"],
            **{**now, **asked},
            by=call.user_id,
            now=call.services.clock(),
            expected=stands.version if stands else NEVER_WRITTEN,
        )
    except ChangedMeanwhile as exc:
        raise ApiError(
            Code.CHANGED_MEANWHILE,
            "Look at the server's orders again, and repeat the request if it is still right.",
        ) from exc


def _tell(call: Call, sighting: Sighting) -> bool:
    """Whether the agent has remembered them. Its words may name the host: they go to the log."""
    host, tellers = sighting.record.host, call.services.tellers
    if not tellers.acquire(blocking=False):
        LOG.warning("host=%s was not told its orders, and will ask: others wait for agents", host)
        return False
    servers = [vp["uuid"] for vp in sighting.record.report["vps"]]
    try:
        with telling(host):
            text = call.services.stored.orders.message(servers)
            call.services.agents.set_orders(host, text)
    except ApiError as exc:
        LOG.warning("host=%s was not told its orders, and will ask: %s", host, exc)
        return False
    finally:
        tellers.release()
    return True
