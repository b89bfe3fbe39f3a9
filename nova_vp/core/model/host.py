# SPDX-License-Identifier: Apache-2.0
"""The host as one tick sees it: who runs in which LLC domain, and what is free there.

Derived once per tick from the picture and the samples; every controller reads the same one.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from nova_vp.core.model.cpu_share import sibling_speeds
from nova_vp.core.model.miss_cost import miss_cycles
from nova_vp.core.model.predict import (
    FALLBACK_CLOCK_HZ,
    UNKNOWN_STATE,
    Resident,
    evicted_ratio,
    resident,
    typical,
)
from nova_vp.core.types.action import Action
from nova_vp.core.types.guest import Guest, MemoryMove
from nova_vp.core.types.knob import Applied, Cpus, Knob, all_cpus
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.sample import Incomplete, Profile
from nova_vp.core.types.state import VpState
from nova_vp.core.types.topology import LlcDomain, Topology

SATURATED = 0.95
"""Share of a domain's CPU in use, from which on somebody may want more than it gets."""

DomainSet = tuple[LlcDomain, ...]
"""Where a VP can live: one LLC domain, or the fewest of one node for a wide VP."""


@dataclass(frozen=True, slots=True)
class Host:
    topology: Topology
    guests: Mapping[str, Guest]
    vps: Mapping[str, VpState]
    undisturbed: Mapping[str, Profile]
    domains_of: Mapping[str, tuple[LlcDomain, ...]]
    """By guest UUID: the domains its vCPU threads may run in now."""
    domain_ids: Mapping[frozenset[int], tuple[int, ...]]
    """By placement: the same, as ids."""
    members: Mapping[int, tuple[str, ...]]
    """By domain id: the guests that may run there."""
    neighbours: Mapping[str, Mapping[str, float]]
    """By guest UUID: LLC misses per second of all who share an LLC domain with it, and its own, but
    not of other servers of its VP. One mapping for all lone servers that are placed alike."""
    crowds: Mapping[frozenset[int], float]
    """By placement: LLC misses per second of all who share an LLC domain with it."""
    clock_hz: float
    """Cycles per second that a busy vCPU gets on this host."""
    knobs: frozenset[Knob] = frozenset({Knob.PLACEMENT})
    memory_moves: Mapping[str, MemoryMove] = field(default_factory=dict)
    """Under way now, by guest UUID."""
    applied: Mapping[str, Applied] = field(default_factory=dict)
    """By guest UUID: what our journal says we hold of it."""
    has_siblings: bool = False
    """Some cores show themselves as several CPUs."""
    _residents: dict[str, Resident] = field(default_factory=dict, init=False, compare=False)
    """Each made when it is first asked for, as those below: most ticks predict nothing."""
    _claims: dict[int, list[tuple[str, float]]] = field(
        default_factory=dict, init=False, compare=False
    )
    _memory: dict[str, Mapping[int, float]] = field(default_factory=dict, init=False, compare=False)
    _nodes: dict[frozenset[int], Mapping[int, float]] = field(
        default_factory=dict, init=False, compare=False
    )
    _used: dict[int, float] = field(default_factory=dict, init=False, compare=False)
    _beside_siblings: dict[int, Mapping[frozenset[int], float]] = field(
        default_factory=dict, init=False, compare=False
    )
    _domain_sets: dict[tuple[frozenset[int], int], tuple[DomainSet, ...]] = field(
        default_factory=dict, init=False, compare=False
    )

    def domain_sets(self, guest: Guest) -> tuple[DomainSet, ...]:
        """Where this guest could live, within Nova's bound, never across nodes."""
        needs = (guest.allowed_cpus, guest.vcpus)
        if needs not in self._domain_sets:
            self._domain_sets[needs] = tuple(_domain_sets(self.topology, guest))
        return self._domain_sets[needs]

    def refuses_help(self, uuid: str | None) -> bool:
        """Whether nothing may be done for this guest's sake."""
        guest = self.guests.get(uuid or "")
        return guest is not None and guest.refuses_help

    def room_cores(self, domain_set: DomainSet, without: Collection[str]) -> float:
        """CPU that nobody will want there, counted as if `without` had left."""
        wanted = sum(
            self.share(uuid, domain) * self.wanted_cores(uuid)
            for domain in domain_set
            for uuid in self.members[domain.id]
            if uuid not in without
        )
        return sum(len(d.cpus) for d in domain_set) - wanted

    def free_cores(self, domain_set: DomainSet, without: frozenset[str] = frozenset()) -> float:
        """CPU that nobody uses there, counted as if `without` had left."""
        left = sum(self._used_cores(uuid, domain) for domain in domain_set for uuid in without)
        return left + sum(len(d.cpus) - self._used_in(d) for d in domain_set)

    def _used_in(self, domain: LlcDomain) -> float:
        if domain.id not in self._used:
            members = self.members[domain.id]
            self._used[domain.id] = sum(self._used_cores(uuid, domain) for uuid in members)
        return self._used[domain.id]

    def _used_cores(self, uuid: str, domain: LlcDomain) -> float:
        return self.share(uuid, domain) * _cores(self.vps[uuid])

    def used_cores(self, uuid: str) -> float:
        return _cores(self.vps[uuid])

    def wanted_cores(self, uuid: str) -> float:
        """CPU to reckon with: the most that it used lately, since a light phase is soon over; and
        where all CPU is used, so that nobody can see what is lacking, all that it could use."""
        guest, vp = self.guests[uuid], self.vps[uuid]
        if any(map(self._is_saturated, self.domains_of[uuid])):
            return self.occupiable_cpus(uuid) * guest.quota.cores
        return max(vp.peak_cores, _cores(vp))

    def demanded_cores(self, uuid: str) -> float:
        """CPU that it uses and waits for now; where nobody measures waiting, a full place may hide
        some."""
        use = self.vps[uuid].cpu_use
        if use is not None:
            return use.ran_cores + use.waited_cores
        if any(map(self._is_saturated, self.domains_of[uuid])):
            return self.wanted_cores(uuid)
        return self.used_cores(uuid)

    def is_overcommitted(self) -> bool:
        return sum(map(self.occupiable_cpus, self.guests)) > len(self.topology.cpus)

    def occupiable_cpus(self, uuid: str) -> int:
        """CPUs that its vCPUs can be on at once."""
        guest = self.guests[uuid]
        return min(guest.vcpus, len(guest.placement))

    def _is_saturated(self, domain: LlcDomain) -> bool:
        return self._used_in(domain) >= SATURATED * len(domain.cpus)

    def memory_of(self, uuid: str) -> Mapping[int, float]:
        """Share of a guest's memory by node; where it was not read, as its vCPUs are spread."""
        if uuid not in self._memory:
            shares = self.guests[uuid].memory_shares
            self._memory[uuid] = dict(shares) if shares else self.cpus_by_node(uuid)
        return self._memory[uuid]

    def memory_due(self, uuid: str) -> Mapping[int, float]:
        """The same where all that is on its way has arrived: what to plan by."""
        move = self.memory_moves.get(uuid)
        return dict(move.to) if move else self.memory_of(uuid)

    def cpus_by_node(self, uuid: str) -> Mapping[int, float]:
        """Share of the CPUs that a guest may run on, by node."""
        placement = self.guests[uuid].placement
        if placement not in self._nodes:
            spread: dict[int, float] = {}
            for domain in self.domains_of[uuid]:
                spread[domain.node] = spread.get(domain.node, 0.0) + self.share(uuid, domain)
            self._nodes[placement] = spread
        return self._nodes[placement]

    def allocated_vcpus(
        self, domain_set: DomainSet, without: frozenset[str] = frozenset()
    ) -> float:
        return sum(
            self.share(uuid, domain) * self.guests[uuid].vcpus
            for domain in domain_set
            for uuid in self.members[domain.id]
            if uuid not in without
        )

    def share(self, uuid: str, domain: LlcDomain) -> float:
        """How much of a guest is counted in a domain: floating guests are spread by CPU."""
        if self.domains_of[uuid] == (domain,):
            return 1.0
        placement = self.guests[uuid].placement
        return len(domain.cpus & placement) / len(placement)

    def evicted_ratio(self, uuid: str) -> float:
        """Share of a guest's hits that its neighbours' misses of now cost it, by the model."""
        sample = self.vps[uuid].sample
        if sample is None:
            return 0.0
        others = self.crowds[self.guests[uuid].placement] - sample.misses_per_s
        return evicted_ratio(sample.references_per_s, others)

    def original_cpus(self, uuid: str) -> frozenset[int]:
        """Where a guest that we placed might run before; empty: we did not."""
        applied = self.applied.get(uuid)
        held = applied.of(Knob.PLACEMENT) if applied else None
        return all_cpus(cast(Cpus, held.original)) if held else frozenset()

    def claim(self, cpu: int, without: Collection[str] = ()) -> float:
        """CPU time per second that guests use of one CPU, spread over their placements."""
        if not self._claims:
            for uuid, guest in self.guests.items():
                part = self.used_cores(uuid) / len(guest.placement)
                for one in guest.placement:
                    self._claims.setdefault(one, []).append((uuid, part))
        return sum(part for uuid, part in self._claims.get(cpu, ()) if uuid not in without)

    def core_of(self, cpu: int) -> frozenset[int]:
        """All CPUs of its physical core."""
        cores = (core for d in self.topology.domains for core in d.shared_cores if cpu in core)
        return next(cores, frozenset((cpu,)))

    def sibling_speed(self, uuid: str) -> float:
        """Of what a core does for one thread alone, that its vCPUs get beside siblings that guests
        keep busy now."""
        if not self.has_siblings:
            return 1.0
        placement = self.guests[uuid].placement
        return sum(
            self.share(uuid, domain) * self._sibling_speeds(domain)[domain.cpus & placement]
            for domain in self.domains_of[uuid]
        )

    def _sibling_speeds(self, domain: LlcDomain) -> Mapping[frozenset[int], float]:
        if domain.id not in self._beside_siblings:
            used: dict[frozenset[int], float] = {}
            for uuid in self.members[domain.id]:
                cpus = domain.cpus & self.guests[uuid].placement
                used[cpus] = used.get(cpus, 0.0) + self._used_cores(uuid, domain)
            self._beside_siblings[domain.id] = sibling_speeds(domain, used)
        return self._beside_siblings[domain.id]

    def node_of(self, cpu: int) -> int:
        return next((d.node for d in self.topology.domains if cpu in d.cpus), 0)

    def residents(
        self, domain_set: DomainSet, policy: Policy, without: frozenset[str]
    ) -> list[Resident]:
        uuids = {u for d in domain_set for u in self.members[d.id]} - without
        return [self.resident(uuid, policy) for uuid in sorted(uuids)]

    def resident(self, uuid: str, policy: Policy) -> Resident:
        """By its last undisturbed state; unmeasured, by that of an unknown VP."""
        if uuid not in self._residents:
            profile = self.undisturbed.get(uuid) or self._unknown(uuid, policy)
            isolation = self.guests[uuid].isolation
            cycles = miss_cycles(self.vps[uuid].miss_cost, policy)
            one = resident(uuid, profile, isolation, policy, cycles)
            self._residents[uuid] = one._replace(mpki=one.mpki * self._activity(profile))
        return self._residents[uuid]

    def _activity(self, profile: Profile) -> float:
        """Part of the time that one of its vCPUs or more is busy: who seldom runs seldom misses."""
        return min(profile.instructions_per_s * profile.cpi / self.clock_hz, 1.0)

    def _unknown(self, uuid: str, policy: Policy) -> Profile:
        """Who has never done anything is not taken for busy: it runs at most as much as an idle
        one may."""
        profile = typical(UNKNOWN_STATE, self.clock_hz, policy)
        most_per_s = policy.min_instructions_per_s
        is_idle = self.vps[uuid].incomplete is Incomplete.IDLE
        if not is_idle or profile.instructions_per_s <= most_per_s:
            return profile
        scale = most_per_s / profile.instructions_per_s
        return profile._replace(
            instructions_per_s=scale * profile.instructions_per_s,
            misses_per_s=scale * profile.misses_per_s,
            references_per_s=scale * profile.references_per_s,
        )


def build_host(
    picture: Picture, vps: Mapping[str, VpState], undisturbed: Mapping[str, Profile]
) -> Host:
    guests = {guest.uuid: guest for guest in picture.guests}
    lying_in = {
        cpus: tuple(d for d in picture.topology.domains if d.cpus & cpus)
        for cpus in {guest.placement for guest in picture.guests}
    }
    domains_of = {uuid: lying_in[guest.placement] for uuid, guest in guests.items()}
    members: dict[int, list[str]] = {d.id: [] for d in picture.topology.domains}
    for uuid, domains in domains_of.items():
        for domain in domains:
            members[domain.id].append(uuid)
    crowds = {
        cpus: _misses_by_guest(domain_set, members, vps) for cpus, domain_set in lying_in.items()
    }
    return Host(
        topology=picture.topology,
        guests=guests,
        vps=vps,
        undisturbed=undisturbed,
        domains_of=domains_of,
        domain_ids={
            cpus: tuple([d.id for d in domain_set]) for cpus, domain_set in lying_in.items()
        },
        members={domain_id: tuple(uuids) for domain_id, uuids in members.items()},
        neighbours={
            uuid: _neighbours_of(guest, crowds[guest.placement], guests)
            for uuid, guest in guests.items()
        },
        crowds={cpus: sum(crowd.values()) for cpus, crowd in crowds.items()},
        clock_hz=_clock_hz(guests, vps),
        knobs=picture.knobs,
        applied=picture.applied,
        has_siblings=any(domain.shared_cores for domain in picture.topology.domains),
        memory_moves={u: move for u, move in picture.memory_moves.items() if not move.is_over},
    )


def after(host: Host, picture: Picture, actions: Iterable[Action]) -> Host:
    """The host as the actions will leave it: what the next newcomer will find."""
    cpus = {
        change.guest_uuid: all_cpus(cast(Cpus, change.to))
        for action in actions
        for change in action.changes
        if change.knob is Knob.PLACEMENT
    }
    if not cpus:
        return host
    guests = tuple(
        guest._replace(placement=cpus[guest.uuid]) if guest.uuid in cpus else guest
        for guest in picture.guests
    )
    left = build_host(replace(picture, guests=guests), host.vps, host.undisturbed)
    left._residents.update(host._residents)
    return left


def _misses_by_guest(
    domain_set: DomainSet, members: Mapping[int, Iterable[str]], vps: Mapping[str, VpState]
) -> Mapping[str, float]:
    return {
        uuid: sample.misses_per_s
        for domain in domain_set
        for uuid in members[domain.id]
        if (sample := vps[uuid].sample)
    }


def _neighbours_of(
    guest: Guest, crowd: Mapping[str, float], guests: Mapping[str, Guest]
) -> Mapping[str, float]:
    """What servers of one VP do to each other is nobody's interference."""
    if not guest.group:
        return crowd
    vp_id = guest.vp_id
    return {
        uuid: misses_per_s
        for uuid, misses_per_s in crowd.items()
        if uuid == guest.uuid or guests[uuid].vp_id != vp_id
    }


def _domain_sets(topology: Topology, guest: Guest) -> Iterator[DomainSet]:
    usable = [d for d in topology.domains if d.cpus & guest.allowed_cpus]
    fitting = [d for d in usable if len(d.cpus & guest.allowed_cpus) >= guest.vcpus]
    if fitting:
        yield from ((domain,) for domain in fitting)
        return
    for node in sorted({d.node for d in usable}):
        yield _fewest([d for d in usable if d.node == node], guest)


def _fewest(domains: list[LlcDomain], guest: Guest) -> DomainSet:
    domains = sorted(domains, key=lambda d: (-len(d.cpus & guest.allowed_cpus), d.id))
    chosen: list[LlcDomain] = []
    while domains and sum(len(d.cpus & guest.allowed_cpus) for d in chosen) < guest.vcpus:
        chosen.append(domains.pop(0))
    return tuple(sorted(chosen, key=lambda d: d.id))


def cpus_of(domain_set: Iterable[LlcDomain], guest: Guest) -> frozenset[int]:
    return frozenset().union(*(d.cpus for d in domain_set)) & guest.allowed_cpus


def _cores(vp: VpState) -> float:
    return vp.sample.cpu_cores if vp.sample else 0.0


def _clock_hz(guests: Mapping[str, Guest], vps: Mapping[str, VpState]) -> float:
    clocks_hz = [
        vp.sample.instructions_per_s * vp.sample.cpi / guests[uuid].vcpus
        for uuid, vp in vps.items()
        if vp.sample and vp.incomplete is None
    ]
    return max(clocks_hz, default=FALLBACK_CLOCK_HZ)


def allotted_cores(guest: Guest) -> float:
    """CPU that a guest can use at most where it is: as many CPUs as it has, each up to its cap."""
    return min(guest.vcpus, len(guest.placement)) * guest.quota.cores
