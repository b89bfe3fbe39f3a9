# SPDX-License-Identifier: Apache-2.0
"""Merlin's last rung: nothing on this node helps, so the cluster is told, with the evidence.

An escalation stands as long as its victim is hurt and every rung is spent; what only waits for a
budget or a hold is not spent. It keeps its id, so that telling it twice is telling it once. It
names all who could leave, and what that would bring; who moves, and where to, is decided elsewhere.
A victim that refuses help is not told of.
"""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from nova_vp.core.escalation.candidates import DecisionContext, evaluate_further, migrants, what_ifs
from nova_vp.core.model.host import Host
from nova_vp.core.model.what_if import WhatIfModel
from nova_vp.core.types.claim import Alternative, ClaimGroup
from nova_vp.core.types.decision import Escalation, Migrant
from nova_vp.core.types.detection import Detection, Kind
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import Rejection
from nova_vp.core.types.state import CoreState
from nova_vp.core.types.topology import Limits

AHEAD = 0.5
"""Share of `escalate_after_s` after which it is weighed who could leave."""
WEIGHED_FOR_S = 600.0
"""Then it is weighed anew: guests came and went."""
WAITS = frozenset(
    {Rejection.BUDGET, Rejection.VICTIM_BUDGET, Rejection.PROJECT_BUDGET, Rejection.HOLD}
)
"""A rung that was refused for one of these is taken later: the host can still help."""


def escalate(
    state: CoreState,
    host: Host,
    limits: Limits,
    refused: Iterable[Alternative],
    groups: Iterable[ClaimGroup],
    now_s: float,
    policy: Policy,
) -> tuple[CoreState, tuple[Escalation, ...]]:
    """Those that are due, with the guests that could leave as soon as all are weighed."""
    refused = [one for one in refused if not host.refuses_help(one.victim_uuid)]
    groups = tuple(group for group in groups if group.guest_uuid in host.guests)
    found = escalations(state, refused, groups, now_s, AHEAD * policy.escalate_after_s)
    short = _demands(groups)
    state = _weigh(state, host, limits, found, short, now_s, policy)
    return state, tuple(
        replace(one, candidates=_candidates(state, host, one))
        for one in found
        if now_s - one.since_s >= policy.escalate_after_s
    )


def escalations(
    state: CoreState,
    refused: Iterable[Alternative],
    groups: Iterable[ClaimGroup],
    now_s: float,
    after_s: float,
) -> tuple[Escalation, ...]:
    """One for each VP that was hurt, or short of CPU, for so long and that no rung helps."""
    why: dict[str, list[Alternative]] = {}
    for one in refused:
        if one.victim_uuid:
            why.setdefault(one.victim_uuid, []).append(one)
    waiting = {pending.action.victim_uuid for pending in state.pending}
    waiting |= {uuid for uuid, all_of in why.items() if any(r.rejection in WAITS for r in all_of)}
    victims = (_of_victim(state, uuid, why[uuid], now_s, after_s) for uuid in why.keys() - waiting)
    short = (_of_demand(group, now_s, after_s) for group in groups)
    found = (one for one in (*victims, *short) if one is not None)
    return tuple(sorted(found, key=lambda one: (one.since_s, one.id)))


def _of_victim(
    state: CoreState, uuid: str, rejected: list[Alternative], now_s: float, after_s: float
) -> Escalation | None:
    vp = state.vps.get(uuid)
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


def _of_demand(group: ClaimGroup, now_s: float, after_s: float) -> Escalation | None:
    since_s = group.unmet_since_s
    if since_s is None or now_s - since_s < after_s:
        return None
    return Escalation(
        id=_id_of(group.guest_uuid, Kind.CPU, since_s),
        victim_uuid=group.guest_uuid,
        kind=Kind.CPU,
        decided_s=now_s,
        since_s=since_s,
        evidence=dict(group.evidence),
        rejected=group.rejected,
    )


def _id_of_detection(detection: Detection) -> str:
    return _id_of(detection.victim_uuid, detection.kind, detection.since_s)


def _id_of(uuid: str, kind: Kind, since_s: float) -> str:
    meaning = f"{uuid} {kind.value} {since_s!r}"
    return f"escalate-{zlib.crc32(meaning.encode()):08x}"


def _weigh(
    state: CoreState,
    host: Host,
    limits: Limits,
    found: Iterable[Escalation],
    short: Mapping[str, tuple[str, Detection | None]],
    now_s: float,
    policy: Policy,
) -> CoreState:
    """One what-if further for the first that is not weighed to the end; those that are over are
    forgotten."""
    found = tuple(found)
    if not found and not state.evaluations:
        return state
    victims = {**short, **_victims(state)}
    kept = {
        key: one
        for key, one in state.evaluations.items()
        if key in victims and now_s - one.begun_s < WEIGHED_FOR_S
    }
    new = (one.id for one in found if one.id not in kept)
    for key in (*(key for key, one in kept.items() if one.todo), *new)[:1]:
        uuid, detection = victims[key]
        what_if = WhatIfModel(host, limits, policy)
        context = DecisionContext(host.guests[uuid], detection, host, what_if, state, now_s, policy)
        kept[key] = evaluate_further(context, kept[key]) if key in kept else what_ifs(context)
    return replace(state, evaluations=kept)


def _demands(groups: Iterable[ClaimGroup]) -> Mapping[str, tuple[str, Detection | None]]:
    """The same of those who want more CPU than this host has for them."""
    return {
        _id_of(one.guest_uuid, Kind.CPU, one.unmet_since_s): (one.guest_uuid, None)
        for one in groups
        if one.unmet_since_s is not None
    }


def _victims(state: CoreState) -> Mapping[str, tuple[str, Detection | None]]:
    """By id of what stands, or soon will: whom nothing helps, and what was detected of it."""
    found = (vp.detection for vp in state.vps.values() if vp.detection)
    return {_id_of_detection(d): (d.victim_uuid, d) for d in found}


def _candidates(state: CoreState, host: Host, one: Escalation) -> tuple[Migrant, ...]:
    evaluation = state.evaluations.get(one.id)
    if evaluation is None:
        return ()
    detection = host.vps[one.victim_uuid].detection
    if detection is not None and _id_of_detection(detection) != one.id:
        detection = None  # It wants more CPU, whatever else it suffers from.
    return migrants(host, one.victim_uuid, detection, evaluation)
