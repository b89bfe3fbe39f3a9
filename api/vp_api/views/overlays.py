# SPDX-License-Identifier: Apache-2.0
"""Overlays in words: to operators with the hosts, to tenants without anything of those."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from nova_vp.core.types.overlay import CallAnswer, Nack
from nova_vp.db.records import HostRecord
from vp_api.overlay_access import KnownOverlay
from vp_api.views import values
from vp_api.vp_report import age_of

TENANT_NACKS: Mapping[Nack, str] = {
    Nack.UNKNOWN_OVERLAY: "The host of the server does not know the overlay yet. Call again in a "
    "few seconds.",
    Nack.NOT_A_MEMBER: "The server does not run where it was a moment ago. Call again.",
    Nack.UNKNOWN_ISLAND: "There is no such island.",
    Nack.NO_ROOM: "There is nothing left to give now. Call again later, or with less.",
    Nack.NO_CREDIT: "The overlay has used up its credit. Call again later: credit comes back.",
    Nack.TOO_MANY_CALLS: "The overlay is called too often. Wait longer after each refusal.",
    Nack.NO_BALLOON: "The memory of this server cannot be resized while it runs. Its guest needs a "
    "balloon driver, and no passed-through device.",
    Nack.UNMANAGED: "This server is not changed. `openstack vp show` shows why.",
    Nack.MODE: "The service does not act on this server now. Ask your operator.",
    Nack.OUTRANKED: "Something that comes first limits this server now. Call again later.",
    Nack.NOTHING_TO_RELEASE: "The overlay holds nothing there.",
    Nack.NOTHING_TO_RENEW: "The overlay tuned and borrowed nothing there, or it ended. Ask anew.",
    Nack.TOO_SOON: "The server was changed too recently. Call again later.",
    Nack.HOST_REFUSED: "It could not be done now. Call again in a few seconds.",
    Nack.DISABLED: "The service does not answer calls there. Ask your operator.",
    Nack.UNREACHABLE: "A host of the overlay does not answer. Call again in a few seconds with the "
    "same id.",
}
GRANTED = "It is done."
"""To tenants: how is the host's affair."""


def summary(one: KnownOverlay, is_full: bool) -> dict[str, Any]:
    write = values.iso_datetime if is_full else values.datetime_to_minute
    told = {
        "id": one.id,
        "name": one.name,
        "project_id": one.project_id,
        "is_group": one.is_group,
        "priority": one.priority,
        "arbitration": one.arbitration.value,
        "target": one.target,
        "target_unit": one.target_unit,
        "changed_at": one.changed_at and write(one.changed_at),
        "servers": [_server(one, uuid, is_full) for uuid in one.heads],
    }
    return {**told, "changed_by": one.changed_by} if is_full else told


def _server(one: KnownOverlay, uuid: str, is_full: bool) -> dict[str, Any]:
    head = one.heads[uuid]
    told = {"server_id": uuid, "name": head and head.name, "is_reported": head is not None}
    return {**told, "host": head and head.host} if is_full else told


def holds(one: KnownOverlay, records: Iterable[HostRecord], now: datetime) -> dict[str, Any] | None:
    """What the hosts of its servers say that it holds; None: none of them says."""
    told = [
        state
        for record in records
        if not age_of(record.received_at, now).is_stale
        for state in record.report.get("overlays", ())
        if state["id"].lower() == one.id
    ]
    if not told:
        return None
    boosted = {uuid.lower() for state in told for uuid in state["boosted"]}
    return {
        "borrowed_cpus": sum(int(state["borrowed_cpus"]) for state in told),
        # A host may name any server; the overlay's own are told.
        "boosted": sorted(boosted & one.heads.keys()),
        "credit_ratio": round(min(float(state["credit_ratio"]) for state in told), 2),
        "granted": sum(int(state["granted"]) for state in told),
        "refused": sum(int(state["refused"]) for state in told),
    }


def answer(servers: Sequence[str], given: CallAnswer, is_full: bool) -> dict[str, Any]:
    if is_full:
        detail = given.detail
    else:
        detail = GRANTED if given.nack is None else TENANT_NACKS[given.nack]
    return {
        "server_ids": sorted(servers),
        "granted": given.nack is None,
        "nack": given.nack and given.nack.value,
        "detail": detail,
        "lease_s": given.lease_s,
    }
