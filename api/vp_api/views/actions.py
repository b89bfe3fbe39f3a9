# SPDX-License-Identifier: Apache-2.0
"""Actions, and what else agents do or ask for, as operators are told them: with names beside ids.

Nothing here may be given to a tenant.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from nova_vp.cli import labels
from nova_vp.core.types.reason import Rung
from nova_vp.db.records import NAMES, ActionRecord, concerned
from vp_api.views import values

Names = Mapping[str, str]


def servers_in(actions: Iterable[ActionRecord]) -> list[str]:
    """All whose names `stored_action` asks for."""
    return sorted(
        {uuid for one in actions for uuid in concerned(one.action)}
        | {other["uuid"].lower() for one in actions for other in one.action["rejected"]}
    )


def stored_action(
    one: ActionRecord, names: Names, *, has_acceptance: bool = False
) -> dict[str, Any]:
    """`has_acceptance`: as since 1.4, with who accepted it."""
    told = action(one.action, _Folded({**one.action.get(NAMES, {}), **names}))
    accepted = {"accepted_by": one.accepted_by} if has_acceptance else {}
    return {**told, "host": one.host, "project_id": one.project_id, **accepted}


class _Folded(dict[str, str]):
    """Names by UUIDs in lower case, for UUIDs as an agent wrote them."""

    def get(self, uuid: str, default: Any = None) -> Any:
        return super().get(uuid.lower(), default)


def action(one: Mapping[str, Any], names: Names) -> dict[str, Any]:
    victim, asker = one["victim"], one.get("on_behalf_of")
    return {
        "id": one["id"],
        "at": values.iso(one["at"]),
        "settled_at": values.iso(one.get("settled_at")),
        "controller": one["controller"],
        "server": server(names, one["uuid"]),
        "victim": None if victim is None else server(names, victim),
        "on_behalf_of": None if asker is None else server(names, asker),
        "reason": one["reason"],
        "meaning": labels.reason(one["reason"]),
        "rung": one.get("rung"),
        "result": one["result"],
        "detail": one["detail"],
        "from_cpus": one["from_cpus"],
        "to_cpus": one["to_cpus"],
        "domains": one["domains"],
        "changes": [_change(change, names) for change in one.get("changes", [])],
        "hurt_ratio": one["hurt_ratio"],
        "evidence": one["evidence"],
        "rejected": [alternative(other, names) for other in one["rejected"]],
    }


def _change(change: Mapping[str, Any], names: Names) -> dict[str, Any]:
    return {
        "server": server(names, change["uuid"]),
        "knob": change["knob"],
        "from": change["from"],
        "to": change["to"],
        "until": values.iso(change["until"]),
    }


def memory_move(move: Mapping[str, Any], names: Names) -> dict[str, Any]:
    told = {key: value for key, value in move.items() if key != "uuid"}
    return {"server": server(names, move["uuid"]), **told}


def escalation(one: Mapping[str, Any], names: Names) -> dict[str, Any]:
    return {
        "id": one["id"],
        "at": values.iso(one["at"]),
        "since": values.iso(one["since"]),
        "victim": server(names, one["victim"]),
        "kind": one["kind"],
        "meaning": labels.kind(one["kind"]),
        "evidence": one["evidence"],
        "rejected": [alternative(other, names) for other in one["rejected"]],
    }


def alternative(other: Mapping[str, Any], names: Names) -> dict[str, Any]:
    rung = other.get("rung", Rung.MOVE.value)
    return {
        "server": server(names, other["uuid"]),
        "domain": other["domain"],
        "rung": rung,
        "why": other["why"],
        "meaning": labels.refusal(rung, other["why"]),
        "hurt_ratio": other["hurt_ratio"],
    }


def server(names: Names, server_id: str) -> dict[str, Any]:
    """Id and name; a server that left the host has no name any more."""
    return {"server_id": server_id, "name": names.get(server_id)}
