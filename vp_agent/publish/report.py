# SPDX-License-Identifier: Apache-2.0
"""A decision as the report that operators and, cut down, tenants are shown; pure.

The shape is `wire.REPORT_SCHEMA`; texts and lists are cut to what it allows. Nothing here sends,
waits or looks at a clock.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from nova_vp import wire
from nova_vp.action_results import PROPOSED
from nova_vp.core.types.action import Action, Change, Outcome
from nova_vp.core.types.claim import Alternative, PredictedLoss
from nova_vp.core.types.cpu_time import CpuUse
from nova_vp.core.types.decision import Decision, DomainView, Escalation, NodeView, VpView
from nova_vp.core.types.detection import Detection
from nova_vp.core.types.guest import Guest, MemoryMove
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.mode_levels import SetMode
from nova_vp.core.types.reason import Rung
from nova_vp.core.types.sample import Sample, Sensitivity
from vp_agent.format import cpu_list, knob_text
from vp_agent.loop.host_mode import HostModes
from vp_agent.loop.latency_reports import NOTHING_CAME, KnownReports
from vp_agent.publish.digest import digest_domain
from vp_agent.publish.host_info import HostInfo, head
from vp_agent.publish.overlay_report import overlay_fields

MOST = wire.MOST_NUMBER
_PLACING = frozenset({Rung.LOCAL_CPU, Rung.MOVE, Rung.SWAP, Rung.MOVE_WITH_MEMORY})
"""Of the other rungs nobody asks to which domain."""


def report(
    decision: Decision, host_info: HostInfo, version: wire.MessageVersion, actions_per_vp: int = 16
) -> dict[str, Any]:
    """What operators and, cut down, tenants are shown."""
    offset_s = host_info.epoch_offset_s
    refused = _refused_by_victim(decision)
    return {
        **head(decision, host_info, version),
        "at": decision.at_s + offset_s,
        "counters": {
            "source": host_info.counters,
            "problems": [p[:1024] for p in host_info.problems[:16]],
        },
        "actuator": host_info.actuator,
        "domains": [_report_domain(view) for view in decision.domains],
        "vps": [
            _override(view, host_info)
            | _vp(view, refused.get(view.guest.uuid, ()), offset_s, actions_per_vp)
            | {"service": _service(view.guest, host_info)}
            | ({"mode": view.guest.mode.value} if view.guest.mode else {})
            for view in decision.vps
        ],
        "proposals": [_proposal(action, offset_s) for action in decision.proposals[:256]],
        "nodes": [_node(view) for view in decision.nodes[:1024]],
        "memory_moves": [_memory_move(move) for move in decision.memory_moves[:256]],
        "escalations": [_escalation(one, offset_s) for one in decision.escalations[:256]],
        "hypervisor": host_info.hypervisor[:255],
        "knobs": sorted(knob.value for knob in host_info.knobs),
        "overrides_version": host_info.told.version,
        "steal_ratio": None if decision.steal_ratio is None else number(decision.steal_ratio),
        "latency_projects": _latency_projects(host_info.latency),
        "facts": {"read_at": host_info.facts.read_at, "checksum": host_info.facts.checksum},
        "modes": _modes(host_info.modes),
        "homing": host_info.is_homing,
        **overlay_fields(decision, host_info.overlays),
    }


def _modes(modes: HostModes) -> dict[str, Any]:
    return {
        "version": modes.told.version,
        "checksum": modes.told.checksum,
        "knows_aggregates": modes.knows_aggregates,
        "source": _set_mode(modes.source),
        "levels": [_set_mode(one) for one in modes.levels],
    }


def _set_mode(one: SetMode) -> dict[str, str]:
    return {"level": one.level.value, "name": one.name, "mode": one.mode.value}


def _override(view: VpView, host_info: HostInfo) -> dict[str, Any]:
    """Nothing where nobody has told of it yet."""
    override = host_info.told.servers.get(view.guest.uuid)
    return {} if override is None else {"override": override.as_message()}


def _service(guest: Guest, host_info: HostInfo) -> dict[str, Any] | None:
    if guest.service_class is None:
        return None
    last = host_info.latency.last.get(guest.uuid)
    came = host_info.latency.by_server.get(guest.uuid, NOTHING_CAME)
    return {
        "class": guest.service_class.value,
        "latency_target_ms": guest.latency_target_ms,
        "latency_percentile": guest.latency_percentile,
        "max_load": guest.max_load,
        "may_suspend": guest.is_suspendable,
        "used": came.used,
        "ignored": dict(came.ignored),
        "reported": last
        and {
            "at": number(last.measured_s + host_info.epoch_offset_s),
            "latency_ms": last.latency_ms,
            "load": last.load,
        },
    }


def _latency_projects(known: KnownReports) -> list[dict[str, Any]]:
    return [
        {"project_id": project_id, **one._asdict()}
        for project_id, one in sorted(known.by_project.items())
    ]


def _report_domain(view: DomainView) -> dict[str, Any]:
    return {
        "id": view.domain.id,
        "node": view.domain.node,
        "cpus": cpu_list(view.domain.cpus),
        "free_cores": number(view.free_cores),
        "llc_permits": number(view.llc_permits),
        "vcpus": number(view.allocated_vcpus),
        "misses_per_s": number(view.pressure_per_s),
        "newcomer_losses": {
            kind.value: [min(round(number(ratio), 3), 1.0) for ratio in by_class]
            for kind, by_class in view.by_resource.items()
        },
        "digest": digest_domain(view),
    }


def _node(view: NodeView) -> dict[str, Any]:
    limit = view.limit_misses_per_s
    return {
        "node": view.node,
        "misses_per_s": number(view.misses_per_s),
        "mpki": number(view.mpki),
        "limit_misses_per_s": None if limit is None else number(limit),
        "is_hot": view.is_hot,
    }


def _memory_move(move: MemoryMove) -> dict[str, Any]:
    return {
        "uuid": move.guest_uuid,
        "to": knob_text(Knob.MEMORY, move.to),
        "moved_kib": move.moved_kib,
        "left_kib": move.left_kib,
        "is_over": move.is_over,
        "problem": move.problem[:1024],
    }


def _escalation(one: Escalation, offset_s: float) -> dict[str, Any]:
    return {
        "id": one.id,
        "at": number(one.decided_s + offset_s),
        "since": number(one.since_s + offset_s),
        "victim": one.victim_uuid,
        "kind": one.kind.value,
        "evidence": evidence(one.evidence),
        "rejected": [alternative(other) for other in one.rejected[:64]],
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
        **_asked_and_held(guest),
        "uuid": guest.uuid,
        "name": guest.name[:255],
        "project_id": guest.project_id[:64],
        "flavor": guest.flavor[:255],
        "vcpus": guest.vcpus,
        "isolation": guest.isolation.value,
        "unmanaged": guest.unmanaged and guest.unmanaged.value,
        "unmanaged_detail": guest.unmanaged_detail[:1024],
        "domains": list(view.domain_ids[:64]),
        "virtual_domains": list(view.virtual_domain_ids[:64]),
        "cpus": cpu_list(guest.placement),
        "state": view.state and view.state.number,
        "since": None if view.since_s is None else number(view.since_s + offset_s),
        "incomplete": view.incomplete and view.incomplete.value,
        "sensitivity": sensitivity(view.sensitivity),
        "metrics": view.sample and _metrics(view.sample),
        "cpu_use": view.cpu_use and _cpu_use(view.cpu_use),
        "figures": _figures(view.figures),
        "interference": view.detection
        and {
            **_interference(view.detection, refused, offset_s),
            "loss_ratio": min(number(view.degradation_ratio), 1.0),
        },
        "actions": [_outcome(outcome, offset_s) for outcome in _last(view.history, actions)],
    }


def _asked_and_held(guest: Guest) -> dict[str, Any]:
    """What it is made of and asks beyond isolation, and how it is limited and laid out now."""
    return {
        "vp_id": guest.vp_id[:255],
        "group": guest.group,
        "priority": guest.priority,
        "cap_floor_ratio": guest.cap_floor_ratio,
        "cap": knob_text(Knob.CPU_CAP, guest.quota),
        "memory": knob_text(Knob.MEMORY, guest.memory_shares),
        "memory_obstacle": guest.memory_obstacle[:1024],
        "image": guest.image[:36],
        "memory_kib": guest.memory_kib,
    }


def _last(history: tuple[Outcome, ...], count: int) -> list[Outcome]:
    """In the order in which they were done; of the others less is left to tell."""
    return sorted(history[-count:] if count else (), key=lambda outcome: outcome.at_s)


def sensitivity(sensitivity: Sensitivity) -> list[str]:
    points = {
        "cache": sensitivity.cache,
        "memory": sensitivity.memory,
        "remote-latency": sensitivity.remote_latency,
    }
    return [point for point, is_sensitive in points.items() if is_sensitive]


def _metrics(sample: Sample) -> dict[str, float]:
    return {
        "mpki": number(sample.mpki),
        "l2_mpki": number(sample.l2_mpki),
        "memory_factor": number(sample.memory_factor),
        "cpi": number(sample.cpi),
        "cpu_cores": number(sample.cpu_cores),
        "misses_per_s": number(sample.misses_per_s),
        "remote_ratio": number(sample.remote_ratio),
        "running_ratio": number(sample.running_ratio),
    }


def _cpu_use(use: CpuUse) -> dict[str, float]:
    return {name: min(number(getattr(use, name)), 1.0) for name in wire.CPU_RATIOS}


def _figures(told: Mapping[str, Mapping[str, float | str]]) -> dict[str, dict[str, float | str]]:
    return {controller: _of_controller(figures) for controller, figures in told.items()}


def _of_controller(figures: Mapping[str, float | str]) -> dict[str, float | str]:
    words = {name: value[:64] for name, value in figures.items() if isinstance(value, str)}
    return words | evidence({n: v for n, v in figures.items() if not isinstance(v, str)})


def _interference(
    detection: Detection, refused: Sequence[Alternative], offset_s: float
) -> dict[str, Any]:
    return {
        "kind": detection.kind.value,
        "since": number(detection.since_s + offset_s),
        "suspects": [
            {"uuid": suspect.guest_uuid, "rise_per_s": number(suspect.rise_per_s)}
            for suspect in detection.suspects[:64]
        ],
        "refused": [alternative(one) for one in refused[:16]],
    }


def _outcome(outcome: Outcome, offset_s: float) -> dict[str, Any]:
    settled_s = outcome.settled_s
    told = {
        "result": outcome.result.value,
        "detail": outcome.detail[:1024],
        "settled_at": None if settled_s is None else number(settled_s + offset_s),
    }
    return _action(outcome.action, outcome.at_s, offset_s) | told


def _proposal(action: Action, offset_s: float) -> dict[str, Any]:
    told = {"result": PROPOSED, "detail": ""}
    return _action(action, action.decided_s, offset_s) | told


def _action(action: Action, at_s: float, offset_s: float) -> dict[str, Any]:
    return {
        "id": action.id,
        "at": number(at_s + offset_s),
        "controller": action.controller,
        "uuid": action.guest_uuid,
        "victim": action.victim_uuid,
        "reason": action.reason.code,
        "from_cpus": cpu_list(action.from_cpus),
        "to_cpus": cpu_list(action.cpus),
        "domains": list(action.domain_ids[:64]),
        "hurt_ratio": number(action.predicted_loss.worst_ratio),
        "rung": action.rung and action.rung.value,
        "on_behalf_of": action.on_behalf_of,
        "changes": [_change(change, offset_s) for change in action.changes[:64]],
        "evidence": evidence(action.evidence),
        "rejected": [alternative(one) for one in action.rejected[:64]],
    }


def _change(change: Change, offset_s: float) -> dict[str, Any]:
    return {
        "uuid": change.guest_uuid,
        "knob": change.knob.value,
        "from": knob_text(change.knob, change.now),
        "to": knob_text(change.knob, change.to),
        "until": None if change.until_s is None else number(change.until_s + offset_s),
    }


def alternative(alternative: Alternative) -> dict[str, Any]:
    return {
        "uuid": alternative.guest_uuid,
        "domain": alternative.domain_id if alternative.rung in _PLACING else None,
        "rung": alternative.rung.value,
        "why": alternative.rejection.value,
        "hurt_ratio": _worst(alternative.predicted_loss),
    }


def _worst(hurt: PredictedLoss | None) -> float | None:
    return None if hurt is None else number(hurt.worst_ratio)


def evidence(numbers: Mapping[str, float]) -> dict[str, float]:
    finite = ((name, value) for name, value in numbers.items() if math.isfinite(value))
    told = ((name, round(max(-MOST, min(value, MOST)), 6)) for name, value in finite)
    return dict(itertools.islice(told, 32))


def number(value: float) -> float:
    """JSON knows no infinity, receivers take no more than MOST, and six digits behind the point are
    enough for everybody."""
    return round(min(max(value, 0.0), MOST), 6) if math.isfinite(value) else 0.0
