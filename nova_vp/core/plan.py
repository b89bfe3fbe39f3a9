# SPDX-License-Identifier: Apache-2.0
"""From wants to actions: only what differs from what is applied, each with its reason and id.

An id is made from what the action means, so that a proposal keeps its name while it stands and
an operator can accept it a minute later.
"""

import zlib
from collections.abc import Iterable, Mapping

from nova_vp.core.model import Action, Applied, Guest, Hurt, Picture, Reason, Want
from nova_vp.core.want import measured_loss_ratio


def plan(wants: Iterable[Want], picture: Picture) -> tuple[Action, ...]:
    guests = {guest.uuid: guest for guest in picture.guests}
    return tuple(
        _action(want, guests[want.guest_uuid], picture)
        for want in wants
        if guests[want.guest_uuid].placement != want.cpus
    )


def _action(want: Want, guest: Guest, picture: Picture) -> Action:
    applied = picture.applied.get(guest.uuid)
    detection = want.detection
    return Action(
        id=_id(want, guest),
        controller=want.controller,
        guest_uuid=guest.uuid,
        cpus=want.cpus,
        from_cpus=guest.placement,
        original_cpus=applied.original_cpus if applied else guest.placement,
        domain_ids=want.domain_ids,
        reason=want.reason,
        decided_s=picture.at_s,
        hurt=want.hurt,
        victim_uuid=detection.victim_uuid if detection else None,
        evidence=_evidence(want),
        rejected=want.rejected,
        is_undo=want.reason is Reason.INEFFECTIVE,
    )


def _id(want: Want, guest: Guest) -> str:
    since_s = want.detection.since_s if want.detection else 0.0
    meaning = (want.reason.value, guest.uuid, guest.generation, sorted(want.cpus), since_s)
    return f"{want.controller}-{zlib.crc32(repr(meaning).encode()):08x}"


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
        "measured_loss_ratio": measured_loss_ratio(detection),
    }
    for suspect in detection.suspects:
        if suspect.guest_uuid == want.guest_uuid:
            evidence["suspect_misses_per_s"] = suspect.pressure_per_s
            evidence["suspect_rise_per_s"] = suspect.rise_per_s
    return evidence


def lost_placements(picture: Picture) -> tuple[Want, ...]:
    """Journalled placements that the host forgot (new vCPU threads, a rewritten cpuset).

    One that reaches beyond the guest's bound of now (a CPU went offline) stays forgotten.
    """
    return tuple(
        _again(applied, guest, picture)
        for guest in picture.guests
        if not guest.unmanaged
        and (applied := picture.applied.get(guest.uuid))
        and guest.placement != applied.cpus
        and guest.placement == applied.original_cpus
        and applied.cpus <= guest.allowed_cpus & picture.topology.cpus
    )


def _again(applied: Applied, guest: Guest, picture: Picture) -> Want:
    return Want(
        controller=applied.controller,
        guest_uuid=guest.uuid,
        domain_ids=tuple(d.id for d in picture.topology.domains if d.cpus & applied.cpus),
        cpus=applied.cpus,
        reason=Reason.REAPPLY,
        hurt=Hurt(0.0, 0.0),
    )
