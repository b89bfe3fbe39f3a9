# SPDX-License-Identifier: Apache-2.0
"""One way to help, as settings for the host and as places for the outlook; and how to compare.

Mitigation and rearranging build their candidates here, and Merlin's ladder (`grow`) its swaps, so
that a vCPU move is the same thing for all of them: within Nova's bound, whole VPs together, memory
along where it must follow. Whether there is room they ask `has_room`, or the outlook.
Nothing here knows why a controller wants it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import cast

from nova_vp.core.model.host import Host, Seat, cpus_of
from nova_vp.core.model.what_if import Gain, Outlook, Spot, seated, spot_of
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Cpus, Knob, Shares, all_cpus
from nova_vp.core.types.reason import Rejection, Rung
from nova_vp.core.types.want import Alternative, Hurt, Setting

FREE_CPU = 0.25
"""Of a CPU, that others may use of it while it still counts as free."""

CPU_SLACK = 0.05
"""Of the CPU a VP uses: what a place may be short of it, since use is a noisy measure."""


@dataclass(frozen=True, slots=True)
class Candidate:
    rung: Rung
    guest_uuid: str
    """Whom it is mainly about."""
    seat: Seat
    """Where that guest's vCPUs will be."""
    settings: tuple[Setting, ...]
    spots: Mapping[str, Spot]

    @property
    def domain_ids(self) -> tuple[int, ...]:
        return tuple(d.id for d in self.seat)

    @property
    def moves_memory(self) -> bool:
        return any(setting.knob is Knob.MEMORY for setting in self.settings)


def unit_of(host: Host, uuid: str) -> tuple[Guest, ...]:
    """The guests of one VP that live in the same place: they move together."""
    guest = host.guests[uuid]
    if not guest.group:
        return () if guest.unmanaged else (guest,)
    return tuple(
        one
        for one in host.guests.values()
        if one.vp_id == guest.vp_id and one.placement == guest.placement and not one.unmanaged
    )


def seats_of(host: Host, unit: Sequence[Guest]) -> tuple[Seat, ...]:
    """Where the whole unit could live."""
    vcpus = sum(guest.vcpus for guest in unit)
    return tuple(
        seat
        for seat in host.seats(max(unit, key=lambda guest: guest.vcpus))
        if len(unit) == 1
        or (
            sum(len(d.cpus) for d in seat) >= vcpus
            and all(len(cpus_of(seat, guest)) >= guest.vcpus for guest in unit)
        )
    )


def has_room(
    host: Host,
    seat: Seat,
    unit: Sequence[Guest],
    leaving: Sequence[Guest] = (),
    taken: Set[int] = frozenset(),
) -> bool:
    """Whether the CPU that the unit wants is free there, once it and `leaving` are gone; who has
    CPUs of its own needs as many that nobody uses, or gets in this tick (`taken`)."""
    without = frozenset(guest.uuid for guest in (*unit, *leaving))
    owned = sum(len(guest.placement) for guest in unit if is_allotted(host, guest))
    if owned:
        idle = sum(host.claim(cpu, without) <= FREE_CPU for d in seat for cpu in d.cpus - taken)
        return idle >= owned
    needed = sum(host.wanted_cores(guest.uuid) for guest in unit)
    return host.room_cores(seat, without) >= needed * (1 - CPU_SLACK)


def is_allotted(host: Host, guest: Guest) -> bool:
    """It has CPUs of its own (Merlin), not the run of its domains."""
    here = sum(len(d.cpus & guest.allowed_cpus) for d in host.domains_of[guest.uuid])
    return len(guest.placement) < here


def move(host: Host, unit: Sequence[Guest], seat: Seat, with_memory: bool) -> Candidate:
    """The vCPUs of a unit to a seat, and its memory to the seat's node if it must follow."""
    node = seat[0].node
    settings = [Setting(g.uuid, Knob.PLACEMENT, (cpus_of(seat, g),)) for g in unit]
    movable = [g for g in unit if with_memory and is_memory_movable(host, g, node)]
    settings += [Setting(guest.uuid, Knob.MEMORY, ((node, 1.0),)) for guest in movable]
    goes = {guest.uuid for guest in movable}
    return Candidate(
        rung=Rung.MOVE_WITH_MEMORY if movable else Rung.MOVE,
        guest_uuid=unit[0].uuid,
        seat=seat,
        settings=tuple(settings),
        spots={
            guest.uuid: Spot(
                domains=seated(seat),
                memory={node: 1.0} if guest.uuid in goes else host.memory_due(guest.uuid),
            )
            for guest in unit
        },
    )


def move_along(host: Host, unit: Sequence[Guest], seat: Seat, follow: bool = True) -> Candidate:
    """With `follow`, its memory too, if it needs that local and may have it."""
    return move(host, unit, seat, with_memory=follow and needs_local_memory(host, unit))


def move_memory(host: Host, guest: Guest, node: int) -> Candidate:
    """Its memory alone: to where its vCPUs are, or away from a hot controller."""
    shares: Shares = ((node, 1.0),)
    return Candidate(
        rung=Rung.MOVE_MEMORY,
        guest_uuid=guest.uuid,
        seat=host.domains_of[guest.uuid],
        settings=(Setting(guest.uuid, Knob.MEMORY, shares),),
        spots={guest.uuid: spot_of(host, guest.uuid)._replace(memory={node: 1.0})},
    )


def swap(host: Host, one: Sequence[Guest], other: Sequence[Guest], follow: bool) -> Candidate:
    """Two units change places; with `follow`, the memory of those who need it local goes along."""
    there, here = host.domains_of[other[0].uuid], host.domains_of[one[0].uuid]
    parts = move_along(host, one, there, follow), move_along(host, other, here, follow)
    return Candidate(
        rung=Rung.SWAP,
        guest_uuid=one[0].uuid,
        seat=there,
        settings=parts[0].settings + parts[1].settings,
        spots={**parts[0].spots, **parts[1].spots},
    )


def swap_has_room(
    host: Host, one: Sequence[Guest], other: Sequence[Guest], taken: Set[int] = frozenset()
) -> bool:
    there, here = host.domains_of[other[0].uuid], host.domains_of[one[0].uuid]
    return (
        there in seats_of(host, one)
        and here in seats_of(host, other)
        and has_room(host, there, one, other, taken)
        and has_room(host, here, other, one, taken)
    )


def within_allotment(
    host: Host, settings: Iterable[Setting], taken: Set[int] = frozenset()
) -> tuple[Setting, ...]:
    """Placements narrowed to as many CPUs as each guest was allotted (Merlin), the idlest of the
    place that nobody gets in this tick (`taken`); who may use a whole domain here may use a whole
    one there."""
    wanted = tuple(settings)
    if not any(_is_beyond_allotment(host, setting) for setting in wanted):
        return wanted
    moved = {setting.guest_uuid for setting in wanted if setting.knob is Knob.PLACEMENT}
    claims = {c: host.claim(c, without=moved) + (c in taken) for c in host.topology.cpus}
    return tuple(_narrowed(host, setting, claims) for setting in wanted)


def _is_beyond_allotment(host: Host, setting: Setting) -> bool:
    if setting.knob is not Knob.PLACEMENT:
        return False
    guest = host.guests[setting.guest_uuid]
    there = len(all_cpus(cast(Cpus, setting.value)))
    return is_allotted(host, guest) and len(guest.placement) < there


def _narrowed(host: Host, setting: Setting, claims: dict[int, float]) -> Setting:
    """`claims` grows by what this guest takes."""
    if not _is_beyond_allotment(host, setting):
        return setting
    guest = host.guests[setting.guest_uuid]
    size = len(guest.placement)
    there = all_cpus(cast(Cpus, setting.value))
    cpus = frozenset(sorted(there, key=lambda cpu: (claims[cpu], cpu))[:size])
    for cpu in cpus:
        claims[cpu] += host.used_cores(guest.uuid) / size
    return Setting(guest.uuid, Knob.PLACEMENT, (cpus,))


def needs_local_memory(host: Host, unit: Iterable[Guest]) -> bool:
    """Thesis 2.1.3: memory follows only who is sensitive to its latency (states 4, 5, 7, 8)."""
    return any(
        (profile := host.undisturbed.get(guest.uuid)) is not None and profile.sensitivity.memory
        for guest in unit
    )


def is_memory_movable(host: Host, guest: Guest, node: int) -> bool:
    """Whether more of its memory could be brought to this node."""
    return may_move_memory(host, guest) and host.memory_of(guest.uuid).get(node, 0.0) < 1.0


def may_move_memory(host: Host, guest: Guest) -> bool:
    return (
        Knob.MEMORY in host.knobs
        and not guest.memory_obstacle
        and not guest.unmanaged
        and bool(guest.memory_by_node)
        and guest.uuid not in host.memory_moves
    )


@dataclass(frozen=True, slots=True)
class Choice:
    candidate: Candidate
    gain: Gain


@dataclass(frozen=True, slots=True)
class Terms:
    """What a candidate must bring, and may cost others."""

    least_gain: float
    most_hurt: float
    """Share of its performance that anybody may lose by it."""
    price_of: Callable[[Sequence[Setting]], float]
    """Gain that settings must bring on top, for what they cost by themselves."""


def best_of(
    candidates: Iterable[Candidate], outlook: Outlook, terms: Terms
) -> tuple[Choice | None, tuple[Alternative, ...]]:
    """The candidate that brings most on the whole, and why not the others."""
    chosen: Choice | None = None
    score = terms.least_gain
    rejected: list[Alternative] = []
    for candidate in candidates:
        gain = outlook.gain_of(candidate.spots)
        worth = gain.total - terms.price_of(candidate.settings)
        if -gain.worst > terms.most_hurt:
            rejected.append(rejection(candidate, Rejection.HURTS_OTHERS, gain))
        elif worth < terms.least_gain:
            rejected.append(rejection(candidate, Rejection.GAINS_TOO_LITTLE, gain))
        elif chosen is None or worth > score:
            if chosen is not None:
                rejected.append(rejection(chosen.candidate, Rejection.NOT_BEST, chosen.gain))
            chosen, score = Choice(candidate, gain), worth
        else:
            rejected.append(rejection(candidate, Rejection.NOT_BEST, gain))
    return chosen, tuple(rejected)


def rejection(candidate: Candidate, why: Rejection, gain: Gain) -> Alternative:
    return Alternative(
        guest_uuid=candidate.guest_uuid,
        domain_id=candidate.domain_ids[0],
        rejection=why,
        hurt=hurt_of(candidate.spots, gain),
        rung=candidate.rung,
    )


def hurt_of(moved: Collection[str], gain: Gain) -> Hurt:
    """What the moved ones, and the worst of the others, would lose in all."""
    others = [loss for uuid, loss in gain.losses.items() if uuid not in moved]
    mine = [gain.losses[uuid] for uuid in moved]
    return Hurt(max(0.0, *mine), max([0.0, *others]))
