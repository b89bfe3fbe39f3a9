# SPDX-License-Identifier: Apache-2.0
"""From Nova's objects to the arguments of `scoring`, for the filter and the weigher alike.

No I/O and no waiting: this runs once or twice per host and request. Of the objects only what is
there already is read, since touching an unset field of an Instance loads it from the database.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from nova_vp import flavor_specs, wire
from nova_vp.core.types.asked import Asked
from nova_vp.core.types.guest import Isolation
from nova_vp.flavor_specs import FlavorSpec
from vp_scheduler.placement.class_room import Wish, fit_ratio, reason_of
from vp_scheduler.placement.group_members import GroupMembers, group_members_of
from vp_scheduler.placement.host_digest import HostDigest, Loss, Place
from vp_scheduler.placement.host_view import HostView
from vp_scheduler.placement.permit_room import has_room
from vp_scheduler.placement.request_profile import (
    UNKNOWN,
    Profile,
    field_of,
    hosts_of_group,
    profile_of_flavor,
    profile_of_request,
    vp_of,
)
from vp_scheduler.placement.scoring import Ask, score_host, usual_loss
from vp_scheduler.placement.waiting import Waiting

LOG = logging.getLogger(__name__)
MAX_TOLD = 20
"""Hosts named in one line of the log."""
MAX_REMEMBERED = 10_000
_KIB_PER_MIB = 1024
PermitOf = Callable[[Asked], float]
"""LLC misses per ms that a server of such a flavor books."""


def no_permit(asked: Asked) -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class Request:
    """What one server asks of a host."""

    server: str
    vcpus: int
    isolation: Isolation
    profile: Profile = UNKNOWN
    siblings: frozenset[str] = frozenset()
    """The servers of its server group, itself included: one VP."""
    kin_marks: frozenset[bytes] = frozenset()
    """Of the others (`wire.mark_of`)."""
    kin_hosts: frozenset[str] | None = None
    """Where they are, as Nova knows it; None: it does not say."""
    llc_permit: float = 0.0
    """LLC misses per ms that it books."""
    wish: Wish | None = None
    """What it asks for by its class; None: it has none."""

    def kin_on(self, digest: HostDigest) -> GroupMembers | None:
        if not self.kin_marks or (self.kin_hosts is not None and digest.host not in self.kin_hosts):
            return None
        return group_members_of(digest, self.kin_marks)

    def ask(self, good_enough_ratio: float) -> Ask:
        profile = self.profile
        return Ask(profile.newcomer_class, self.vcpus, good_enough_ratio, profile.learned_class)

    def __str__(self) -> str:
        return f"server {self.server} ({self.isolation.value}; {self.profile})"


class FlavorReader:
    """Flavor extra specs to what is asked, each faulty flavor reported once."""

    def __init__(self) -> None:
        self._reported: set[tuple[str, str]] = set()

    def read(self, flavor: Any) -> FlavorSpec:
        try:
            return flavor_specs.parse(field_of(flavor, "extra_specs") or {})
        except flavor_specs.InvalidFlavorSpec as exc:
            self._report(field_of(flavor, "flavorid") or "of a server on its way", str(exc))
            return FlavorSpec()

    def _report(self, flavor_id: str, fault: str) -> None:
        fact = (flavor_id, fault)
        if fact not in self._reported and len(self._reported) < MAX_REMEMBERED:
            self._reported.add(fact)
            LOG.warning(
                "flavor %s: %s. Its servers are placed as if they asked for no isolation; "
                "correct the flavor's extra specs and resize or recreate the servers",
                flavor_id,
                fault,
            )


@dataclass(frozen=True, slots=True)
class _Servers:
    """Nova's servers of one host, and which of them a digest did not know."""

    uuids: list[str]
    marks: bytes
    known: bytes
    """By the digest."""
    waiting: tuple[tuple[str, Waiting | None], ...]
    """None: nothing is known of it; it is taken for one like the request's."""


class Seen(NamedTuple):
    """What is known of hosts for one request, in the order of the hosts."""

    digests: Sequence[HostDigest | None]
    """None: nothing is known of the host."""
    waiting: Mapping[int, tuple[Waiting, ...]]
    """By a host's place in that order: its servers on their way. Most hosts have none."""


class HostScorer:
    """Thread-safe: what it remembers is replaced as a whole."""

    def __init__(self, view: HostView, permit_of: PermitOf = no_permit) -> None:
        self.view = view
        self._permit_of = permit_of
        self._flavors = FlavorReader()
        self._servers: dict[str, _Servers] = {}
        self._asked: dict[str, Waiting] = {}
        """The servers that hosts were judged for lately: soon they are on their way."""

    def read(self, spec: Any) -> Request:
        """Of a RequestSpec."""
        flavor = self._flavors.read(spec.flavor)
        profile = profile_of_request(spec, flavor, self.view)
        server, siblings = spec.instance_uuid, vp_of(spec)
        marks = frozenset(wire.mark_of(uuid) for uuid in siblings - {server})
        hosts = hosts_of_group(spec)
        vcpus, isolation = spec.flavor.vcpus, flavor.isolation
        permit, wish = self._permit(flavor, spec.flavor), _wish(spec, flavor)
        request = Request(server, vcpus, isolation, profile, siblings, marks, hosts, permit, wish)
        if len(self._asked) >= MAX_REMEMBERED:
            self._asked = {}
        self._asked[request.server] = _like(request)
        return request

    def look(self, host_states: Iterable[Any], request: Request) -> Seen:
        """What is known of each host, for as many questions as a request has."""
        digests, fresh_from_s = self.view.read()
        noted = self._servers
        found: list[HostDigest | None] = []
        waiting: dict[int, tuple[Waiting, ...]] = {}
        for number, host_state in enumerate(host_states):
            host = host_state.host
            digest = digests.get(host)
            if digest is None or digest.measured_s < fresh_from_s:
                found.append(None)
                continue
            found.append(digest)
            # Almost always Nova and the agent agree on who is there.
            if not _agree(noted.get(host), digest, host_state):
                on_their_way = self._waiting(digest, host_state, request)
                if on_their_way:
                    waiting[number] = on_their_way
        return Seen(found, waiting)

    def losses(
        self, seen: Seen, request: Request, good_enough_ratio: float, loss: Loss
    ) -> list[float | None]:
        """For each host: one of the shares lost there; None: nothing is known of the host."""
        ask = request.ask(good_enough_ratio)
        # Of an enumeration each use costs as much as the rest of a line, thousands of times.
        wanted = int(loss)
        usual = usual_loss(ask, wanted)
        has_kin = bool(request.kin_marks)
        found: list[float | None] = []
        for number, digest in enumerate(seen.digests):
            if digest is None:
                found.append(None)
                continue
            waiting = seen.waiting.get(number, ())
            members = request.kin_on(digest) if has_kin else None
            lost = None if waiting or members else usual(digest)
            if lost is None:
                place = score_host(digest, ask, waiting, members)
                lost = None if place is None else place.losses[wanted]
            found.append(lost)
        return found

    def fit_ratios(self, seen: Seen, request: Request) -> list[float | None]:
        """For each host: how well it serves the newcomer's class, from 0 to 1; None: nobody says,
        or it has no class."""
        wish = request.wish
        return [
            fit_ratio(digest.room, wish, seen.waiting.get(number, ()))
            if wish is not None and digest is not None and digest.room is not None
            else None
            for number, digest in enumerate(seen.digests)
        ]

    def has_permits(self, host_state: Any, request: Request, most_per_domain: float) -> bool | None:
        """Whether a cache of the host has so much left of what may be sold of each; None: nothing
        is known of the host."""
        digest = self.view.get(host_state.host)
        if digest is None or not digest.permits:
            return None
        waiting = self._waiting(digest, host_state, request)
        return has_room(digest, _like(request), waiting, most_per_domain)

    def place(self, host_state: Any, request: Request, good_enough_ratio: float) -> Place | None:
        """Where it would live on one host; None: nothing is known of the host."""
        seen = self.look([host_state], request)
        digest, waiting = seen.digests[0], seen.waiting.get(0, ())
        if digest is None:
            return None
        ask = request.ask(good_enough_ratio)
        found = score_host(digest, ask, waiting, request.kin_on(digest))
        if found is None:
            return None
        resource = digest.resource_at(found.domain_ids, ask.newcomer_class)
        wish, room = request.wish, digest.room
        if wish is None or room is None:
            return found._replace(resource=resource)
        service = reason_of(room, wish, fit_ratio(room, wish, waiting))
        return found._replace(resource=resource, service=service)

    def _waiting(
        self, digest: HostDigest, host_state: Any, request: Request
    ) -> tuple[Waiting, ...]:
        """Servers that Nova has put there and the agent has not seen.

        Within a multi-create Nova only raises `num_instances`; these are like the one asked for.
        """
        instances = host_state.instances
        servers = self._servers.get(digest.host)
        if servers is None or servers.known != digest.known or servers.uuids != [*instances]:
            servers = self._note(digest, instances)
        unnamed = host_state.num_instances - len(servers.uuids)
        like = _like(request)._replace(is_sibling=bool(request.siblings))
        named = (
            (one or like)._replace(is_sibling=uuid in request.siblings)
            for uuid, one in servers.waiting
            if uuid != request.server
        )
        return (*named, *[like] * unnamed)

    def _note(self, digest: HostDigest, instances: Any) -> _Servers:
        uuids = [*instances]
        known = set(wire.split_marks(digest.known))
        waiting = tuple(
            (uuid, self._one_waiting(uuid, instances.get(uuid)))
            for uuid in uuids
            if wire.mark_of(uuid) not in known
        )
        servers = _Servers(uuids, wire.marks_of(uuids), digest.known, waiting)
        self._servers[digest.host] = servers
        return servers

    def _one_waiting(self, uuid: str, instance: Any) -> Waiting | None:
        asked = self._asked.get(uuid)
        vcpus = field_of(instance, "vcpus")
        if asked or not vcpus:
            return asked
        flavor = self._flavors.read(field_of(instance, "flavor"))
        newcomer_class = profile_of_flavor(flavor).newcomer_class
        return Waiting(
            newcomer_class,
            int(vcpus),
            is_strict=flavor.isolation is Isolation.STRICT,
            llc_permit=self._permit(flavor, instance),
            service_class=flavor.service_class,
        )

    def _permit(self, flavor: FlavorSpec, sized: Any) -> float:
        """`sized`: a flavor or an instance of Nova's."""
        vcpus, memory_mib = field_of(sized, "vcpus") or 0, field_of(sized, "memory_mb") or 0
        return self._permit_of(Asked(flavor.controller_keys, vcpus, memory_mib * _KIB_PER_MIB))


def _agree(servers: _Servers | None, digest: HostDigest, host_state: Any) -> bool:
    """Whether a host's digest has counted all whom Nova has there."""
    return (
        servers is not None
        and servers.marks == digest.known
        and host_state.num_instances <= len(servers.uuids)
        and servers.uuids == [*host_state.instances]
    )


def _wish(spec: Any, flavor: FlavorSpec) -> Wish | None:
    if flavor.service_class is None:
        return None
    project = field_of(spec, "project_id") or ""
    return Wish(flavor.service_class, spec.flavor.vcpus, wire.mark_of(project))


def _like(request: Request) -> Waiting:
    return Waiting(
        request.profile.newcomer_class,
        request.vcpus,
        is_strict=request.isolation is Isolation.STRICT,
        llc_permit=request.llc_permit,
        service_class=request.wish.service_class if request.wish else None,
    )


def log_request(plugin: str, request: Request, facts: Sequence[str], count: int) -> None:
    """One line per request: which hosts, and why. `facts`: of the first MAX_TOLD of `count`."""
    more = f"; and {count - MAX_TOLD} more hosts" if count > MAX_TOLD else ""
    LOG.info("%s: %s: %s%s", plugin, request, "; ".join(facts), more)
