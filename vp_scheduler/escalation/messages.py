# SPDX-License-Identifier: Apache-2.0
"""What the steps read out of messages, attempts and Nova's answers, and the words they tell it in.

From values to values: whom the agent named, what speaks against asking Nova, how long to wait.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from nova_vp.db.records import Attempt
from vp_scheduler.escalation.nova import MIGRATING, Migration, Server
from vp_scheduler.escalation.select import Candidate

WAITS_S = (1.0, 600.0)
MIGRATABLE = frozenset({"ACTIVE", "PAUSED"})


class MigrationState(NamedTuple):
    """What Nova shows of one server at one time."""

    server: Server | None
    """None: Nova knows it no more."""
    ours: Migration | None
    """The one that this attempt asked for."""
    others: Migration | None
    """One that runs and that somebody else asked for, or an earlier attempt."""
    highest_id: int


def migration_state_of(
    attempt: Attempt, server: Server | None, migrations: list[Migration]
) -> MigrationState:
    floor = attempt.nova_floor
    ours = [one for one in migrations if one.is_ours and floor is not None and one.id > floor]
    others = [one for one in migrations if one not in ours and not one.is_over]
    return MigrationState(
        server=server,
        ours=ours[0] if ours else None,
        others=others[0] if others else None,
        highest_id=max((one.id for one in migrations), default=0),
    )


def backoff_s(waited_s: float) -> float:
    """Half as long again as was waited, within bounds."""
    least_s, most_s = WAITS_S
    return max(least_s, min(waited_s / 2, most_s))


def is_migrating(sight: MigrationState) -> bool:
    return sight.server is not None and sight.server.task_state == MIGRATING


def unfit(server: Server) -> str:
    """Empty: Nova can live-migrate it, as far as that can be seen."""
    if server.is_locked:
        return "it is locked in Nova"
    if server.status not in MIGRATABLE:
        return f"it is {server.status} in Nova"
    return f"Nova is busy with it ({server.task_state})" if server.task_state else ""


def candidates_of(message: Mapping[str, Any]) -> list[Candidate]:
    return [
        Candidate(
            uuid=one["uuid"],
            name=one["name"] or one["uuid"],
            project_id=one["project_id"],
            role=one["role"],
            memory_kib=one["memory_kib"],
            dirty_kib_per_s=one["dirty_kib_per_s"],
            sensitivity=tuple(one["sensitivity"]),
            priority=one["priority"],
            relief_ratio=one["relief_ratio"],
            others_ratio=one["others_ratio"],
            obstacle=one["obstacle"],
        )
        for one in message["candidates"]
    ]


def loss_ratio_of(message: Mapping[str, Any], candidates: list[Candidate]) -> float | None:
    """As measured; for a lack of CPU what the victim would regain by leaving."""
    measured = message["evidence"].get("measured_loss_ratio")
    if measured is not None:
        return float(measured)
    return next((one.relief_ratio for one in candidates if one.role == "victim"), None)


def complaint_of(message: Mapping[str, Any], candidates: list[Candidate]) -> str:
    victim = message["victim"]
    name = next((one.name for one in candidates if one.uuid == victim), victim)
    loss = loss_ratio_of(message, candidates)
    lost = f" and has lost {loss:.0%}" if loss is not None else ""
    return f"{name} on {message['host']} suffers ({message['kind']}){lost}."


def held_since(attempt: Attempt) -> str:
    moment = attempt.requested_at or attempt.started_at
    what = attempt.status.value
    return f"was to be migrated at {moment:%H:%M} UTC already ({what}); see the hold"


def sentences(*parts: str) -> str:
    return " ".join(part for part in parts if part)
