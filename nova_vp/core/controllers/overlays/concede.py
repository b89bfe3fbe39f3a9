# SPDX-License-Identifier: Apache-2.0
"""After so many refusals in a row for lack of room the host itself arbitrates.

It limits that server of another overlay on the same CPUs whose degradation weighs least (the
source: one chosen at random), as little as takes CPU from it. A server of another project loses at
most `most_harm_ratio`, now and later. If there is none, nothing on this host helps: the cluster is
asked.
"""

import math
from collections.abc import Iterator
from typing import cast

from nova_vp.core.controllers.overlays.declaration import NAME, TUNE, Conceded
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.model.cpu_cap import CAP_STEP
from nova_vp.core.model.limits import value_from_nova
from nova_vp.core.types.claim import Alternative, ClaimGroup, PredictedLoss
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob, Quota
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
        used = _used_ratio(desk, one)
        steps = _steps(used, before.steps if before else 0)
        left = round(1.0 - CAP_STEP * steps, 6)
        loss = max(1.0 - left / used, 0.0) if used else 0.0
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


def _used_ratio(desk: Desk, guest: Guest) -> float:
    """By its busiest vCPU, of what Nova gave it."""
    applied = desk.view.picture.applied.get(guest.uuid)
    given = cast(Quota, value_from_nova(guest, Knob.CPU_CAP, applied)).cores
    return (desk.view.host.vps[guest.uuid].busiest_cores or 0.0) / given


def _steps(used_ratio: float, before: int) -> int:
    """The fewest more that take CPU from it: nobody has more of what another one leaves idle."""
    idle = math.floor(round((1.0 - used_ratio) / CAP_STEP, 6))
    return max(before, idle) + 1


def end_too_dear(desk: Desk) -> None:
    """A server of another project that wants more now than when it was limited is limited no more,
    where its limit costs it more than it may."""
    guests = desk.view.host.guests
    for uuid, one in list(desk.conceded.items()):
        helped, use = guests.get(one.for_uuid), desk.view.host.vps[uuid].cpu_use
        is_own = helped is not None and helped.project_id == guests[uuid].project_id
        if use is None or is_own:
            continue
        wanted = use.ran_cores + use.waited_cores + use.throttled_ours_cores
        if use.throttled_ours_cores > desk.settings.most_harm_ratio * wanted:
            del desk.conceded[uuid]
            desk.note_change(uuid)


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
