# SPDX-License-Identifier: Apache-2.0
"""What hosts and servers did, minute by minute, as operators are told it."""

from typing import Any

from nova_vp.db.records import HostAt, VpAt, VpMinute
from nova_vp.interference import is_degraded
from vp_api.views import values


def of_host(one: HostAt) -> dict[str, Any]:
    vps = one.minute.vps
    return {
        "at": values.iso_datetime(one.at),
        "mode": one.minute.mode,
        "hurt_count": sum(is_degraded(vp.state, vp.interference) is True for vp in vps),
        "vps": [{"server_id": vp.uuid, "project_id": vp.project_id, **_seen(vp)} for vp in vps],
    }


def of_vp(one: VpAt) -> dict[str, Any]:
    return {"at": values.iso_datetime(one.at), "host": one.host, **_seen(one.vp)}


def _seen(vp: VpMinute) -> dict[str, Any]:
    return {
        "state": values.state(vp.state),
        "hurt_by_neighbour": is_degraded(vp.state, vp.interference),
        "kind": vp.interference,
        "metrics": vp.metrics or None,
    }
