# SPDX-License-Identifier: Apache-2.0
"""What a request would meet on a host, from the host's digest alone; pure, shared by filter and
weigher.

Where the host places its VPs on arrival, the LLC domain is predicted by the rule of the agent
(`nova_vp/core/controllers/initial_placement`): CPU first, then the cache. Where guests float, the
worst domain counts.
Servers on their way, which the digest does not know, are seated first and by the same rule.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from nova_vp.core.model.predict import FALLBACK_CLOCK_HZ, newcomers, predict
from nova_vp.core.types.policy import Policy
from vp_scheduler.placement.group_members import GroupMembers
from vp_scheduler.placement.host_digest import HostDigest, Loss, Place, rankings_of
from vp_scheduler.placement.multi_vcpu import (
    busy_vcpus,
    loss_made,
    losses_made,
    one_loss,
    slowed,
    speed_with,
)
from vp_scheduler.placement.waiting import Waiting

_CLASSES = newcomers(FALLBACK_CLOCK_HZ, Policy())
PAIR_RATIOS = tuple(
    tuple(predict(one, [other]).newcomer_ratio for other in _CLASSES) for one in _CLASSES
)
"""What a VP of the first class loses to one of the second: for two that no agent has seen."""
MAX_REMEMBERED = 64
"""Answers per digest: flavors in use at one time are few, and so are servers on their way."""


class Ask(NamedTuple):
    """What decides, besides the host."""

    newcomer_class: int
    vcpus: int
    good_enough_ratio: float
    """Predicted losses up to this count as none ([policy] strict_max_hurt_ratio)."""
    learned_class: int | None = None
    """Residents lose no more to the newcomer than to this class. Where it lives and what it loses
    itself stays that of `newcomer_class`."""


def usual_loss(ask: Ask, loss: int) -> Callable[[HostDigest], float | None]:
    """One of the losses in the usual case: nobody else is on the way, and the newcomer fits into
    one place that is not full. No object is made and nothing is remembered.

    The function that is returned judges one host after the other; what is the same for all of them
    is worked out here. None: it is not the usual case, and `score_host` answers.
    """
    number, vcpus, good_enough_ratio, learned_class = ask
    loss_in = one_loss(loss, number, learned_class)

    def usual(digest: HostDigest) -> float | None:
        if vcpus > digest.largest_cpus or good_enough_ratio != digest.good_enough_ratio:
            return None
        cpus, taken = digest.cpus, digest.vcpus
        fair = -(-(digest.all_vcpus + vcpus) // digest.all_cpus)
        first = number * len(cpus)
        for place in digest.orders[first : first + len(cpus)]:
            if taken[place] + vcpus <= fair * cpus[place]:
                return loss_in(digest, place, vcpus)
        return None

    return usual


def score_host(
    digest: HostDigest,
    ask: Ask,
    waiting: tuple[Waiting, ...] = (),
    members: GroupMembers | None = None,
) -> Place | None:
    """Where the newcomer would live, and what that means. Remembered in the digest.

    `members`: servers of its VP that live there.

    None: the digest names no domain, so that nothing can be said.
    """
    if not digest.cpus:
        return None
    question = ask, waiting, members
    found = digest.judged.get(question)
    if found is None:
        found = _beside(digest, ask, waiting, members) if waiting else _alone(digest, ask, members)
        if len(digest.judged) >= MAX_REMEMBERED:
            digest.judged.clear()
        digest.judged[question] = found
    return found


def _alone(digest: HostDigest, ask: Ask, members: GroupMembers | None) -> Place:
    """Over the fewest places: first those that are not full in their order, then the emptiest.

    Its own VP is no reason to live elsewhere or here: which of its host's servers are one VP by a
    server group of Nova's, the agent that homes it does not know.
    """
    orders, places = digest.orders, len(digest.cpus)
    if ask.good_enough_ratio != digest.good_enough_ratio:
        orders = rankings_of(digest, ask.good_enough_ratio)
    count, share = _parts(digest, ask.vcpus)
    fair = _fair(digest, digest.all_vcpus + ask.vcpus)
    order = orders[ask.newcomer_class * places : (ask.newcomer_class + 1) * places]
    load = [(digest.vcpus[place] + share) / digest.cpus[place] for place in range(places)]
    roomy = [place for place in order if load[place] <= fair]
    # Of full ones the emptiest, as the agent does it, whatever would be lost there.
    full = sorted((place for place in sorted(order) if load[place] > fair), key=load.__getitem__)
    chosen = (roomy + full)[:count]
    if members is None:
        return _together([_place(digest, place, ask, share) for place in chosen])
    return _together([_seated(_Seats(digest, place), ask, share, members) for place in chosen])


def _place(digest: HostDigest, number: int, ask: Ask, share: float) -> Place:
    busy = busy_vcpus(digest, number, share)
    ids = digest.domain_ids[number : number + 1]
    return Place(ids, losses_made(digest, number, ask.newcomer_class, busy, ask.learned_class))


def _together(places: Sequence[Place]) -> Place:
    """Whoever lives in all of them meets the worst of each."""
    return Place(
        tuple(domain_id for place in places for domain_id in place.domain_ids),
        tuple(max(losses) for losses in zip(*(place.losses for place in places), strict=True)),
    )


def _parts(digest: HostDigest, vcpus: int) -> tuple[int, float]:
    """Over how many places it would lie, and its vCPUs in each."""
    count = max(1, min(len(digest.cpus), math.ceil(vcpus / digest.largest_cpus)))
    return count, vcpus / count


def _fair(digest: HostDigest, vcpus: float) -> int:
    """vCPUs per CPU up to which a place is not full, while others have room."""
    return math.ceil(vcpus / digest.all_cpus)


class _Kind(NamedTuple):
    """Servers on their way that are alike in a place."""

    newcomer_class: int
    is_strict: bool
    is_sibling: bool
    busy: float = 1.0
    """`busy_vcpus`."""


class _Seats:
    """A place with those on their way who would get there first."""

    def __init__(self, digest: HostDigest, number: int) -> None:
        self._digest = digest
        self._number = number
        self.cpus = digest.cpus[number]
        self.vcpus = float(digest.vcpus[number])
        self._others: Counter[_Kind] = Counter()

    def add(self, other: Waiting, vcpus: float) -> None:
        self.vcpus += vcpus
        self._others[self._sized(_kind(other), vcpus)] += 1

    def _sized(self, kind: _Kind, vcpus: float) -> _Kind:
        return kind._replace(busy=max(1.0, busy_vcpus(self._digest, self._number, vcpus)))

    def place(self, kind: _Kind, vcpus: float, members: GroupMembers | None = None) -> Place:
        newcomer = self._sized(kind, vcpus)
        everybody = self._others + Counter({newcomer: 1})
        beside = {kind: self._lost(kind, everybody, members) for kind in self._others}
        stricts = [lost for kind, lost in beside.items() if kind.is_strict]
        busy = sum(kind.busy * count for kind, count in everybody.items())
        speed = speed_with(self._digest, self._number, busy)
        lost = round(slowed(self._lost(newcomer, everybody, members), speed), 6)
        resident = max([self._lost_to(everybody, Loss.RESIDENT, members), *beside.values()])
        strict = max([self._lost_to(everybody, Loss.STRICT, members), *stricts])
        return Place(
            self._digest.domain_ids[self._number : self._number + 1],
            (lost, resident, strict, max(lost, resident), max(lost, strict)),
        )

    def _lost(
        self, one: _Kind, everybody: Mapping[_Kind, int], members: GroupMembers | None
    ) -> float:
        """By one of them, to those who live there and to the others of them."""
        pairs = PAIR_RATIOS[one.newcomer_class]
        kept = 1 - self._lost_to_residents(one, members)
        for kind, count in everybody.items():
            if not (kind.is_sibling and one.is_sibling):
                others = kind.busy * (count - (kind == one))
                kept *= (1 - pairs[kind.newcomer_class]) ** others
        return round(1 - kept, 6)

    def _lost_to_residents(self, one: _Kind, members: GroupMembers | None) -> float:
        if members is not None and one.is_sibling:
            return members.own_loss(self._digest, self._number, one.newcomer_class)
        return self._digest.loss(Loss.NEWCOMER, self._number, one.newcomer_class)

    def _lost_to(
        self, everybody: Mapping[_Kind, int], loss: Loss, members: GroupMembers | None
    ) -> float:
        """By those who live there: the tables tell it of each newcomer by itself."""
        kept = 1.0
        is_met = members is None or members.is_met(loss, self._digest, self._number)
        for kind, count in everybody.items():
            if kind.is_sibling and not is_met:
                continue
            made = loss_made(self._digest, loss, self._number, kind.newcomer_class, kind.busy)
            kept *= (1 - made) ** count
        return round(1 - kept, 6)


def _beside(
    digest: HostDigest, ask: Ask, waiting: Sequence[Waiting], members: GroupMembers | None
) -> Place:
    """Those on their way are seated first, then the newcomer."""
    rows = [_Seats(digest, number) for number in range(len(digest.cpus))]
    for other in waiting:
        chosen = _choose(digest, rows, _kind(other), other.vcpus, ask.good_enough_ratio)
        for seats in chosen:
            seats.add(other, other.vcpus / len(chosen))
    chosen = _choose(digest, rows, _newcomer(ask.newcomer_class), ask.vcpus, ask.good_enough_ratio)
    share = ask.vcpus / len(chosen)
    return _together([_seated(seats, ask, share, members) for seats in chosen])


def _seated(seats: _Seats, ask: Ask, share: float, members: GroupMembers | None) -> Place:
    place = seats.place(_newcomer(ask.newcomer_class), share, members)
    if ask.learned_class is None:
        return place
    learned = seats.place(_newcomer(ask.learned_class), share, members)
    lost, *made = place.losses[: Loss.WORST]
    resident, strict = map(min, made, learned.losses[Loss.RESIDENT : Loss.WORST])
    losses = lost, resident, strict, max(lost, resident), max(lost, strict)
    return place._replace(losses=losses)


def _newcomer(newcomer_class: int) -> _Kind:
    return _Kind(newcomer_class, is_strict=False, is_sibling=True)


def _kind(other: Waiting) -> _Kind:
    return _Kind(other.newcomer_class, other.is_strict, other.is_sibling)


def _choose(
    digest: HostDigest,
    rows: Sequence[_Seats],
    newcomer: _Kind,
    vcpus: int,
    good_enough_ratio: float,
) -> list[_Seats]:
    """The places that a VP of this size would live in, as the agent homes it: whom nobody has
    measured there it takes for one that is busy on one vCPU."""
    count, share = _parts(digest, vcpus)
    fair = _fair(digest, sum(seats.vcpus for seats in rows) + vcpus)

    def rank(seats: _Seats) -> tuple[bool, float, float]:
        load = (seats.vcpus + share) / seats.cpus
        worst = seats.place(newcomer, 1.0).losses[Loss.WORST]
        felt = worst if worst > good_enough_ratio else 0.0
        is_full = load > fair
        return (is_full, load if is_full else felt, load)

    return sorted(rows, key=rank)[:count]
