# SPDX-License-Identifier: Apache-2.0
"""What all steps of an escalation share: the world they reach, the settings, and how they write.

Each step reads the world, writes the ledger once, and may be cut off anywhere: whoever finds the
row next goes on from what is written.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from nova_vp.db.escalations import Ledger
from nova_vp.db.records import Attempt, Escalation
from nova_vp.escalation_status import Status
from nova_vp.printable import printable
from nova_vp.service import failpoints
from vp_scheduler.escalation.agents import Agents
from vp_scheduler.escalation.clock import Clock, Since
from vp_scheduler.escalation.nova_client import MIGRATING, Migration, Nova, Server, ServerGone
from vp_scheduler.escalation.settings import Settings

LOG = logging.getLogger(__name__)
MOST_WAIT_FOR_NOVA_S = 30.0
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


def is_migrating(state: MigrationState) -> bool:
    return state.server is not None and state.server.task_state == MIGRATING


def unfit(server: Server) -> str:
    """Empty: Nova can live-migrate it, as far as that can be seen."""
    if server.is_locked:
        return "it is locked in Nova"
    if server.status not in MIGRATABLE:
        return f"it is {server.status} in Nova"
    return f"Nova is busy with it ({server.task_state})" if server.task_state else ""


def sentences(*parts: str) -> str:
    return " ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Backends:
    """With which steps reach the world."""

    ledger: Ledger
    agents: Agents
    nova: Nova
    clock: Clock


class StepContext:
    def __init__(self, backends: Backends, settings: Settings) -> None:
        self.ledger, self.agents, self.nova = backends.ledger, backends.agents, backends.nova
        self.clock = backends.clock
        self.settings = settings
        """May be replaced; nobody keeps it."""
        self.since = Since(backends.clock)

    def save(
        self, found: Escalation, attempt: Mapping[str, Any] | None = None, **changes: Any
    ) -> Escalation:
        if "status" not in changes:
            return self.ledger.save(found, changes, attempt)
        saved = self.ledger.save(found, {**changes, "changed_at": self.clock.now()}, attempt)
        log_status(saved, changes.get("reason", ""))
        return saved

    def wait(self, found: Escalation, wait_s: float, **changes: Any) -> Escalation:
        not_before = self.clock.now() + timedelta(seconds=wait_s)
        return self.save(found, owner=None, not_before=not_before, **changes)

    def end(self, found: Escalation, status: Status, detail: str) -> Escalation:
        failpoints.reach("before-completion")
        found = self.save(
            found,
            self._ended(found.latest, status, detail),
            status=status,
            reason=sentences(found.reason, f"{status.value.capitalize()}: {detail}"),
        )
        failpoints.reach("after-completion")
        return found

    def another(self, found: Escalation, detail: str) -> Escalation:
        """This guest will not move: the attempt has failed, and the next best is looked for."""
        return self.save(
            found,
            self._ended(found.latest, Status.FAILED, detail),
            status=Status.RECEIVED,
            reason=sentences(found.reason, f"{found.latest.name} was not migrated: {detail}"),
        )

    def settled(self, found: Escalation, **changes: Any) -> Escalation:
        now = self.clock.now()
        return self.save(found, owner=None, settled_at=now, not_before=None, **changes)

    def _ended(self, attempt: Attempt, status: Status, detail: str) -> dict[str, Any]:
        return {"status": status, "detail": detail, "ended_at": self.clock.now()}

    def look(self, attempt: Attempt) -> MigrationState:
        """Raises NovaAway and NotAllowed."""
        server, project_id = attempt.server, attempt.project_id
        migrations = []
        try:
            migrations = self.nova.migrations(project_id, server)
            seen: Server | None = self.nova.look(project_id, server)
        except ServerGone:
            seen = None
        return migration_state_of(attempt, seen, migrations)

    def wait_for_nova(self, found: Escalation, exc: Exception) -> Escalation:
        LOG.warning("escalation=%s host=%s %s", found.id, found.host, exc)
        attempt = found.latest
        asked_at = attempt.requested_at or attempt.started_at
        waited_s = self.since.elapsed_s((found.id, "nova"), asked_at)
        return self.wait(found, min(backoff_s(waited_s), MOST_WAIT_FOR_NOVA_S))


def log_status(found: Escalation, why: str) -> None:
    """One line for each thing that becomes of it."""
    status, told = found.status.value, printable(why)
    LOG.info("escalation=%s host=%s %s%s", found.id, found.host, status, told and f": {told}")
