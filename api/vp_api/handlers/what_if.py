# SPDX-License-Identifier: Apache-2.0
"""What a server would meet on each host, by the last report of each and the schedulers' scoring.

Neither Nova's own filters, server groups nor servers on their way are looked at, which only Nova
knows; nor are pollution permits, which no stored report tells by LLC domain.
"""

from collections.abc import Mapping
from typing import Any

from nova_vp import wire
from nova_vp.conf.scheduler import StaleHosts
from nova_vp.core.types.guest import Isolation
from nova_vp.db.records import HostHeat
from vp_api import paging
from vp_api.newcomer import Newcomer, newcomer_of
from vp_api.operation import Answer, Call
from vp_api.views import values
from vp_api.vp_report import age_of
from vp_scheduler.placement.host_digest import Loss, Place, read_digest
from vp_scheduler.placement.scoring import score_host

NO_SERVERS = wire.pack_known(())
MOST = 1000


def ask_what_if(call: Call) -> Answer:
    limit_ratio = call.services.conf.policy.strict_max_hurt_ratio
    newcomer = newcomer_of(call, limit_ratio)
    limit = call.query.get("limit", MOST)
    found = call.services.stored.browser.list_heat(call.query.get("marker", ""), limit + 1)
    told = [_host(call, one, newcomer) for one in found[:limit]]
    marker = found[limit - 1].host if len(found) > limit else None
    answer = paging.answer(call, "hosts", told, marker)
    number = newcomer.ask.newcomer_class
    return {
        "newcomer": {
            "state": values.state(None if number == wire.UNKNOWN_CLASS else number),
            "source": newcomer.source,
            "isolation": newcomer.isolation.value,
            "vcpus": newcomer.ask.vcpus,
            "strict_max_hurt_ratio": limit_ratio,
        },
        **answer,
    }


def _host(call: Call, one: HostHeat, newcomer: Newcomer) -> dict[str, Any]:
    is_stale = age_of(one.received_at, call.services.clock()).is_stale
    if one.host == newcomer.host:
        return _told(one.host, "runs-here", is_accepted=True)
    place = None if is_stale or one.heat is None else _place(one.heat, newcomer)
    if place is None or one.heat is None:
        refuses = call.services.conf.vp_scheduler.stale_hosts == StaleHosts.REFUSE.value
        is_refused = refuses and newcomer.isolation is Isolation.STRICT
        return _told(one.host, "unknown", is_accepted=not is_refused)
    strict = place.losses[Loss.STRICT_HURT]
    is_refused = newcomer.isolation is Isolation.STRICT and strict > newcomer.ask.good_enough_ratio
    reason = "strict-loss-too-large" if is_refused else "fits"
    told = _told(one.host, reason, is_accepted=not is_refused)
    return told | _losses(place) | {"by_resource": _by_resource(one.heat, place, newcomer)}


def _place(heat: Mapping[str, Any], newcomer: Newcomer) -> Place | None:
    """None: the agent is of a release that does not say enough."""
    domains = [domain["digest"] for domain in heat["domains"]]
    if heat["homing"] is None or None in domains:
        return None
    message = {
        **{"host": "", "epoch": 0, "seq": 0, "age_ms": 0, "known": NO_SERVERS},
        "homing": heat["homing"],
        "domains": domains,
    }
    digest = read_digest(message, 0.0, newcomer.ask.good_enough_ratio)
    place = score_host(digest, newcomer.ask)
    if place is None:
        return None
    resource = digest.resource_at(place.domain_ids, newcomer.ask.newcomer_class)
    return place._replace(resource=resource)


def _told(host: str, reason: str, *, is_accepted: bool) -> dict[str, Any]:
    unknown = dict.fromkeys(("newcomer_ratio", "resident_ratio", "strict_ratio", "resource"))
    return {
        "host": host,
        "is_accepted": is_accepted,
        "reason": reason,
        "meaning": MEANINGS[reason],
        "domains": [],
        "by_resource": {},
        **unknown,
    }


MEANINGS = {
    "fits": "the filter accepts the host",
    "strict-loss-too-large": "the server or a strict server there would lose more than is "
    "allowed for strict servers",
    "unknown": "no fresh report says what it would meet there",
    "runs-here": "it runs there now, and is counted there already",
}


def _losses(place: Place) -> dict[str, Any]:
    return {
        "domains": list(place.domain_ids),
        "newcomer_ratio": place.losses[Loss.NEWCOMER],
        "resident_ratio": place.losses[Loss.RESIDENT],
        "strict_ratio": place.losses[Loss.STRICT_HURT],
        "resource": place.resource or None,
    }


def _by_resource(heat: Mapping[str, Any], place: Place, newcomer: Newcomer) -> dict[str, float]:
    """The worst of the places: of whoever loses most to each resource, with one busy vCPU."""
    number = newcomer.ask.newcomer_class
    found: dict[str, float] = {}
    for domain in heat["domains"]:
        if domain["id"] in place.domain_ids or not place.domain_ids:
            for resource, by_class in (domain["newcomer_losses"] or {}).items():
                found[resource] = max(found.get(resource, 0.0), by_class[number])
    return found
