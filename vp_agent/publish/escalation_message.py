# SPDX-License-Identifier: Apache-2.0
"""An escalation as the message that asks the cluster for help; pure.

The shape is `wire.ESCALATION_SCHEMA`; texts and lists are cut to what it allows. Nothing here
sends, waits or looks at a clock.
"""

from collections.abc import Mapping
from typing import Any

from nova_vp import wire
from nova_vp.core.types.decision import Decision, Escalation, Migrant, VpView
from nova_vp.core.types.guest import Guest, Unmanaged
from nova_vp.core.types.policy import Mode, tightest
from vp_agent.publish.host_info import HostInfo
from vp_agent.publish.report import alternative, evidence, number, sensitivity

_MUST_STAY = frozenset(
    {
        Unmanaged.OPTED_OUT,
        Unmanaged.INVALID_SPEC,
        Unmanaged.NOT_NOVA,
        Unmanaged.MIGRATING,
        Unmanaged.FOREIGN_CHANGE,
        Unmanaged.LEAVING,
        Unmanaged.EXEMPT,
        Unmanaged.OVERRIDE_OBSERVE,
        Unmanaged.AWAITING_OVERRIDES,
    }
)
"""Whom nobody may move for us. Others are Nova's on this host, and Nova can move them."""


def message(
    one: Escalation,
    id: str,
    decision: Decision,
    host_info: HostInfo,
    epoch: int,
    dirty_kib_per_s: Mapping[str, float],
) -> dict[str, Any]:
    """`id`: the same however often this is sent. Without guests that left meanwhile."""
    views = {view.guest.uuid: view for view in decision.vps}
    offset_s = host_info.epoch_offset_s
    there = [migrant for migrant in one.candidates if migrant.guest_uuid in views]
    return {
        "v": wire.VERSION,
        "id": id,
        "host": host_info.host,
        "epoch": epoch,
        "at": number(one.decided_s + offset_s),
        "since": number(one.since_s + offset_s),
        "mode": decision.mode.value,
        "kind": one.kind.value,
        "victim": one.victim_uuid,
        "evidence": evidence(one.evidence),
        "rejected": [alternative(other) for other in one.rejected[:64]],
        "candidates": [
            _candidate(migrant, views[migrant.guest_uuid], dirty_kib_per_s, decision.mode)
            for migrant in there[: wire.MAX_CANDIDATES]
        ],
    }


def _candidate(
    migrant: Migrant, view: VpView, dirty: Mapping[str, float], mode: Mode
) -> dict[str, Any]:
    guest = view.guest
    rate = dirty.get(guest.uuid)
    return {
        "uuid": guest.uuid,
        "name": guest.name[:255],
        "project_id": guest.project_id[:64],
        "flavor": guest.flavor[:255],
        "image": guest.image[:36],
        "vcpus": guest.vcpus,
        "role": migrant.role.value,
        "memory_kib": guest.memory_kib,
        "dirty_kib_per_s": None if rate is None else number(rate),
        "state": view.state and view.state.number,
        "sensitivity": sensitivity(view.sensitivity),
        "priority": number(guest.priority),
        "relief_ratio": round(migrant.relief_ratio, 6),
        "others_ratio": round(migrant.others_ratio, 6),
        "obstacle": obstacle(guest, mode)[:1024],
    }


def obstacle(guest: Guest, mode: Mode) -> str:
    """Why Nova cannot live-migrate this guest, or nobody may have it moved unasked in that mode of
    the host; empty: nothing."""
    if guest.migration_obstacle:
        return guest.migration_obstacle
    if guest.mode and tightest(mode, guest.mode) is not mode:
        return f"an override sets it to mode {guest.mode.value}"
    return guest.unmanaged_detail if guest.unmanaged in _MUST_STAY else ""
