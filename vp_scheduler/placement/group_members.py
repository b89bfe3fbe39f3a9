# SPDX-License-Identifier: Apache-2.0
"""Whom of its own VP a newcomer would meet on a host: what they do to each other is nobody's
interference.

The digest's tables count every resident alike, so the share of the newcomer's own VP is taken out
here: all of it where nobody else lives in a place, otherwise what `predict` says of their classes.
"""

from collections.abc import Collection
from typing import NamedTuple

from nova_vp import wire
from nova_vp.core.model.predict import FALLBACK_CLOCK_HZ, newcomers
from nova_vp.core.types.policy import Policy
from vp_scheduler.placement.host_digest import HostDigest, Loss

_CLASSES = newcomers(FALLBACK_CLOCK_HZ, Policy())


class GroupMembers(NamedTuple):
    members: tuple[tuple[int, int], ...]
    """Seat and newcomer class of each."""
    strangers: frozenset[int]
    """Seats of all others."""
    strict_strangers: frozenset[int]

    def own_loss(self, digest: HostDigest, number: int, newcomer_class: int) -> float:
        """What a server of this VP would lose in a place to others."""
        loss = digest.loss(Loss.NEWCOMER, number, newcomer_class)
        if not self._are_in(self.strangers, digest, number):
            return 0.0
        pressing = [
            _CLASSES[member].pressure_per_s
            for seat, member in self.members
            if _is_in(seat, digest, number)
        ]
        return _without(loss, newcomer_class, sum(pressing))

    def is_met(self, loss: Loss, digest: HostDigest, number: int) -> bool:
        """Whether anybody in a place could suffer such a loss, who is not of this VP."""
        whom = self.strict_strangers if loss is Loss.STRICT else self.strangers
        return self._are_in(whom, digest, number)

    def _are_in(self, seats: Collection[int], digest: HostDigest, number: int) -> bool:
        return any(_is_in(seat, digest, number) for seat in seats)


def group_members_of(digest: HostDigest, marks: Collection[bytes]) -> GroupMembers | None:
    """`marks`: of the VP's other servers. None: none is there, or the agent does not say where."""
    if not (digest.seats and digest.classes):
        return None
    members, strangers, stricts = [], set(), set()
    both = zip(wire.split_marks(digest.known), digest.seats, digest.classes, strict=True)
    for mark, seat, newcomer_class in both:
        place = seat & ~wire.STRICT_SEAT
        if mark in marks:
            members.append((place, newcomer_class))
            continue
        strangers.add(place)
        if seat & wire.STRICT_SEAT:
            stricts.add(place)
    return (
        GroupMembers(tuple(members), frozenset(strangers), frozenset(stricts)) if members else None
    )


def _is_in(seat: int, digest: HostDigest, number: int) -> bool:
    """Who lives in several domains is met in each; where guests float, everybody is met."""
    if seat in (wire.NOWHERE, wire.SEVERAL):
        return seat == wire.SEVERAL
    return not digest.domain_ids or digest.domain_ids[number] == seat


def _without(loss: float, newcomer_class: int, pressure_per_s: float) -> float:
    """`predict` turned round: the lines that others bring in, from what is lost to them; and what
    would be lost to the rest."""
    one = _CLASSES[newcomer_class]
    if not one.hit_value_cpi or not 0 < loss < 1:
        return loss
    worth = one.hit_value_cpi / one.cpi
    evicted = loss / (1 - loss) / worth
    if evicted >= 1:
        return loss  # more than a full cache is worth: no other lines explain it
    others_per_s = one.references_per_s * evicted / (1 - evicted)
    rest_per_s = max(0.0, others_per_s - pressure_per_s)
    extra = worth * rest_per_s / (rest_per_s + one.references_per_s)
    return extra / (1 + extra)
