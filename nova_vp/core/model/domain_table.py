# SPDX-License-Identifier: Apache-2.0
"""What a newcomer of each class, and whom it meets, would lose in each LLC domain of the host.

The what-if model's answer for all classes and domains at once, so that the scheduler only looks up:
a newcomer with one vCPU and its memory where it runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from nova_vp.core.model.host import Host
from nova_vp.core.model.predict import Resident, evicted_ratio, newcomer_class, newcomers
from nova_vp.core.model.what_if import Exposure, Line, WhatIfModel
from nova_vp.core.types.asked import asked_by
from nova_vp.core.types.claim import PredictedLoss
from nova_vp.core.types.decision import DomainView
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.topology import LlcDomain

RESOURCES = (Kind.CACHE, Kind.CONTROLLER, Kind.CPU)
"""That a newcomer shares whose memory lies where it runs; what residents wait for at links counts
to the memory controller."""
_BUSY_CORES = 1.0
"""Of a newcomer's vCPU, where nobody of its class was measured."""


class _Newcomer(NamedTuple):
    one: Resident
    cores: float
    latency: float
    """Of the node's memory, once it is there."""
    memory_ratio: float
    """The same, over memory that serves it alone."""


class _Lines(NamedTuple):
    """Of some guests, as far as memory goes: those of which one may lose most, at some latency."""

    any: tuple[Line, ...]
    strict: tuple[Line, ...]


class _Mates(NamedTuple):
    """Who lives in one domain."""

    with_hits: tuple[tuple[str, Exposure], ...]
    """They have something in the cache to lose."""
    others: _Lines


class _Row(NamedTuple):
    """What the arrival of one newcomer costs."""

    combined: PredictedLoss
    apart: tuple[float, ...]
    """The most that anybody would lose to each of RESOURCES, were it the only one."""


def domain_views(host: Host, what_if: WhatIfModel, policy: Policy) -> tuple[DomainView, ...]:
    classes = newcomers(host.clock_hz, policy)
    cores = _cores_by_class(host, what_if, len(classes))
    permits = _permits(host, policy)
    views: dict[int, DomainView] = {}
    for node in host.topology.nodes:
        latencies = what_if.latencies(node, classes)
        arriving = [
            _Newcomer(one, used, latency, latency / alone)
            for one, used, (latency, alone) in zip(classes, cores, latencies, strict=True)
        ]
        exposures = what_if.exposures(node)
        # In other caches of the node only its memory tells that a newcomer is there.
        users = _lines(exposures.values())
        elsewhere = [
            (_most(users.any, one.latency), _most(users.strict, one.latency)) for one in arriving
        ]
        for domain in host.topology.domains:
            if domain.node == node:
                mates = _mates(what_if, domain, exposures)
                rows = _rows(what_if, domain, arriving, mates, elsewhere)
                views[domain.id] = _view(host, domain, rows, permits)
    return tuple(views[domain.id] for domain in host.topology.domains)


def _cores_by_class(host: Host, what_if: WhatIfModel, classes: int) -> list[float]:
    """CPU that a vCPU of each class uses: the median of those of its class here, and for who is
    unknown, of all."""
    used: dict[int, list[float]] = {}
    for uuid, profile in host.undisturbed.items():
        share = min(what_if.demanded_cores(uuid) / host.guests[uuid].vcpus, 1.0)
        number = newcomer_class(profile.state, profile.sensitivity.cache)
        used.setdefault(number, []).append(share)
        used.setdefault(classes - 1, []).append(share)
    return [median(used[n]) if n in used else _BUSY_CORES for n in range(classes)]


def _lines(exposures: Iterable[Exposure]) -> _Lines:
    lines = [(one.line(0.0), one.one.is_strict) for one in exposures]
    return _Lines(
        _worst_lines(line for line, _ in lines),
        _worst_lines(line for line, is_strict in lines if is_strict),
    )


def _lost(extra: float) -> float:
    """In this form it never falls as `extra` grows, rounding included."""
    return 1 - 1 / (1 + extra)


def _worst_lines(lines: Iterable[Line]) -> tuple[Line, ...]:
    """Without those below another one at every latency."""
    kept: list[Line] = []
    for line in sorted(set(lines), reverse=True):
        if not kept or line[1] > kept[-1][1]:
            kept.append(line)
    return tuple(kept)


def _most(lines: Iterable[Line], latency: float) -> float:
    most = 0.0
    for by_latency, fixed in lines:
        extra = by_latency * latency + fixed
        if extra > most:
            most = extra
    return most


def _mates(what_if: WhatIfModel, domain: LlcDomain, exposures: Mapping[str, Exposure]) -> _Mates:
    members = [(uuid, exposures[uuid]) for uuid in what_if.members(domain.id)]
    return _Mates(
        tuple((uuid, mate) for uuid, mate in members if mate.one.hit_value_cpi),
        _lines(mate for _, mate in members),
    )


def _rows(
    what_if: WhatIfModel,
    domain: LlcDomain,
    arriving: Iterable[_Newcomer],
    mates: _Mates,
    elsewhere: Iterable[tuple[float, float]],
) -> list[_Row]:
    pressure_per_s = what_if.pressure_per_s(domain.id)
    rows: list[_Row] = []
    for new, (memory, strict_memory) in zip(arriving, elsewhere, strict=True):
        one, latency = new.one, new.latency
        worst, worst_strict = _lost(memory), _lost(strict_memory)
        speed = what_if.speed_beside(domain.id, new.cores)
        cache = evicted_ratio(one.references_per_s, pressure_per_s) * one.hit_value_cpi
        waiting = (one.miss_cpi + cache) * (new.memory_ratio - 1)
        own = 1 - speed / (1 + (cache + waiting) / one.cpi)
        cache, memory = cache / one.cpi, max(memory, waiting / one.cpi)
        if mates.others.any:
            extra = _most(mates.others.any, latency)
            memory = max(memory, extra)
            worst = max(worst, 1 - speed / (1 + extra))
        if mates.others.strict:
            extra = _most(mates.others.strict, latency)
            worst_strict = max(worst_strict, 1 - speed / (1 + extra))
        for uuid, mate in mates.with_hits:
            evicted = what_if.evicted_beside(uuid, domain.id, one.pressure_per_s)
            by_latency, fixed = mate.line(evicted)
            loss = 1 - speed / (1 + max(by_latency * latency + fixed, 0.0))
            cache = max(cache, evicted * mate.one.hit_value_cpi / mate.one.cpi)
            worst = max(worst, loss)
            if mate.one.is_strict:
                worst_strict = max(worst_strict, loss)
        rows.append(_row(own, worst, worst_strict, (cache, memory, 1 / speed - 1)))
    return rows


def _permits(host: Host, policy: Policy) -> Mapping[str, float]:
    """By guest: LLC misses per ms that it has booked in each of its domains."""
    return {
        uuid: sum(one.controller.llc_permit(asked, one.settings) for one in policy.controllers)
        / max(len(host.domains_of[uuid]), 1)
        for uuid, guest in host.guests.items()
        if (asked := asked_by(guest)).keys
    }


def _row(own: float, worst: float, worst_strict: float, extras: tuple[float, ...]) -> _Row:
    """`extras`: to each of RESOURCES, as a share of the cycles of whoever loses most to it."""
    most = max(extras)
    resource = RESOURCES[extras.index(most)] if most > 0 else None
    return _Row(PredictedLoss(own, worst, worst_strict, resource), tuple(map(_lost, extras)))


def _view(
    host: Host, domain: LlcDomain, rows: Sequence[_Row], permits: Mapping[str, float]
) -> DomainView:
    return DomainView(
        domain=domain,
        free_cores=max(host.free_cores((domain,)), 0.0),
        allocated_vcpus=host.allocated_vcpus((domain,)),
        pressure_per_s=sum(
            sample.misses_per_s
            for uuid in host.members[domain.id]
            if (sample := host.vps[uuid].sample)
        ),
        table=tuple(row.combined for row in rows),
        by_resource=dict(
            zip(RESOURCES, zip(*(row.apart for row in rows), strict=True), strict=True)
        ),
        llc_permits=sum(permits.get(uuid, 0.0) for uuid in host.members[domain.id]),
    )
