# SPDX-License-Identifier: Apache-2.0
"""Which groups of claims are granted: a group whole, or not at all.

Limits compose: whoever claims one is granted it, and the tightest holds (`model.limits`). A place
or the memory of a guest has one owner: of several the one with the lower rank; what stands yields
only to a lower rank still, or to its own controller. To raise a limit of another controller is
asked of that one. What is for the sake of a server that refuses help is granted to nobody.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from nova_vp.core.controllers.base import View
from nova_vp.core.model.limits import LIMITS, PLACES, is_valid, size
from nova_vp.core.pipeline.controllers import is_restated
from nova_vp.core.types.claim import Alternative, ClaimGroup, Setting
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Cpus, Knob, Quota, all_cpus
from nova_vp.core.types.reason import REAPPLY, Rejection
from nova_vp.core.types.state import CoreState


def arbitrate(
    groups: Iterable[ClaimGroup], state: CoreState, view: View
) -> tuple[tuple[ClaimGroup, ...], tuple[Alternative, ...]]:
    """The groups that are granted, and those that are not. Limits that are only restated are in
    neither."""
    granted: list[ClaimGroup] = []
    owned: set[tuple[str, str]] = set()
    refused: list[Alternative] = []
    for group in sorted(groups, key=_precedence):
        if not group.settings and not group.relaxes:
            victim = group.detection.victim_uuid if group.detection else None
            refused.extend(replace(one, victim_uuid=victim) for one in group.rejected)
        elif not _are_here(group, view):
            refused.append(refusal(group, Rejection.UNMANAGED))
        elif not is_restated(state, group):
            keys = {_owner_key(group, setting) for setting in group.settings}
            is_taken = keys & owned or _is_tightened(group, granted)
            why = Rejection.OUTRANKED if is_taken else _why_not(group, view)
            if why is None:
                owned |= keys
                granted.append(group)
            else:
                refused.append(refusal(group, why))
    return tuple(granted), tuple(refused)


def _are_here(group: ClaimGroup, view: View) -> bool:
    """All that it is about still run here."""
    about = {group.guest_uuid, *(one.guest_uuid for one in (*group.settings, *group.relaxes))}
    return about <= view.host.guests.keys()


def _owner_key(group: ClaimGroup, setting: Setting) -> tuple[str, str]:
    """What only one group may have in a tick: a guest's place, or one controller's limit."""
    if setting.knob in PLACES:
        return setting.guest_uuid, Knob.PLACEMENT.value
    if setting.knob in LIMITS:
        return setting.guest_uuid, f"{setting.knob.value} {group.controller}"
    return setting.guest_uuid, setting.knob.value


def _why_not(group: ClaimGroup, view: View) -> Rejection | None:
    if group.reason.is_revert or group.reason is REAPPLY:
        return None
    host, asked = view.host, (*group.settings, *group.relaxes)
    if host.refuses_help(group.helped_uuid):
        return Rejection.REFUSES_HELP
    if len({(one.guest_uuid, one.knob) for one in asked}) < len(asked):
        return Rejection.INVALID
    if any(one.knob not in LIMITS for one in group.relaxes):
        return Rejection.INVALID
    for setting in asked:
        why = _why_not_set(setting, group, view)
        if why is not None:
            return why
    return None if all(map(view.grants, group.relaxes)) else Rejection.NOT_RELAXED


def _why_not_set(setting: Setting, group: ClaimGroup, view: View) -> Rejection | None:
    host, knob = view.host, setting.knob
    guest = host.guests[setting.guest_uuid]
    if guest.unmanaged:
        return Rejection.UNMANAGED
    if knob not in host.knobs:
        return Rejection.NO_SUCH_KNOB
    if knob is Knob.CPU_CAP and guest.cap_floor_ratio is None:
        return Rejection.NEVER_CAPPED
    if knob in LIMITS and guest.is_latency_critical and not group.reason.limits_critical:
        return Rejection.LATENCY_CRITICAL
    if not is_valid(setting, guest, host.topology) or _leaves_island(setting, guest, group):
        return Rejection.INVALID
    if not view.may_claim(guest.uuid, knob, group.controller, group.reason.rank):
        return Rejection.OUTRANKED
    return None


def _leaves_island(setting: Setting, guest: Guest, group: ClaimGroup) -> bool:
    """Only with a CPU that its island borrows at this moment."""
    if setting.knob is not Knob.PLACEMENT or group.reason.is_at_once:
        return False
    return bool(all_cpus(cast(Cpus, setting.value)) & guest.beyond_island)


def _is_tightened(group: ClaimGroup, granted: Iterable[ClaimGroup]) -> bool:
    """It would raise what another group of this tick has just made tighter, or raised as far."""
    return any(
        (raised.guest_uuid, raised.knob) == (one.guest_uuid, one.knob)
        and size(one.value) <= size(raised.value)
        for raised in group.relaxes
        for other in granted
        for one in other.settings
    )


def _precedence(group: ClaimGroup) -> tuple[int, float, int, str]:
    """The lower rank first, then the tighter cap, then the one that caps more guests."""
    quotas = (cast(Quota, s.value) for s in group.settings if s.knob is Knob.CPU_CAP)
    caps = [quota.cores for quota in quotas if quota.period_us]
    return group.reason.rank, min(caps, default=0.0), -len(caps), group.guest_uuid


def refusal(group: ClaimGroup, why: Rejection) -> Alternative:
    """A whole group that may not be acted on now."""
    victim = group.detection.victim_uuid if group.detection else None
    domain_id = group.domain_ids[0] if group.domain_ids else 0
    return Alternative(
        group.guest_uuid,
        domain_id,
        why,
        group.predicted_loss,
        victim,
        call_ids=group.call_ids,
    )
