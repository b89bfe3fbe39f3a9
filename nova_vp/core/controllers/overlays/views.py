# SPDX-License-Identifier: Apache-2.0
"""Islands and overlays as they are after a run, for reports."""

from collections.abc import Mapping

from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.controllers.overlays.lending import cap_of
from nova_vp.core.model.islands import faults, with_loans
from nova_vp.core.types.island import IslandView
from nova_vp.core.types.overlay import OverlayView


def island_views(desk: Desk, problems: Mapping[str, str]) -> tuple[IslandView, ...]:
    topology = desk.view.host.topology
    wrong = faults(desk.view.policy.islands, topology)
    servers: dict[str, list[str]] = {}
    for guest in desk.view.host.guests.values():
        home = desk.home(guest)
        if home is not None:
            servers.setdefault(home.name, []).append(guest.uuid)
    return tuple(
        IslandView(
            island,
            tuple(servers.get(island.name, ())),
            cap_of(desk, island),
            topology.nodes_of(island.own_cpus),
            tuple(one for one in desk.loans if one.borrower == island.name),
            problems.get(island.name) or wrong.get(island.name, ""),
        )
        for island in with_loans(desk.view.islands, desk.loans)
    )


def overlay_views(desk: Desk) -> tuple[OverlayView, ...]:
    return tuple(_view(desk, overlay_id) for overlay_id in desk.overlays)


def _view(desk: Desk, overlay_id: str) -> OverlayView:
    account = desk.account(overlay_id)
    return OverlayView(
        overlay_id,
        sum(loan.overlay_id == overlay_id for loan in desk.loans),
        tuple(uuid for uuid, boost in desk.boosts.items() if boost.overlay_id == overlay_id),
        desk.credit_s(desk.overlays[overlay_id]) / desk.settings.credit_s,
        account.granted,
        account.refused,
    )
