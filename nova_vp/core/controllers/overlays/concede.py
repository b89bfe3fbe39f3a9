# SPDX-License-Identifier: Apache-2.0
"""After so many refusals in a row for lack of room the host itself arbitrates.

It limits, by one step, that server of another overlay on the same CPUs whose degradation weighs
least (the source: one chosen at random). A server of another project loses at most
`most_harm_ratio`. If there is none, nothing on this host helps: the cluster is asked.
"""

from collections.abc import Iterator

from nova_vp.core.controllers.overlays.declaration import NAME, TUNE, Conceded
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.model.cpu_cap import CAP_STEP
from nova_vp.core.types.claim import Alternative, ClaimGroup, PredictedLoss
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.overlay import Overlay
from nova_vp.core.types.reason import Rejection

UNMET_S = 60.0
"""After its last refusal an overlay is not in need any more."""


def note_nack(desk: Desk, overlay: Overlay, guest: Guest) -> None:
    """A call for this server was refused for lack of room."""
    nacks = desk.account(overlay.id).nacks + 1
    desk.change_account(overlay.id, nacks=nacks, nacked_at_s=desk.now_s)
    if nacks % desk.settings.escalate_nacks == 0:
        _arbitrate(desk, overlay, guest)


def _arbitrate(desk: Desk, overlay: Overlay, guest: Guest) -> None:
    found = sorted(_candidates(desk, overlay, guest))
    if not found:
        since_s = desk.account(overlay.id).unmet_since_s
        since_s = desk.now_s if since_s is None else since_s
        desk.change_account(overlay.id, unmet_since_s=since_s, unmet_uuid=guest.uuid)
        return
    _, uuid, steps = found[0]
    until_s = desk.now_s + desk.settings.tune_lease_s
    desk.note_change(uuid)
    desk.conceded[uuid] = Conceded(overlay.id, guest.uuid, until_s, steps)


def _candidates(desk: Desk, overlay: Overlay, guest: Guest) -> Iterator[tuple[float, str, int]]:
    """Weighted loss, server and steps of those that may be limited further."""
    if Knob.CPU_CAP not in desk.view.host.knobs:
        return
    for one in desk.beside(guest):
        priority = _priority(desk, overlay, one)
        if priority is None or not _may_be_limited(one):
            continue
        before = desk.conceded.get(one.uuid)
        steps = (before.steps if before else 0) + 1
        left = round(1.0 - CAP_STEP * steps, 6)
        loss = _loss_ratio(desk, one, left)
        is_own = one.project_id == guest.project_id
        if left < (one.cap_floor_ratio or 0.0):
            continue
        if is_own or loss <= desk.settings.most_harm_ratio:
            yield loss * priority * one.priority, one.uuid, steps


def _priority(desk: Desk, overlay: Overlay, guest: Guest) -> float | None:
    """The highest of its overlays; None: it has none, or is of the same overlay."""
    if guest.uuid in overlay.members:
        return None
    of = [one.priority for one in desk.overlays.values() if guest.uuid in one.members]
    return max(of, default=None)


def _may_be_limited(guest: Guest) -> bool:
    return (
        guest.cap_floor_ratio is not None
        and guest.unmanaged is None
        and not guest.is_latency_critical
    )


def _loss_ratio(desk: Desk, guest: Guest, left_cores: float) -> float:
    busiest = desk.view.host.vps[guest.uuid].busiest_cores
    return max(1.0 - left_cores / busiest, 0.0) if busiest else 0.0


def unmet(desk: Desk) -> Iterator[ClaimGroup]:
    """What nothing on this host helps, for as long as it is asked for."""
    for overlay_id, account in desk.accounts.items():
        uuid = account.unmet_uuid
        if account.unmet_since_s is None:
            continue
        if desk.now_s - account.nacked_at_s > UNMET_S or uuid not in desk.view.host.guests:
            desk.change_account(overlay_id, unmet_since_s=None, unmet_uuid="")
            continue
        yield ClaimGroup(
            controller=NAME,
            guest_uuid=uuid,
            settings=(),
            domain_ids=(),
            reason=TUNE,
            predicted_loss=PredictedLoss(0.0, 0.0),
            rejected=(Alternative(uuid, 0, Rejection.NO_FREE_CPU),),
            evidence={"refused_calls": float(account.nacks)},
            unmet_since_s=account.unmet_since_s,
        )
