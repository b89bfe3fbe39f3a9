# SPDX-License-Identifier: Apache-2.0
"""Brings what Nova knows of hosts and servers to the agents, until they say that they have it.

Agents have no identity in the cloud. Each says in its report what it was told last; whoever takes
in a report compares, as `override_sync` does. Whose server is where is Nova's word, not the
agent's: a report only says which projects are worth asking for.
"""

import logging
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import oslo_messaging

from nova_vp import wire
from nova_vp.host_facts import NO_FACTS, HostFacts, ServerGroup, facts_text, ours
from nova_vp.signing.identity import Identity
from vp_scheduler.escalation import session
from vp_scheduler.escalation.nova_client import (
    NOT_NOVAS,
    REFUSALS,
    Aggregate,
    FlavoredServer,
    NovaAway,
    NovaClient,
)
from vp_scheduler.ingest.bus_agents import BusAgents
from vp_scheduler.ingest.report_queue import MAX_HOSTS

LOG = logging.getLogger(__name__)
REPEAT_S = 3600.0
"""Facts that stay the same are told again, since agents do not start with old ones."""
FORGET_S = 600.0
"""A host that has not reported for so long here is asked for no more."""
PROJECTS_PER_S = 20.0
"""Of two requests each: Nova is not there for us alone."""
JITTER_RATIO = 0.1
_FAULTS = (*REFUSALS, NovaAway, *NOT_NOVAS)
"""What ends one reading."""


class Knowing(Protocol):
    """What of `NovaClient` is used. All raise as `nova_client.Nova` does."""

    def servers_of(self, project_id: str) -> list[FlavoredServer]: ...

    def groups_of(self, project_id: str) -> list[ServerGroup]: ...

    def aggregates(self, project_id: str) -> list[Aggregate]: ...


class Telling(Protocol):
    def tell_facts(self, host: str, text: str) -> None:
        """Raises oslo.messaging's exceptions."""


class Held(NamedTuple):
    """What a host says that it was told."""

    read_at: float
    checksum: str
    projects: frozenset[str]
    """Of the servers that run there."""
    heard_at_s: float


class OfProject(NamedTuple):
    servers: Sequence[FlavoredServer]
    groups: Sequence[ServerGroup]


NOTHING_READ = OfProject((), ())


class Reading(NamedTuple):
    """Of Nova, as of one moment."""

    read_at: float
    """Seconds since 1970, before anything was asked."""
    projects: frozenset[str]
    """Those that were asked for."""
    hosts: Mapping[str, HostFacts]
    checksums: Mapping[str, str]


NO_READING = Reading(0.0, frozenset(), {}, {})


class FactsSync:
    def __init__(
        self,
        nova: Knowing,
        agents: Telling,
        interval_s: float,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`wall_clock`: seconds since 1970."""
        self._nova = nova
        self._agents = agents
        self._interval_s = interval_s
        self._clock = clock
        self._wall_clock = wall_clock
        self._changed = threading.Condition()
        self._held: dict[str, Held] = {}
        self._differing: set[str] = set()
        """Hosts that are to be told."""
        self._reading = NO_READING
        self._last: dict[str, OfProject] = {}
        """By project, as it was read last."""
        self._closing = threading.Event()
        self._failures: dict[str, str] = {}
        """By what fails, as it was logged."""
        self._thread = threading.Thread(target=self._run, name="facts", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        self._closing.set()
        with self._changed:
            self._changed.notify()
        self._thread.join(timeout_s)

    def heard(self, report: Mapping[str, Any]) -> None:
        """A valid report has come in. Cheap; from any thread."""
        host, told = report["host"], report.get("facts")
        if told is None:  # An agent of an earlier release takes no facts.
            return
        projects = frozenset(vp["project_id"] for vp in report["vps"] if vp["project_id"])
        held = Held(told["read_at"], told["checksum"], projects, self._clock())
        with self._changed:
            if host not in self._held and len(self._held) >= MAX_HOSTS:
                return
            self._held[host] = held
            self._differing.discard(host)
            if not self._fits(host, held):
                self._differing.add(host)
                self._changed.notify()

    def _fits(self, host: str, held: Held) -> bool:
        """Or nothing better is known: a project that was not asked for yet would be missing."""
        reading = self._reading
        if reading is NO_READING or not held.projects <= reading.projects:
            return True
        is_fresh = reading.read_at - held.read_at < REPEAT_S
        return is_fresh and held.checksum == reading.checksums.get(host, NO_FACTS.checksum)

    def _run(self) -> None:
        next_at_s = self._clock()
        while not self._closing.is_set():
            if self._clock() >= next_at_s:
                self.read()
                jitter = random.uniform(1 - JITTER_RATIO, 1 + JITTER_RATIO)
                next_at_s = self._clock() + self._interval_s * jitter
            may_go_on = self._may_go_on if self.tell() else self._closing.is_set
            with self._changed:
                self._changed.wait_for(may_go_on, max(0.0, next_at_s - self._clock()))

    def _may_go_on(self) -> bool:
        return self._closing.is_set() or bool(self._differing)

    def read(self) -> None:
        """Asks Nova for the projects of all hosts that report."""
        with self._changed:
            oldest_s = self._clock() - FORGET_S
            self._held = {h: one for h, one in self._held.items() if one.heard_at_s > oldest_s}
            projects = frozenset[str]().union(*(one.projects for one in self._held.values()))
        try:
            reading = self._read(projects)
        except _FAULTS as exc:
            self._note_failure("cannot read", exc)
            reading = NO_READING
        else:
            self._failures.pop("cannot read", None)
        with self._changed:
            self._reading = reading
            self._differing = {h for h, one in self._held.items() if not self._fits(h, one)}

    def _read(self, projects: Iterable[str]) -> Reading:
        """One project that cannot be read, as one that was disabled, keeps no host from being told
        the rest: a mode may depend on its aggregates. Raises one of _FAULTS."""
        read_at = self._wall_clock()
        found: dict[str, OfProject] = {}
        readable = ""
        for project in sorted(projects):
            what = f"project {project}, of which hosts keep what was read last: cannot read"
            try:
                servers, groups = self._nova.servers_of(project), self._nova.groups_of(project)
            except REFUSALS as exc:
                self._note_failure(what, exc)
                found[project] = self._last.get(project, NOTHING_READ)
                continue
            self._failures.pop(what, None)
            readable, found[project] = project, OfProject(servers, groups)
            if self._closing.wait(1 / PROJECTS_PER_S):
                return NO_READING
        if not readable:
            return NO_READING  # As a member of no project, nothing can be asked.
        self._last = found
        aggregates = self._nova.aggregates(readable)
        hosts = facts_by_host(
            [server for one in found.values() for server in one.servers],
            [group for one in found.values() for group in one.groups],
        )
        hosts = _with_aggregates(hosts, aggregates)
        checksums = {host: facts.checksum for host, facts in hosts.items()}
        return Reading(read_at, frozenset(found), hosts, checksums)

    def tell(self) -> bool:
        """Those hosts that differ; False: not all could be told."""
        with self._changed:
            differing, reading = {h: self._held[h] for h in self._differing}, self._reading
        for host, held in sorted(differing.items()):
            try:
                text = facts_text(reading.read_at, reading.hosts.get(host, NO_FACTS))
                self._agents.tell_facts(host, text)
            except wire.BadMessage as exc:
                self._note_failure(f"host={host} cannot be told", exc)
            except oslo_messaging.MessagingException as exc:
                self._note_failure("hosts are not told of", exc)
                return False
            with self._changed:
                if self._held.get(host) is held:  # Else it has spoken since.
                    self._differing.discard(host)
        self._failures.pop("hosts are not told of", None)
        return True

    def _note_failure(self, what: str, exc: Exception) -> None:
        first_line = str(exc).partition("\n")[0]
        if self._failures.get(what) != first_line:
            LOG.error("%s facts of Nova, trying again: %s", what, first_line)
        self._failures[what] = first_line


def facts_by_host(
    servers: Iterable[FlavoredServer], groups: Iterable[ServerGroup]
) -> dict[str, HostFacts]:
    """Without aggregates."""
    specs: dict[str, dict[str, Mapping[str, str]]] = defaultdict(dict)
    host_of: dict[str, str] = {}
    for server in servers:
        if server.host:
            host_of[server.uuid] = server.host
            if wanted := ours(server.extra_specs):
                specs[server.host][server.uuid] = wanted
    grouped: dict[str, list[ServerGroup]] = defaultdict(list)
    for group in groups:
        for host in {host_of[uuid] for uuid in group.members if uuid in host_of}:
            grouped[host].append(group)
    return {
        host: HostFacts(groups=tuple(grouped[host]), specs=specs[host])
        for host in set(host_of.values())
    }


def _with_aggregates(
    hosts: Mapping[str, HostFacts], aggregates: Iterable[Aggregate]
) -> dict[str, HostFacts]:
    names: dict[str, list[str]] = defaultdict(list)
    for aggregate in aggregates:
        for host in aggregate.hosts:
            names[host].append(aggregate.name)
    return {
        host: hosts.get(host, NO_FACTS)._replace(aggregates=tuple(names[host]))
        for host in {*hosts, *names}
    }


def open_facts(identity: Identity) -> FactsSync | None:
    """None where nobody gave us an identity in the cloud, or wants no facts. Raises cfg.Error."""
    conf = identity.conf
    interval_s = conf.vp_scheduler.facts_interval_s
    if not interval_s or not session.is_configured(conf):
        return None
    nova = NovaClient(session.open_cloud(conf))
    return FactsSync(nova, BusAgents(identity), interval_s)
