# SPDX-License-Identifier: Apache-2.0
"""A decision as the report that operators and, cut down, tenants are shown; pure.

The shape is `wire.REPORT_SCHEMA`; texts and lists are cut to what it allows. Nothing here sends,
waits or looks at a clock.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nova_vp import wire
from nova_vp.core.model import (
    Action,
    Alternative,
    Decision,
    Detection,
    DomainView,
    Hurt,
    Outcome,
    Sample,
    Sensitivity,
    VpView,
)
from vp_agent.drivers.cpuset import format_cpus
from vp_agent.facts import HostFacts, head


def report(
    decision: Decision, facts: HostFacts, order: wire.Order, actions_per_vp: int = 16
) -> dict[str, Any]:
    """What operators and, cut down, tenants are shown."""
    offset_s = facts.epoch_offset_s
    refused = _refused_by_victim(decision)
    return {
        **head(decision, facts, order),
        "at": decision.at_s + offset_s,
        "counters": {"source": facts.counters, "problems": [p[:1024] for p in facts.problems[:16]]},
        "actuator": facts.actuator,
        "domains": [_report_domain(view) for view in decision.domains],
        "vps": [
            _vp(view, refused.get(view.guest.uuid, ()), offset_s, actions_per_vp)
            for view in decision.vps
        ],
        "proposals": [_proposal(action, offset_s) for action in decision.proposals[:256]],
    }


def _report_domain(view: DomainView) -> dict[str, Any]:
    return {
        "id": view.domain.id,
        "node": view.domain.node,
        "cpus": cpu_list(view.domain.cpus),
        "free_cores": _number(view.free_cores),
        "vcpus": _number(view.allocated_vcpus),
        "misses_per_s": _number(view.pressure_per_s),
    }


def _refused_by_victim(decision: Decision) -> Mapping[str, Sequence[Alternative]]:
    found: dict[str, list[Alternative]] = {}
    for one in decision.refused:
        if one.victim_uuid:
            found.setdefault(one.victim_uuid, []).append(one)
    return found


def _vp(
    view: VpView, refused: Sequence[Alternative], offset_s: float, actions: int
) -> dict[str, Any]:
    guest = view.guest
    return {
        "uuid": guest.uuid,
        "name": guest.name[:255],
        "project_id": guest.project_id[:64],
        "flavor": guest.flavor[:255],
        "vcpus": guest.vcpus,
        "isolation": guest.isolation.value,
        "unmanaged": guest.unmanaged and guest.unmanaged.value,
        "unmanaged_detail": guest.unmanaged_detail[:1024],
        "domains": list(view.domain_ids[:64]),
        "cpus": cpu_list(guest.placement),
        "state": view.state and view.state.number,
        "since": None if view.since_s is None else _number(view.since_s + offset_s),
        "incomplete": view.incomplete and view.incomplete.value,
        "sensitivity": _sensitivity(view.sensitivity),
        "metrics": view.sample and _metrics(view.sample),
        "interference": view.detection and _interference(view.detection, refused, offset_s),
        "actions": [_outcome(outcome, offset_s) for outcome in _last(view.history, actions)],
    }


def _last(history: tuple[Outcome, ...], count: int) -> tuple[Outcome, ...]:
    return history[-count:] if count else ()


def _sensitivity(sensitivity: Sensitivity) -> list[str]:
    points = {
        "cache": sensitivity.cache,
        "memory": sensitivity.memory,
        "remote-latency": sensitivity.remote_latency,
    }
    return [point for point, is_sensitive in points.items() if is_sensitive]


def _metrics(sample: Sample) -> dict[str, float]:
    return {
        "mpki": _number(sample.mpki),
        "l2_mpki": _number(sample.l2_mpki),
        "memory_factor": _number(sample.memory_factor),
        "cpi": _number(sample.cpi),
        "cpu_cores": _number(sample.cpu_cores),
        "misses_per_s": _number(sample.misses_per_s),
        "remote_ratio": _number(sample.remote_ratio),
        "running_ratio": _number(sample.running_ratio),
    }


def _interference(
    detection: Detection, refused: Sequence[Alternative], offset_s: float
) -> dict[str, Any]:
    return {
        "kind": detection.kind.value,
        "since": _number(detection.since_s + offset_s),
        "suspects": [
            {"uuid": suspect.guest_uuid, "rise_per_s": _number(suspect.rise_per_s)}
            for suspect in detection.suspects[:64]
        ],
        "refused": [_alternative(one) for one in refused[:16]],
    }


def _outcome(outcome: Outcome, offset_s: float) -> dict[str, Any]:
    at = outcome.at_s + offset_s
    return _action(outcome.action, at, outcome.result.value, outcome.detail)


def _proposal(action: Action, offset_s: float) -> dict[str, Any]:
    return _action(action, action.decided_s + offset_s, "proposed", "")


def _action(action: Action, at: float, result: str, detail: str) -> dict[str, Any]:
    return {
        "id": action.id,
        "at": _number(at),
        "controller": action.controller,
        "uuid": action.guest_uuid,
        "victim": action.victim_uuid,
        "reason": action.reason.value,
        "result": result,
        "detail": detail[:1024],
        "from_cpus": cpu_list(action.from_cpus),
        "to_cpus": cpu_list(action.cpus),
        "domains": list(action.domain_ids[:64]),
        "hurt_ratio": _number(action.hurt.worst_ratio),
        "evidence": dict(list(_finite_only(action.evidence.items()))[:32]),
        "rejected": [_alternative(alternative) for alternative in action.rejected[:64]],
    }


def _alternative(alternative: Alternative) -> dict[str, Any]:
    return {
        "uuid": alternative.guest_uuid,
        "domain": alternative.domain_id,
        "why": alternative.rejection.value,
        "hurt_ratio": _worst(alternative.hurt),
    }


def _worst(hurt: Hurt | None) -> float | None:
    return None if hurt is None else _number(hurt.worst_ratio)


def _finite_only(items: Iterable[tuple[str, float]]) -> Iterable[tuple[str, float]]:
    return ((name, round(value, 6)) for name, value in items if math.isfinite(value))


def _number(value: float) -> float:
    """JSON knows no infinity, and six digits behind the point are enough for everybody."""
    return round(max(value, 0.0), 6) if math.isfinite(value) else 0.0


def cpu_list(cpus: Iterable[int]) -> str:
    """`0-3,8`, cut to what a message may carry."""
    text = format_cpus(cpus)
    return text if len(text) <= 255 else text[:254].rsplit(",", 1)[0] + "…"
