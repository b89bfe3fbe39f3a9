# SPDX-License-Identifier: Apache-2.0
"""Escalations as operators are told them. Nothing here may be given to a tenant."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from nova_vp.cli import labels
from nova_vp.core.types.policy import known_mode
from nova_vp.db.records import Attempt, Escalation
from vp_api.views import actions, values


def summary(one: Escalation) -> dict[str, Any]:
    message = json.loads(one.message)
    return {
        "id": one.id,
        "host": one.host,
        "status": one.status.value,
        "reason": one.reason,
        "victim": actions.server(_names(message), message["victim"]),
        "project_id": one.project_id,
        "kind": message["kind"],
        "meaning": labels.kind(message["kind"]),
        **{name: _iso(getattr(one, name)) for name in MOMENTS},
        "accepted_by": one.accepted_by,
    }


MOMENTS = ("received_at", "changed_at", "accepted_at", "settled_at")


def show(one: Escalation) -> dict[str, Any]:
    message = json.loads(one.message)
    names = _names(message)
    return {
        **summary(one),
        "mode": known_mode(message["mode"]).value,
        "since": values.iso(message["since"]),
        "evidence": message["evidence"],
        "rejected": [actions.alternative(other, names) for other in message["rejected"]],
        "candidates": [_candidate(other, names) for other in message["candidates"]],
        "choice": None if one.choice is None else json.loads(one.choice),
        "attempts": [_attempt(attempt) for attempt in one.attempts],
    }


def _candidate(told: Mapping[str, Any], names: actions.Names) -> dict[str, Any]:
    return {
        "server": actions.server(names, told["uuid"]),
        **{name: told[name] for name in ("project_id", "flavor", "role", "memory_kib")},
        "state": values.state(told["state"]),
        **{name: told[name] for name in ("relief_ratio", "others_ratio", "obstacle")},
    }


def _attempt(one: Attempt) -> dict[str, Any]:
    return {
        "attempt": one.attempt,
        "server": {"server_id": one.server, "name": one.name},
        "project_id": one.project_id,
        "role": one.role,
        "memory_kib": one.memory_kib,
        "timeout_s": one.timeout_s,
        "source_host": one.source_host,
        "dest_host": one.dest_host,
        "status": one.status.value,
        "detail": one.detail,
        "started_at": _iso(one.started_at),
        "requested_at": _iso(one.requested_at),
        "ended_at": _iso(one.ended_at),
        "nova_migration": one.nova_uuid,
    }


def _names(message: Mapping[str, Any]) -> dict[str, str]:
    return {candidate["uuid"]: candidate["name"] for candidate in message["candidates"]}


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else values.iso_datetime(moment)
