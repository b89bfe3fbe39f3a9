# SPDX-License-Identifier: Apache-2.0
"""A decision as the digest that Nova's schedulers place by; pure.

The shape is `wire.DIGEST_SCHEMA`. It must stay small, since every scheduler process gets one of
every host: what does not decide a placement is left out.
"""

import math
from typing import Any

from nova_vp import wire
from nova_vp.core.model.predict import newcomer_class
from nova_vp.core.types.decision import Decision, DomainView, VpView
from nova_vp.core.types.guest import Isolation
from nova_vp.core.types.service_level import ClassRoom
from vp_agent.publish.host_info import HostInfo, head


def digest(
    decision: Decision, host_info: HostInfo, version: wire.MessageVersion, now_s: float
) -> dict[str, Any]:
    """What schedulers place by, in at most `wire.DIGEST_BYTES` if leaving out domains can do it."""
    classes = dict.fromkeys(host_info.stopped_servers, wire.UNKNOWN_CLASS)
    classes |= {view.guest.uuid: _class(view) for view in decision.vps}
    seats = {uuid: wire.seat_of((), is_strict=False) for uuid in host_info.stopped_servers}
    seats |= {view.guest.uuid: _seat(view) for view in decision.vps}
    message = {
        **head(decision, host_info, version),
        "homing": host_info.is_homing,
        "age_ms": max(0, round((now_s - decision.at_s) * 1000)),
        "domains": [],
        "known": wire.pack_known(classes),
        "classes": wire.pack_classes(classes),
    }
    message |= _service(decision.class_room, host_info)
    if any(view.llc_permits for view in decision.domains):
        by_id = sorted(decision.domains, key=lambda view: view.domain.id)
        message["permits"] = [math.ceil(view.llc_permits) for view in by_id]
    room = wire.DIGEST_BYTES - len(wire.encode(wire.DIGEST_TOPIC, message))
    message["domains"] = _fitting(
        [digest_domain(view) for view in decision.domains], host_info, room
    )
    with_seats = {**message, "seats": wire.pack_seats(seats)}
    # They matter to servers of one group only: no domain is left out for them.
    return with_seats if len(wire.compact(with_seats)) <= wire.DIGEST_BYTES else message


def _service(room: ClassRoom | None, host_info: HostInfo) -> dict[str, Any]:
    if not host_info.serves_classes:
        return {"service": []}
    if room is None:
        return {}
    best_effort, latency_critical = (
        round(1000 * cores) for cores in (room.best_effort_cores, room.latency_critical_cores)
    )
    told: dict[str, Any] = {"service": [best_effort, room.best_effort_vcpus, latency_critical]}
    if room.starved:
        told["starved"] = wire.pack_known(room.starved)
    return told


def _class(view: VpView) -> int:
    """As which newcomer it would count on another host: by what it is when nobody disturbs it."""
    if view.undisturbed is None:
        return wire.UNKNOWN_CLASS
    return newcomer_class(view.undisturbed.state, view.undisturbed.sensitivity.cache)


def _seat(view: VpView) -> int:
    return wire.seat_of(view.domain_ids, view.guest.isolation is Isolation.STRICT)


def digest_domain(view: DomainView) -> dict[str, Any]:
    """What schedulers place by of one LLC domain."""
    return {
        "id": view.domain.id,
        "free_mcores": round(max(view.free_cores, 0.0) * 1000),
        "cpus": len(view.domain.cpus),
        "vcpus": round(view.allocated_vcpus),
        "newcomer": [_permille(hurt.newcomer_ratio) for hurt in view.table],
        "resident": [_permille(hurt.worst_resident_ratio) for hurt in view.table],
        "strict": [_permille(hurt.worst_strict_ratio) for hurt in view.table],
        "resources": wire.pack_resources([hurt.resource for hurt in view.table]),
    }


def _fitting(domains: list[dict[str, Any]], host_info: HostInfo, room: int) -> list[dict[str, Any]]:
    """Those that decide: where a newcomer would be homed, or, if it floats, where it is worst.

    At least one stays, whatever the size: a digest without domains would say nothing.
    """
    unknown = wire.UNKNOWN_CLASS

    def hurt(domain: dict[str, Any]) -> tuple[int, float]:
        worst = max(domain["newcomer"][unknown], domain["resident"][unknown])
        return (worst, domain["vcpus"] / domain["cpus"])

    kept: list[dict[str, Any]] = []
    for domain in sorted(domains, key=hurt, reverse=not host_info.is_homing):
        room -= len(wire.compact(domain)) + 1
        if kept and room < 0:
            break
        kept.append(domain)
    return sorted(kept, key=lambda domain: int(domain["id"]))


def _permille(ratio: float) -> int:
    return min(1000, max(0, round(ratio * 1000))) if math.isfinite(ratio) else 1000
