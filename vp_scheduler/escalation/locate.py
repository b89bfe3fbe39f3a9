# SPDX-License-Identifier: Apache-2.0
"""Whether the servers that an escalation names are on the host that it names: Nova says so.

An escalation is a claim. Whoever can write to the message bus can name any host and any server;
the budgets per host and the choice of the server to migrate must not follow from that.
"""

import threading
from collections.abc import Iterable

from cachetools import TTLCache

from nova_vp.db.records import Escalation
from vp_scheduler.escalation.clock import Clock
from vp_scheduler.escalation.nova_client import (
    CloudNotConfigured,
    NotAllowed,
    Nova,
    Server,
    ServerGone,
)
from vp_scheduler.escalation.select import Candidate

KEPT_S = 120.0
"""An escalation that waits for the budgets is chosen for again every few seconds. What Nova said
serves the choice for so long; directly before a migration is requested Nova is asked again."""
MOST_KEPT = 10_000
UNLISTED = "the escalation does not list it among its candidates, so that its project is not known"
HIDDEN = (
    "Nova does not say on which host it is; check that nova-api has the rule "
    "os-extended-server-attributes of etc/nova-vp/nova-policy.yaml"
)


def fault_of_host(server: Server, host: str) -> str:
    """Why Nova does not confirm that it is on that host; empty: it does."""
    if server.host is None:
        return HIDDEN
    if server.host != host:
        return f"Nova says that it is on {server.host}, not on {host}"
    return ""


def ask_host(nova: Nova, project_id: str, server: str, host: str) -> str:
    """The same of a server by its id. Raises NovaAway and NotAllowed."""
    try:
        return fault_of_host(nova.look(project_id, server), host)
    except ServerGone:
        return f"Nova knows no such server in project {project_id}"


class ServerLocations:
    """Thread-safe."""

    def __init__(self, nova: Nova, clock: Clock) -> None:
        self._nova = nova
        self._lock = threading.Lock()
        self._faults: TTLCache[tuple[str, str, str], str] = TTLCache(
            MOST_KEPT, KEPT_S, clock.monotonic_s
        )

    def faults(self, found: Escalation, candidates: Iterable[Candidate]) -> dict[str, str]:
        """By server, why Nova does not confirm that it is on the host of the escalation. Only the
        victim's if it has one: then nothing may be done for it.

        Raises NovaAway and CloudNotConfigured.
        """
        listed = {(one.project_id, one.uuid) for one in candidates}
        victims = [one for one in listed if one[1] == found.victim]
        if not victims:
            return {found.victim: UNLISTED}
        return self._faults_of(found, victims) or self._faults_of(found, sorted(listed))

    def _faults_of(self, found: Escalation, servers: Iterable[tuple[str, str]]) -> dict[str, str]:
        faults = {server: self._fault(found, project_id, server) for project_id, server in servers}
        return {server: fault for server, fault in faults.items() if fault}

    def _fault(self, found: Escalation, project_id: str, server: str) -> str:
        # Of this escalation alone: a server that arrives later can be named by the next one.
        key = (found.id, project_id, server)
        with self._lock:
            fault = self._faults.get(key)
        if fault is None:
            fault = self._ask(found.host, project_id, server)
            with self._lock:
                self._faults[key] = fault
        return fault

    def _ask(self, host: str, project_id: str, server: str) -> str:
        try:
            return ask_host(self._nova, project_id, server, host)
        except CloudNotConfigured:
            raise
        except NotAllowed as exc:
            return str(exc)
