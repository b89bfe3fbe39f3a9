# SPDX-License-Identifier: Apache-2.0
"""From wants to actions: only what differs from what is applied, each with its reason and id.

An id is made from what the action means, so that a proposal keeps its name while it stands and
an operator can accept it a minute later. What is done again, or by another run of the agent, is
another action.
"""

import zlib
from collections.abc import Iterable, Mapping
from typing import cast

from nova_vp.core.model.cpu_cap import LEASE_S
from nova_vp.core.types.action import Action, Change
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import (
    Cpus,
    CpuWeight,
    Held,
    Knob,
    LlcShare,
    MembwShare,
    Quota,
    Shares,
    Value,
    all_cpus,
)
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.reason import Reason
from nova_vp.core.types.state import CoreState
from nova_vp.core.types.want import PredictedLoss, Setting, Want

REST = 0.02
"""Share of a guest's memory that may stay where it is."""

_ALWAYS = (Reason.RENEW_CAP, Reason.REVOKED)
"""A lease runs on, memory may just have begun to move: what stands is not all there is."""
_FORGOTTEN = (Knob.PLACEMENT, Knob.CPU_WEIGHT, Knob.LLC, Knob.MEMBW)
"""What new vCPU threads start without, and what systemd writes back (daemon-reload)."""

_NUMBERS = Quota | CpuWeight | LlcShare | MembwShare


def plan(wants: Iterable[Want], state: CoreState, picture: Picture) -> tuple[Action, ...]:
    guests = {guest.uuid: guest for guest in picture.guests}
    actions = (_action(want, guests, state, picture) for want in wants)
    return tuple(action for action in actions if action.changes)


def _action(want: Want, guests: Mapping[str, Guest], state: CoreState, picture: Picture) -> Action:
    detection = want.detection
    changes = (_change(setting, guests[setting.guest_uuid], picture) for setting in want.settings)
    return Action(
        id=_id(want, guests[want.guest_uuid], state, picture.epoch),
        controller=want.controller,
        guest_uuid=want.guest_uuid,
        changes=tuple(
            change for change in changes if want.reason in _ALWAYS or differs(change.to, change.now)
        ),
        domain_ids=want.domain_ids,
        reason=want.reason,
        decided_s=picture.at_s,
        predicted_loss=want.predicted_loss,
        victim_uuid=detection.victim_uuid if detection else None,
        evidence={**_evidence(want), **want.evidence},
        rejected=want.rejected,
        is_undo=want.reason in (Reason.INEFFECTIVE, Reason.REVOKED),
        rung=want.rung,
        on_behalf_of=want.on_behalf_of,
    )


def _change(setting: Setting, guest: Guest, picture: Picture) -> Change:
    now = value_now(guest, setting.knob)
    applied = picture.applied.get(guest.uuid)
    held = applied.of(setting.knob) if applied else None
    return Change(
        guest_uuid=guest.uuid,
        knob=setting.knob,
        to=setting.value,
        now=now,
        original=held.original if held else now,
        until_s=_lease_until_s(setting, held, picture.at_s),
    )


def _lease_until_s(setting: Setting, held: Held | None, now_s: float) -> float | None:
    """No cap without a lease; what gives Nova's own quota back needs none."""
    if setting.knob is not Knob.CPU_CAP or (held and setting.value == held.original):
        return None
    return now_s + LEASE_S


def differs(one: Value, other: Value) -> bool:
    """Memory is where it is wanted once all but a rest of it is: some pages cannot move."""
    if one == other or not one or not other or isinstance(one, _NUMBERS):
        return one != other
    if isinstance(one[0], frozenset):
        return one != other
    there = dict(cast(Shares, other))
    return any(abs(share - there.get(node, 0.0)) > REST for node, share in one)


def value_now(guest: Guest, knob: Knob) -> Value:
    """What stands on the host, as read back in this tick."""
    if knob is Knob.PLACEMENT:
        return guest.cpus
    if knob is Knob.CPU_CAP:
        return guest.quota
    if knob is Knob.CPU_WEIGHT:
        return guest.cpu_weight
    if knob is Knob.MEMORY:
        return guest.memory_shares
    return guest.llc if knob is Knob.LLC else guest.membw


def _id(want: Want, guest: Guest, state: CoreState, epoch: int) -> str:
    since_s = want.detection.since_s if want.detection else 0.0
    settings = [(s.guest_uuid, s.knob.value, _plain(s.value)) for s in want.settings]
    when = (epoch, state.vps[guest.uuid].actions_done, since_s)
    meaning = (want.reason.value, guest.uuid, guest.generation, settings, when)
    return f"{want.controller}-{zlib.crc32(repr(meaning).encode()):08x}"


def _plain(value: Value) -> list[object]:
    """In one order, whatever order a set has."""
    return [sorted(part) if isinstance(part, frozenset) else part for part in value]


def _evidence(want: Want) -> Mapping[str, float]:
    """The numbers behind the action, by name: what the API and the CLI show as its reason."""
    detection = want.detection
    if detection is None:
        return {}
    evidence = {
        "memory_factor_before": detection.before.memory_factor,
        "memory_factor_now": detection.now.memory_factor,
        "l2_mpki_before": detection.before.l2_mpki,
        "l2_mpki_now": detection.now.l2_mpki,
        "mpki_before": detection.before.mpki,
        "mpki_now": detection.now.mpki,
        "measured_loss_ratio": detection.measured_loss_ratio,
    }
    for suspect in detection.suspects:
        if suspect.guest_uuid == want.guest_uuid:
            evidence["suspect_misses_per_s"] = suspect.pressure_per_s
            evidence["suspect_rise_per_s"] = suspect.rise_per_s
    return evidence


def lost_settings(picture: Picture) -> tuple[Want, ...]:
    """What the host forgot of our journal: new vCPU threads run anywhere, no share of cache or
    bandwidth binds them, and a weight can be written back.

    A placement beyond the guest's bound of now (a CPU went offline) stays forgotten.
    """
    return tuple(
        _again(held, guest, picture)
        for guest in picture.guests
        if not guest.unmanaged and (applied := picture.applied.get(guest.uuid))
        for held in applied.held
        if held.knob in _FORGOTTEN
        and value_now(guest, held.knob) == held.original != held.value
        and _is_within_bound(held, guest, picture)
    )


def _is_within_bound(held: Held, guest: Guest, picture: Picture) -> bool:
    if held.knob is not Knob.PLACEMENT:
        return True
    return all_cpus(cast(Cpus, held.value)) <= guest.allowed_cpus & picture.topology.cpus


def _again(held: Held, guest: Guest, picture: Picture) -> Want:
    is_placement = held.knob is Knob.PLACEMENT
    cpus = all_cpus(cast(Cpus, held.value)) if is_placement else guest.placement
    return Want(
        controller=held.controller,
        guest_uuid=guest.uuid,
        settings=(Setting(guest.uuid, held.knob, held.value),),
        domain_ids=tuple(d.id for d in picture.topology.domains if d.cpus & cpus),
        reason=Reason.REAPPLY,
        predicted_loss=PredictedLoss(0.0, 0.0),
    )
