# SPDX-License-Identifier: Apache-2.0
"""The host as one tick sees it: who runs in which LLC domain, and what is free there.

Derived once per tick from the picture and the samples; every controller reads the same one.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from nova_vp.core.memory import Tracked
from nova_vp.core.model import (
    Action,
    DomainView,
    Guest,
    LlcDomain,
    Picture,
    Policy,
    Profile,
    Topology,
)
from nova_vp.core.predict import (
    FALLBACK_CLOCK_HZ,
    UNKNOWN_STATE,
    Resident,
    newcomers,
    resident,
    tabulate,
    typical,
)

Seat = tuple[LlcDomain, ...]
"""Where a VP can live: one LLC domain, or the fewest of one node for a wide VP."""


@dataclass(frozen=True, slots=True)
class Host:
    topology: Topology
    guests: Mapping[str, Guest]
    vps: Mapping[str, Tracked]
    undisturbed: Mapping[str, Profile]
    domains_of: Mapping[str, tuple[LlcDomain, ...]]
    """By guest UUID: the domains its vCPU threads may run in now."""
    members: Mapping[int, tuple[str, ...]]
    """By domain id: the guests that may run there."""
    neighbours: Mapping[str, Mapping[str, float]]
    """By guest UUID: LLC misses per second of all who share an LLC domain with it, and its own.
    One mapping for all who are placed alike."""
    clock_hz: float
    """Cycles per second that a busy vCPU gets on this host."""
    _residents: dict[str, Resident] = field(default_factory=dict, init=False, compare=False)
    """Each made when it is first asked for, as those below: most ticks predict nothing."""
    _used: dict[int, float] = field(default_factory=dict, init=False, compare=False)
    _seats: dict[tuple[frozenset[int], int], tuple[Seat, ...]] = field(
        default_factory=dict, init=False, compare=False
    )

    def seats(self, guest: Guest) -> tuple[Seat, ...]:
        """Where this guest could live, within Nova's bound, never across nodes."""
        needs = (guest.allowed_cpus, guest.vcpus)
        if needs not in self._seats:
            self._seats[needs] = tuple(_seats(self.topology, guest))
        return self._seats[needs]

    def free_cores(self, seat: Seat, without: frozenset[str] = frozenset()) -> float:
        """CPU that nobody uses there, counted as if `without` had left."""
        left = sum(self._used_cores(uuid, domain) for domain in seat for uuid in without)
        return left + sum(len(d.cpus) - self._used_in(d) for d in seat)

    def _used_in(self, domain: LlcDomain) -> float:
        if domain.id not in self._used:
            members = self.members[domain.id]
            self._used[domain.id] = sum(self._used_cores(uuid, domain) for uuid in members)
        return self._used[domain.id]

    def _used_cores(self, uuid: str, domain: LlcDomain) -> float:
        return self._share(uuid, domain) * _cores(self.vps[uuid])

    def allocated_vcpus(self, seat: Seat, without: frozenset[str] = frozenset()) -> float:
        return sum(
            self._share(uuid, domain) * self.guests[uuid].vcpus
            for domain in seat
            for uuid in self.members[domain.id]
            if uuid not in without
        )

    def _share(self, uuid: str, domain: LlcDomain) -> float:
        """How much of a guest is counted in a domain: floating guests are spread by CPU."""
        placement = self.guests[uuid].placement
        return len(domain.cpus & placement) / len(placement)

    def residents(self, seat: Seat, policy: Policy, without: frozenset[str]) -> list[Resident]:
        uuids = {u for d in seat for u in self.members[d.id]} - without
        return [self.resident(uuid, policy) for uuid in sorted(uuids)]

    def resident(self, uuid: str, policy: Policy) -> Resident:
        """By its last undisturbed state; unmeasured, by that of an unknown VP."""
        if uuid not in self._residents:
            known = self.undisturbed.get(uuid)
            profile = known or typical(UNKNOWN_STATE, self.clock_hz, policy)
            isolation = self.guests[uuid].isolation
            self._residents[uuid] = resident(uuid, profile, isolation, policy)
        return self._residents[uuid]


def see(picture: Picture, vps: Mapping[str, Tracked], undisturbed: Mapping[str, Profile]) -> Host:
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
    crowds = {cpus: _crowd(seat, members, vps) for cpus, seat in lying_in.items()}
    return Host(
        topology=picture.topology,
        guests=guests,
        vps=vps,
        undisturbed=undisturbed,
        domains_of=domains_of,
        members={domain_id: tuple(uuids) for domain_id, uuids in members.items()},
        neighbours={uuid: crowds[guest.placement] for uuid, guest in guests.items()},
        clock_hz=_clock_hz(guests, vps),
    )


def after(host: Host, picture: Picture, actions: Iterable[Action]) -> Host:
    """The host as the actions will leave it: what the next newcomer will find."""
    cpus = {action.guest_uuid: action.cpus for action in actions}
    if not cpus:
        return host
    guests = tuple(
        replace(guest, placement=cpus[guest.uuid]) if guest.uuid in cpus else guest
        for guest in picture.guests
    )
    left = see(replace(picture, guests=guests), host.vps, host.undisturbed)
    left._residents.update(host._residents)
    return left


def _crowd(
    seat: Seat, members: Mapping[int, Iterable[str]], vps: Mapping[str, Tracked]
) -> Mapping[str, float]:
    return {
        uuid: sample.misses_per_s
        for domain in seat
        for uuid in members[domain.id]
        if (sample := vps[uuid].sample)
    }


def _seats(topology: Topology, guest: Guest) -> Iterator[Seat]:
    usable = [d for d in topology.domains if d.cpus & guest.allowed_cpus]
    fitting = [d for d in usable if len(d.cpus & guest.allowed_cpus) >= guest.vcpus]
    if fitting:
        yield from ((domain,) for domain in fitting)
        return
    for node in sorted({d.node for d in usable}):
        yield _fewest([d for d in usable if d.node == node], guest)


def _fewest(domains: list[LlcDomain], guest: Guest) -> Seat:
    domains = sorted(domains, key=lambda d: (-len(d.cpus & guest.allowed_cpus), d.id))
    chosen: list[LlcDomain] = []
    while domains and sum(len(d.cpus & guest.allowed_cpus) for d in chosen) < guest.vcpus:
        chosen.append(domains.pop(0))
    return tuple(sorted(chosen, key=lambda d: d.id))


def cpus_of(seat: Iterable[LlcDomain], guest: Guest) -> frozenset[int]:
    return frozenset().union(*(d.cpus for d in seat)) & guest.allowed_cpus


def domain_views(host: Host, policy: Policy) -> tuple[DomainView, ...]:
    """What the digest tells the scheduler about each domain."""
    classes = newcomers(host.clock_hz, policy)
    return tuple(
        DomainView(
            domain=domain,
            free_cores=max(host.free_cores((domain,)), 0.0),
            allocated_vcpus=host.allocated_vcpus((domain,)),
            pressure_per_s=sum(
                sample.misses_per_s
                for uuid in host.members[domain.id]
                if (sample := host.vps[uuid].sample)
            ),
            table=tabulate(classes, host.residents((domain,), policy, frozenset())),
        )
        for domain in host.topology.domains
    )


def _cores(vp: Tracked) -> float:
    return vp.sample.cpu_cores if vp.sample else 0.0


def _clock_hz(guests: Mapping[str, Guest], vps: Mapping[str, Tracked]) -> float:
    paces = [
        vp.sample.instructions_per_s * vp.sample.cpi / guests[uuid].vcpus
        for uuid, vp in vps.items()
        if vp.sample and vp.incomplete is None
    ]
    return max(paces, default=FALLBACK_CLOCK_HZ)
