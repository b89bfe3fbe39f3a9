# SPDX-License-Identifier: Apache-2.0
"""Merlin's last rung: nothing on this node helps, so the cluster is told, with the evidence.

An escalation stands as long as its victim is hurt and every alternative is refused; it keeps its
id, so that telling it twice is telling it once. It names all who could leave, and what that would
bring; who moves, and where to, is decided elsewhere.
"""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from nova_vp.core.escalation.candidates import Case, migrants, trials, weigh_on
from nova_vp.core.model.host import Host
from nova_vp.core.model.what_if import Outlook
from nova_vp.core.types.decision import Escalation, Migrant
from nova_vp.core.types.detection import Detection, Kind
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import Reason
from nova_vp.core.types.state import Memory
from nova_vp.core.types.topology import Limits
from nova_vp.core.types.want import Alternative, Want

AHEAD = 0.5
"""Share of `escalate_after_s` after which it is weighed who could leave."""
WEIGHED_FOR_S = 600.0
"""Then it is weighed anew: guests came and went."""


def escalate(
    memory: Memory,
    host: Host,
    limits: Limits,
    refused: Iterable[Alternative],
    wants: Iterable[Want],
    now_s: float,
    policy: Policy,
) -> tuple[Memory, tuple[Escalation, ...]]:
    """Those that are due, with the guests that could leave as soon as all are weighed."""
    found = escalations(memory, refused, wants, now_s, AHEAD * policy.escalate_after_s)
    memory = _weigh(memory, host, limits, found, now_s, policy)
    return memory, tuple(
        replace(one, candidates=_candidates(memory, host, one))
        for one in found
        if now_s - one.since_s >= policy.escalate_after_s
    )


def escalations(
    memory: Memory,
    refused: Iterable[Alternative],
    wants: Iterable[Want],
    now_s: float,
    after_s: float,
) -> tuple[Escalation, ...]:
    """One for each VP that was hurt, or short of CPU, for so long and that no rung helps."""
    why: dict[str, list[Alternative]] = {}
    for one in refused:
        if one.victim_uuid:
            why.setdefault(one.victim_uuid, []).append(one)
    waiting = {pending.action.victim_uuid for pending in memory.pending}
    hurt = (_of_victim(memory, uuid, why[uuid], now_s, after_s) for uuid in why.keys() - waiting)
    short = (_of_demand(memory, want, now_s, after_s) for want in wants)
    found = (one for one in (*hurt, *short) if one is not None)
    return tuple(sorted(found, key=lambda one: (one.since_s, one.id)))


def _of_victim(
    memory: Memory, uuid: str, rejected: list[Alternative], now_s: float, after_s: float
) -> Escalation | None:
    vp = memory.vps.get(uuid)
    detection = vp.detection if vp else None
    if detection is None or now_s - detection.since_s < after_s:
        return None
    return Escalation(
        id=_id_of_detection(detection),
        victim_uuid=uuid,
        kind=detection.kind,
        decided_s=now_s,
        since_s=detection.since_s,
        evidence={
            "measured_loss_ratio": detection.measured_loss_ratio,
            "memory_factor_before": detection.before.memory_factor,
            "memory_factor_now": detection.now.memory_factor,
            "cpi_before": detection.before.cpi,
            "cpi_now": detection.now.cpi,
        },
        rejected=tuple(rejected),
    )


def _of_demand(memory: Memory, want: Want, now_s: float, after_s: float) -> Escalation | None:
    since_s = memory.unmet_since_s.get(want.guest_uuid)
    is_unmet = want.reason is Reason.MORE_CPU and not want.settings
    if since_s is None or not is_unmet or now_s - since_s < after_s:
        return None
    return Escalation(
        id=_id_of(want.guest_uuid, Kind.CPU, since_s),
        victim_uuid=want.guest_uuid,
        kind=Kind.CPU,
        decided_s=now_s,
        since_s=since_s,
        evidence=dict(want.evidence),
        rejected=want.rejected,
    )


def _id_of_detection(detection: Detection) -> str:
    return _id_of(detection.victim_uuid, detection.kind, detection.since_s)


def _id_of(uuid: str, kind: Kind, since_s: float) -> str:
    meaning = f"{uuid} {kind.value} {since_s!r}"
    return f"escalate-{zlib.crc32(meaning.encode()):08x}"


def _weigh(
    memory: Memory,
    host: Host,
    limits: Limits,
    found: Iterable[Escalation],
    now_s: float,
    policy: Policy,
) -> Memory:
    """One trial further for the first that is not weighed to the end; those that are over are
    forgotten."""
    found = tuple(found)
    if not found and not memory.weighings:
        return memory
    victims = _victims(memory)
    kept = {
        key: one
        for key, one in memory.weighings.items()
        if key in victims and now_s - one.begun_s < WEIGHED_FOR_S
    }
    new = (one.id for one in found if one.id not in kept)
    for key in (*(key for key, one in kept.items() if one.todo), *new)[:1]:
        uuid, detection = victims[key]
        outlook = Outlook(host, limits, policy)
        case = Case(host.guests[uuid], detection, host, outlook, memory, now_s, policy)
        kept[key] = weigh_on(case, kept[key]) if key in kept else trials(case)
    return replace(memory, weighings=kept)


def _victims(memory: Memory) -> Mapping[str, tuple[str, Detection | None]]:
    """By id of what stands, or soon will: whom nothing helps, and what was detected of it."""
    short = {_id_of(u, Kind.CPU, s): (u, None) for u, s in memory.unmet_since_s.items()}
    found = (vp.detection for vp in memory.vps.values() if vp.detection)
    return {**short, **{_id_of_detection(d): (d.victim_uuid, d) for d in found}}


def _candidates(memory: Memory, host: Host, one: Escalation) -> tuple[Migrant, ...]:
    weighing = memory.weighings.get(one.id)
    if weighing is None:
        return ()
    detection = None if one.kind is Kind.CPU else host.vps[one.victim_uuid].detection
    return migrants(host, one.victim_uuid, detection, weighing)
