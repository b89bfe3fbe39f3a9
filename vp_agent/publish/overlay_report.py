# SPDX-License-Identifier: Apache-2.0
"""What a report says of overlays and islands; pure."""

from typing import Any

from nova_vp.core.types.decision import Decision
from nova_vp.core.types.island import IslandView
from nova_vp.core.types.overlay import OverlayView
from vp_agent.format import cpu_list
from vp_agent.loop.host_overlays import ToldOverlays

MOST_ISLANDS = 1024


def overlay_fields(decision: Decision, told: ToldOverlays) -> dict[str, Any]:
    return {
        "overlays_told": {"version": told.version, "checksum": told.checksum},
        "overlays": [_overlay(view) for view in decision.overlays],
        "islands": [_island(view) for view in decision.islands[:MOST_ISLANDS]],
    }


def _overlay(view: OverlayView) -> dict[str, Any]:
    return {
        "id": view.overlay_id,
        "borrowed_cpus": view.borrowed_cpus,
        "boosted": list(view.boosted),
        "credit_ratio": min(max(view.credit_ratio, 0.0), 1.0),
        "granted": view.granted,
        "refused": view.refused,
    }


def _island(view: IslandView) -> dict[str, Any]:
    return {
        "name": view.island.name,
        "kind": view.island.scheduler.value,
        "cpus": cpu_list(view.island.cpus),
        "own_cpus": cpu_list(view.island.own_cpus),
        "cap_cpus": view.cap_cores,
        "servers": list(view.servers),
        "nodes": list(view.nodes),
        "borrowed": [
            {"cpu": one.cpu, "lender": one.lender, "overlay_id": one.overlay_id or None}
            for one in view.loans
        ],
        "problem": view.problem[:1024],
    }
