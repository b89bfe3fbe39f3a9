# SPDX-License-Identifier: Apache-2.0
"""What hosts and servers did, minute by minute, as operators are told it."""

from typing import Any

from nova_vp.db.records import HostAt, VpAt, VpMinute
from nova_vp.interference import is_degraded
from vp_api.views import values


def of_host(one: HostAt, *, has_losses: bool) -> dict[str, Any]:
    """`has_losses`: as since 1.4."""
    vps = one.minute.vps
    return {
        "at": values.iso_datetime(one.at),
        "mode": one.minute.mode,
        "hurt_count": sum(is_degraded(vp.state, vp.interference) is True for vp in vps),
        "vps": [
            {"server_id": vp.uuid, "project_id": vp.project_id, **_seen(vp, has_losses)}
            for vp in vps
        ],
    }


def of_vp(one: VpAt, *, has_losses: bool) -> dict[str, Any]:
    """`has_losses`: as since 1.4."""
    return {"at": values.iso_datetime(one.at), "host": one.host, **_seen(one.vp, has_losses)}


def _seen(vp: VpMinute, has_losses: bool) -> dict[str, Any]:
    losses = {"degradation_ratio": vp.loss_ratio, "waiting_ratio": vp.waiting_ratio}
    return {
        **(losses if has_losses else {}),
        "state": values.state(vp.state),
        "hurt_by_neighbour": is_degraded(vp.state, vp.interference),
        "kind": vp.interference,
        "metrics": vp.metrics or None,
    }
