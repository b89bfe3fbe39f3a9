# SPDX-License-Identifier: Apache-2.0
"""One host's digest, made ready for judging when it arrives.

A request is judged against thousands of hosts at once, a digest arrives once a minute: what can be
known beforehand is computed here, so that scoring only looks up. Few objects, since the garbage
collector would visit those of all hosts in the middle of a request. No clock and no waiting.
"""

import enum
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nova_vp import wire
from vp_scheduler.placement.class_room import HostRoom, read_room

_CLASSES = wire.PREDICT_CLASSES
_MAX_SHARED = 10_000
_shapes: dict[tuple[int, ...], tuple[int, ...]] = {}
"""Hosts of one kind are alike: their shapes are kept once."""


class Loss(enum.IntEnum):
    """Whose share of performance lost: once a newcomer of some class lives in a place."""

    NEWCOMER = 0
    RESIDENT = 1
    """The worst of all residents."""
    STRICT = 2
    """The worst of the residents with `vp:isolation=strict`."""
    WORST = 3
    """The newcomer or a resident."""
    STRICT_HURT = 4
    """A `strict` newcomer or resident: what decides whether the host may have it."""


class Place(NamedTuple):
    """Where one newcomer would live: LLC domains, or, where guests float, all of them at once."""

    domain_ids: tuple[int, ...]
    """Empty: it would float."""
    losses: tuple[float, ...]
    """By `Loss`."""
    resource: str = ""
    """Which costs most there; empty: nobody says."""
    service: str = ""
    """What its class finds there, for people; empty: it has none, or nobody says."""

    @property
    def cause(self) -> str:
        """Of what it loses and finds, for the end of a line of the log."""
        resource = f", mostly by {self.resource}" if self.resource else ""
        return resource + (f"; {self.service}" if self.service else "")

    def __str__(self) -> str:
        if not self.domain_ids:
            return "floating over all domains"
        return f"domain {'+'.join(map(str, self.domain_ids))}"


@dataclass(frozen=True, slots=True, eq=False)
class HostDigest:
    """Compared by identity: whoever remembers something about one forgets it with the next.

    Places are numbered; where guests float, there is one.
    """

    host: str
    epoch: int
    sequence: int
    is_homing: bool
    measured_s: float
    """When it was measured, by this process's clock."""
    known: bytes
    """Marks (`wire.marks_of`) of the servers that the numbers have counted, or that are stopped."""
    classes: bytes
    """The newcomer class of each of them; empty: the agent is of a release that does not say."""
    seats: bytes
    """Where each of them lives (`wire.seat_of`); empty: as above."""
    domain_ids: tuple[int, ...]
    """Of each place; empty where guests float."""
    cpus: tuple[int, ...]
    vcpus: tuple[int, ...]
    losses: "array[int]"
    """By `Loss`, place and newcomer class, in thousandths: see `loss`."""
    good_enough_ratio: float
    """Losses up to this count as none in `orders`."""
    orders: bytes
    """By newcomer class: the places, the best first as long as none is full."""
    all_cpus: int
    all_vcpus: int
    largest_cpus: int
    """Of one place."""
    used: "array[float]" = field(default_factory=lambda: array("d"))
    """CPUs in use, of each place."""
    resources: tuple[int, ...] = ()
    """Of each place, which resource costs most (`wire.resource_in`)."""
    domains: int = 1
    """LLC domains that a place is: more where guests float."""
    permits: tuple[int, ...] = ()
    """LLC misses per ms that are booked in each LLC domain, also where guests float."""
    room: HostRoom | None = None
    """What servers with a class find; None: its agent does not say."""
    judged: dict[Any, Place] = field(default_factory=dict)
    """What `score_host` remembers; nobody else reads it."""

    @property
    def version(self) -> wire.MessageVersion:
        return wire.MessageVersion(self.epoch, self.sequence)

    def loss(self, loss: int, place: int, newcomer_class: int) -> float:
        return self.losses[(loss * len(self.cpus) + place) * _CLASSES + newcomer_class] / 1000

    def resource_at(self, domain_ids: Sequence[int], newcomer_class: int) -> str:
        """Which costs most in a place; empty: none, or nobody says."""
        number = self.domain_ids.index(domain_ids[0]) if domain_ids else 0
        resource = wire.resource_in(self.resources[number], newcomer_class)
        return resource.value if resource else ""

    def class_of(self, server: str) -> int:
        """Unknown also where the server is not on this host."""
        marks = wire.split_marks(self.known) if self.classes else []
        mark = wire.mark_of(server)
        return self.classes[marks.index(mark)] if mark in marks else wire.UNKNOWN_CLASS


def read_digest(message: Mapping[str, Any], now_s: float, good_enough_ratio: float) -> HostDigest:
    """From a decoded message. Raises wire.BadMessage."""
    domains = [domain for domain in message["domains"] if domain["cpus"]]
    cpus = _shared(tuple([domain["cpus"] for domain in domains]))
    vcpus = tuple([domain["vcpus"] for domain in domains])
    used = [max(0.0, one["cpus"] - one["free_mcores"] / 1000) for one in domains]
    resources = [domain.get("resources", 0) for domain in domains]
    tables = _tables(domains)
    is_homing = message["homing"]
    if domains and not is_homing:
        # Whoever floats meets the worst of each domain.
        cpus, vcpus, used = (sum(cpus),), (sum(vcpus),), [sum(used)]
        resources = [resources[_worst(tables[Loss.WORST])]]
        tables = [[list(map(max, zip(*table, strict=True)))] for table in tables]
    known = wire.unpack_known(message["known"])
    return HostDigest(
        host=message["host"],
        epoch=message["epoch"],
        sequence=message["seq"],
        is_homing=is_homing,
        measured_s=now_s - message["age_ms"] / 1000,
        known=known,
        classes=wire.unpack_classes(message["classes"], known) if "classes" in message else b"",
        seats=wire.unpack_seats(message["seats"], known) if "seats" in message else b"",
        domain_ids=_shared(tuple([domain["id"] for domain in domains])) if is_homing else (),
        cpus=cpus,
        vcpus=vcpus,
        losses=array("H", [loss for table in tables for row in table for loss in row]),
        good_enough_ratio=good_enough_ratio,
        orders=_rankings(cpus, vcpus, tables[Loss.WORST], good_enough_ratio),
        all_cpus=sum(cpus),
        all_vcpus=sum(vcpus),
        largest_cpus=max(cpus, default=0),
        used=array("d", used),
        resources=_shared(tuple(resources)),
        permits=tuple(message.get("permits", (0,) * len(domains))),
        domains=1 if is_homing else max(1, len(domains)),
        room=read_room(message, sum(one["free_mcores"] for one in domains) / 1000),
    )


def _worst(losses: Sequence[Sequence[int]]) -> int:
    """The domain in which most is lost."""
    sums = [sum(row) for row in losses]
    return sums.index(max(sums))


def _shared(shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(_shapes) >= _MAX_SHARED:
        _shapes.clear()
    return _shapes.setdefault(shape, shape)


def _tables(domains: Sequence[Mapping[str, Any]]) -> list[list[list[int]]]:
    """By `Loss`, domain and newcomer class, in thousandths."""
    newcomers = [domain["newcomer"] for domain in domains]
    residents = [domain["resident"] for domain in domains]
    stricts = [domain["strict"] for domain in domains]
    return [
        newcomers,
        residents,
        stricts,
        [list(map(max, *both)) for both in zip(newcomers, residents, strict=True)],
        [list(map(max, *both)) for both in zip(newcomers, stricts, strict=True)],
    ]


def rankings_of(digest: HostDigest, good_enough_ratio: float) -> bytes:
    """`HostDigest.orders`, if losses up to another share counted as none."""
    worsts = [
        [round(digest.loss(Loss.WORST, place, number) * 1000) for number in range(_CLASSES)]
        for place in range(len(digest.cpus))
    ]
    return _rankings(digest.cpus, digest.vcpus, worsts, good_enough_ratio)


def _rankings(
    cpus: Sequence[int],
    vcpus: Sequence[int],
    worsts: Sequence[Sequence[int]],
    good_enough_ratio: float,
) -> bytes:
    """By newcomer class: the places by what would be lost there, then by how full they are.

    How full they are with a newcomer of one vCPU: of places equally good for a wider one, another
    may be meant, which changes no decision.
    """
    if len(cpus) == 1:
        return bytes(_CLASSES)
    by_load = sorted(range(len(cpus)), key=lambda place: (vcpus[place] + 1) / cpus[place])
    return bytes(
        place
        for losses in zip(*[worsts[place] for place in by_load], strict=True)
        for place in _by_felt(by_load, losses, good_enough_ratio * 1000)
    )


def _by_felt(
    by_load: Sequence[int], losses: Sequence[int], good_enough_permille: float
) -> Iterator[int]:
    felt = [loss if loss > good_enough_permille else 0 for loss in losses]
    if not any(felt):
        return iter(by_load)
    # Of equal ones the sort keeps the order.
    return (by_load[rank] for rank in sorted(range(len(felt)), key=felt.__getitem__))
