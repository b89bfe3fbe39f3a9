# SPDX-License-Identifier: Apache-2.0
"""The vp-scheduler's part that takes in usage: what servers with a permit are billed for.

An agent is believed what it counts of its own servers, and Nova which those are: a record is stored
if Nova has said that its server, of its project, is on that host, in the hour of the record or the
one before. Nova is asked once an hour for each server. Usage is acknowledged when the database has
committed it, and not before: an agent that hears nothing sends it again.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from nova_vp import rpcserver, rpctransport, wire
from nova_vp.core.types.usage import AMOUNTS, Usage
from nova_vp.db.report_store import ERRORS
from nova_vp.db.usage import Sighting, UsageRecord, UsageStore, hour_of
from nova_vp.message_filter import (
    KnownHosts,
    MessageFilter,
    may_refuse,
)
from nova_vp.service import failpoints
from nova_vp.signing.envelope import Call
from nova_vp.signing.identity import Identity
from vp_scheduler.escalation import session
from vp_scheduler.escalation.locate import fault_of_host
from vp_scheduler.escalation.nova_client import (
    REFUSALS,
    NoCloud,
    Nova,
    NovaAway,
    NovaClient,
    ServerGone,
)

LOG = logging.getLogger(__name__)
HOUR = timedelta(hours=1)
OLDEST = timedelta(days=31)
"""Of an hour that is billed."""
ASKING_S = 4.0
"""For so long Nova is asked for one message; the agent waits for ten seconds, and comes again for
the rest."""
AWAY_S = 30.0
"""For so long Nova is not asked after it did not answer."""
NOT_ASKED = "Nova was not asked for it yet"
ELSEWHERE = "it belongs to another project by what Nova says"
NO_TIME = "its hour is too long ago, or in the future: set the clock of the host"


class Storing(Protocol):
    """What of `UsageStore` is used. All raise `ERRORS`."""

    def sightings(self, host: str, uuids: Iterable[str]) -> dict[str, Sighting]: ...

    def note_sightings(self, host: str, sightings: Iterable[Sighting]) -> None: ...

    def add(self, host: str, records: Iterable[UsageRecord]) -> None: ...


class UsageEndpoint:
    """`rpcapi.UsageAPI`, served."""

    def __init__(
        self,
        store: Storing,
        nova: Nova,
        known_hosts: Iterable[str] = (),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._nova = nova
        self.known_hosts = KnownHosts(known_hosts)
        self.refusals = MessageFilter()
        self._clock = clock
        self._monotonic_s = monotonic_s
        self._away_until_s = 0.0
        self._why_away = ""

    # They go back to the agent, which keeps its usage; a traceback here would tell no more.
    @may_refuse(wire.BadMessage, *ERRORS)
    def usage(self, call: Call, text: Any) -> dict[str, str]:
        """By server that was left out, why."""
        host = call.sender.host
        message = self.refusals.take(wire.USAGE_TOPIC, text, host, self.known_hosts)
        return self._take(host, [_record(row) for row in message["records"]])

    def _take(self, host: str, records: list[UsageRecord]) -> dict[str, str]:
        now = self._clock()
        seen = self._store.sightings(host, {one.uuid for one in records})
        faults = self._look(host, records, seen, now)
        left_out: dict[str, str] = {}
        taken = []
        for one in records:
            why = _fault(one, seen.get(one.uuid), now)
            if why:
                left_out[one.uuid] = faults.get(one.uuid, why)
            else:
                taken.append(one)
        failpoints.reach("before-usage-commit")
        self._store.add(host, taken)
        failpoints.reach("after-usage-commit")
        return left_out

    def _look(
        self, host: str, records: list[UsageRecord], seen: dict[str, Sighting], now: datetime
    ) -> Mapping[str, str]:
        """Asks Nova for those that were not seen in the hour of their latest record. By server, why
        Nova does not confirm it; who is confirmed is in `seen` from then on."""
        wanted = {}
        for one in records:
            known = seen.get(one.uuid)
            if known is None or known.project_id != one.project_id or known.seen_at < one.hour:
                wanted[one.uuid] = one.project_id
        faults, found = {}, []
        until_s = self._monotonic_s() + ASKING_S
        for uuid, project_id in wanted.items():
            if self._monotonic_s() >= until_s:
                break
            if fault := self._ask(host, uuid, project_id):
                faults[uuid] = fault
            else:
                seen[uuid] = Sighting(uuid, project_id, now)
                found.append(seen[uuid])
        if found:
            self._store.note_sightings(host, found)
        return faults

    def _ask(self, host: str, uuid: str, project_id: str) -> str:
        if self._monotonic_s() < self._away_until_s:
            return self._why_away
        try:
            return fault_of_host(self._nova.look(project_id, uuid), host)
        except ServerGone:
            return f"Nova knows no such server in project {project_id}"
        except REFUSALS as exc:
            return str(exc)
        except NovaAway as exc:
            self._away_until_s = self._monotonic_s() + AWAY_S
            self._why_away = str(exc)
            return self._why_away


def _fault(one: UsageRecord, known: Sighting | None, now: datetime) -> str:
    """Why this record is not stored now; empty: it is."""
    if not now - OLDEST < one.hour < now + HOUR:
        return NO_TIME
    if known is None or known.seen_at < one.hour - HOUR:
        return NOT_ASKED
    return "" if known.project_id == one.project_id else ELSEWHERE


def _record(row: Mapping[str, Any]) -> UsageRecord:
    used = Usage(row["attribution"], *(float(row[name]) for name in AMOUNTS))
    return UsageRecord(
        row["meter"], row["uuid"].lower(), row["project_id"], hour_of(row["hour"]), used
    )


class UsageService:
    """Listens on a queue of its own: neither reports nor escalations wait for Nova's answers."""

    def __init__(self, identity: Identity) -> None:
        conf = identity.conf
        nova = NovaClient(session.open_cloud(conf)) if session.is_configured(conf) else NoCloud()
        self.endpoint = UsageEndpoint(UsageStore(conf), nova, conf.vp_scheduler.known_hosts)
        where = rpctransport.target(wire.USAGE_TOPIC, server="vp-scheduler")
        self._server = rpcserver.BackgroundServer(identity, where, [self.endpoint])

    @property
    def is_listening(self) -> bool:
        return self._server.is_ready

    def start(self) -> None:
        self._server.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        self._server.stop(timeout_s)
