# SPDX-License-Identifier: Apache-2.0
"""CPU caps: a tenth at a time, never below the flavor's floor, never without a lease, and back up.

The thesis (2.1.3, 2.2) caps an interfering VP by 10 % per action where nothing can be moved; what
lifts a cap it leaves open. Here a cap is renewed while the agent lives, raised by one step once it
stood for `cap_probe_s` and its victim is well, and, if that hurts again, put back and left for the
hold.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from nova_vp.core.model.host import Host
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob, Quota
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import Reason
from nova_vp.core.types.state import Cap, CoreState
from nova_vp.core.types.want import PredictedLoss, Setting, Want

CAP_STEP = 0.1
LEASE_S = 60.0


def next_lower_cap(guest: Guest, busiest_cores: float, state: CoreState) -> Setting | None:
    """One step down, or None: at its floor, or its flavor forbids caps. Who uses less than it was
    given would not feel a tenth less of that: the step is one of what its busiest vCPU used at
    most lately, since the quota is each vCPU's."""
    if guest.cap_floor_ratio is None:
        return None
    own = _own_quota(guest, state)
    cap = state.caps.get(guest.uuid)
    ratio = cap.ratio if cap else 1.0
    used_ratio = busiest_cores / own.cores
    at_first = min((cap.busiest_cores if cap else busiest_cores) / own.cores, 1.0)
    lower = round(min(ratio - CAP_STEP * at_first, used_ratio * (1 - CAP_STEP)), 6)
    if lower < guest.cap_floor_ratio < round(min(ratio, used_ratio), 3):
        lower = guest.cap_floor_ratio
    return capped(guest, own, lower) if lower >= guest.cap_floor_ratio else None


def loss_ratio(guest: Guest, setting: Setting, busiest_cores: float, state: CoreState) -> float:
    """What a cap takes from a guest's busiest vCPU in all its steps, of the CPU that it used before
    the first: the others lose less, or nothing."""
    cap = state.caps.get(guest.uuid)
    left = cast(Quota, setting.value).cores
    used = cap.busiest_cores if cap else busiest_cores
    return 1 - left / used if used else 0.0


def capped(guest: Guest, own: Quota, ratio: float) -> Setting:
    """`ratio` of what Nova gave it; all of it is no cap."""
    if ratio >= 1.0:
        return Setting(guest.uuid, Knob.CPU_CAP, own)
    quota = Quota(round(own.cores * ratio * own.period_us), own.period_us)
    return Setting(guest.uuid, Knob.CPU_CAP, quota)


def forget_ended_caps(state: CoreState, picture: Picture) -> CoreState:
    """A cap that our journal does not hold any more ended without us: by its lease, by a reboot."""
    if not state.caps and not state.lifted_at_s:
        return state
    stands = {u for u, applied in picture.applied.items() if applied.of(Knob.CPU_CAP)}
    present = {guest.uuid for guest in picture.guests}
    caps = {uuid: cap for uuid, cap in state.caps.items() if uuid in stands & present}
    lifted = {uuid: at_s for uuid, at_s in state.lifted_at_s.items() if uuid in present}
    if len(caps) == len(state.caps) and len(lifted) == len(state.lifted_at_s):
        return state
    return replace(state, caps=caps, lifted_at_s=lifted)


def keep_caps(host: Host, state: CoreState, picture: Picture, policy: Policy) -> Iterator[Want]:
    """For each cap that stands: renew its lease, raise it, or lift it."""
    for uuid, cap in state.caps.items():
        guest = host.guests.get(uuid)
        if guest is None or guest.unmanaged:
            continue
        own = _own_quota(guest, state)
        want = _raised(host, guest, cap, own, picture.at_s, policy)
        if want is not None:
            yield want
        elif _runs_out(picture, uuid):
            yield _want(guest, capped(guest, own, cap.ratio), Reason.RENEW_CAP, cap)


def lifted_lately(state: CoreState, now_s: float, policy: Policy) -> frozenset[str]:
    """Whose cap was raised within the last probe: they are the first suspects."""
    return frozenset(
        uuid for uuid, at_s in state.lifted_at_s.items() if now_s - at_s <= policy.cap_probe_s
    )


def _raised(
    host: Host, guest: Guest, cap: Cap, own: Quota, now_s: float, policy: Policy
) -> Want | None:
    victim = host.vps.get(cap.victim_uuid)
    if victim is None or not host.guests[cap.victim_uuid].is_running:
        return _want(guest, capped(guest, own, 1.0), Reason.LIFT_CAP, cap)
    if victim.detection is not None or now_s < _probe_at_s(cap, policy):
        return None
    ratio = min(1.0, round(cap.ratio + CAP_STEP, 6))
    return _want(guest, capped(guest, own, ratio), Reason.LIFT_CAP, cap)


def _probe_at_s(cap: Cap, policy: Policy) -> float:
    """A cap that was lifted and had to come back is not lifted again within the hold."""
    came_back = (
        cap.lifted_at_s is not None and cap.changed_at_s - cap.lifted_at_s < policy.reverse_hold_s
    )
    return cap.changed_at_s + (policy.reverse_hold_s if came_back else policy.cap_probe_s)


def _runs_out(picture: Picture, uuid: str) -> bool:
    applied = picture.applied.get(uuid)
    held = applied.of(Knob.CPU_CAP) if applied else None
    return held is not None and (held.until_s or 0.0) - picture.at_s < LEASE_S / 2


def _want(guest: Guest, setting: Setting, reason: Reason, cap: Cap) -> Want:
    return Want(
        controller=cap.controller,
        guest_uuid=guest.uuid,
        settings=(setting,),
        domain_ids=(),
        reason=reason,
        predicted_loss=PredictedLoss(0.0, 0.0),
        evidence={"cap_ratio": cap.ratio},
    )


def _own_quota(guest: Guest, state: CoreState) -> Quota:
    """What Nova gave the guest: what it has now, unless that is ours."""
    cap = state.caps.get(guest.uuid)
    return cap.original if cap else guest.quota
