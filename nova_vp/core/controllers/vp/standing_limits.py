# SPDX-License-Identifier: Apache-2.0
"""Limits that `vp` has set and still needs: claimed again in every tick, and raised step by step.

The thesis (2.1.3, 2.2) leaves open what lifts a cap. Here one is raised by one step once it stood
for `cap_probe_s` and its victim is well, and, if that hurts again, put back and left for the hold.
"""

from collections.abc import Iterator
from typing import cast

from nova_vp.core.controllers.base import View, restated
from nova_vp.core.controllers.vp.declaration import LIFT_CAP, NAME, CapHistory, VpSettings
from nova_vp.core.model.cpu_cap import CAP_STEP, quota_of
from nova_vp.core.model.host import Host
from nova_vp.core.model.limits import LIMITS, value_from_nova
from nova_vp.core.types.claim import Claim, ClaimGroup, PredictedLoss, Setting
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.knob import Knob, Quota
from nova_vp.core.types.policy import Policy


def standing_limits(view: View, history: CapHistory, settings: VpSettings) -> Iterator[ClaimGroup]:
    """For each limit that stands: the same again, one step more, or nothing, which ends it."""
    for key, claim in view.standing(NAME):
        uuid, knob = key
        if knob not in LIMITS or not is_victim_here(view.host, claim):
            continue
        if knob is Knob.CPU_CAP and _is_due(view, uuid, claim, history, settings):
            yield from _raised(view, uuid, claim)
        else:
            yield restated(NAME, key, claim)


def is_victim_here(host: Host, claim: Claim) -> bool:
    """Whether the one that it was made for still runs here, and does not refuse help."""
    victim = host.guests.get(claim.victim_uuid or "")
    return victim is not None and victim.is_running and not victim.refuses_help


def is_victim_degraded(host: Host, claim: Claim) -> bool:
    """By a guest: no limit of one ends what the host itself does."""
    vp = host.vps.get(claim.victim_uuid or "")
    detection = vp.detection if vp else None
    return detection is not None and detection.kind is not Kind.HOST_CPU


def _is_due(view: View, uuid: str, claim: Claim, history: CapHistory, settings: VpSettings) -> bool:
    if is_victim_degraded(view.host, claim):
        return False
    raised_at_s = history.raised_at_s.get(uuid)
    return view.now_s >= _probe_at_s(claim, raised_at_s, settings, view.policy)


def _probe_at_s(
    claim: Claim, raised_at_s: float | None, settings: VpSettings, policy: Policy
) -> float:
    """A cap that was raised and had to come back is not raised again within the hold."""
    came_back = (
        raised_at_s is not None
        and raised_at_s < claim.changed_at_s
        and claim.changed_at_s - raised_at_s < policy.reverse_hold_s
    )
    return claim.changed_at_s + (policy.reverse_hold_s if came_back else settings.cap_probe_s)


def _raised(view: View, uuid: str, claim: Claim) -> Iterator[ClaimGroup]:
    """One step more; all of it is no cap."""
    guest = view.host.guests[uuid]
    own = cast(Quota, value_from_nova(guest, Knob.CPU_CAP, view.host.applied.get(uuid)))
    before = cast(Quota, claim.value).cores / own.cores
    ratio = round(before + CAP_STEP, 6)
    if ratio >= 1.0:
        return
    yield ClaimGroup(
        controller=NAME,
        guest_uuid=uuid,
        settings=(Setting(uuid, Knob.CPU_CAP, quota_of(own, ratio)),),
        domain_ids=(),
        reason=LIFT_CAP,
        predicted_loss=PredictedLoss(0.0, 0.0),
        evidence={"cap_ratio": before},
    )
