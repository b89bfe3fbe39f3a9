# SPDX-License-Identifier: Apache-2.0
"""A random mix on a random machine, by seed: what a policy must bear that nobody tuned it for.

Machines are NUMA with one LLC per node, NUMA with several, or SMP. Applications are drawn from the
ranges that public characterisations span, by kind (computing, living off the cache, streaming,
serving), and are none of the table's rows. They are half of the CPUs to all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

from vp_sim.apps import Phase, Row
from vp_sim.machine import WESTMERE, Hardware, Private, Shape
from vp_sim.mixes import Fill, Member, Memory, Mix
from vp_sim.parameters import Parameter
from vp_sim.queues import QueueForm

PREFIX = "random:"
SOURCE = "random: drawn by the mix's seed"
MOST_CPUS = 48
ELASTIC_RATIO = 0.2
"""Of the mixes: their VMs start with CPUs of their own, some with fewer than vCPUs."""
SIBLINGS_RATIO = 0.2
"""Of the mixes whose machine can have as many CPUs on half of the cores."""
ATTEMPTS = 12
"""Applications drawn in a row that find no room, until the mix is as full as it gets."""

Span = tuple[float, float]

_KINDS: dict[str, dict[str, Span]] = {
    "computing": {
        "base_cpi": (0.4, 1.2),
        "l2_mpki": (0.3, 6.0),
        "full_ratio": (0.5, 0.9),
        "least_ratio": (0.05, 0.3),
        "half_mib": (0.3, 4.0),
        "steepness": (1.0, 2.5),
        "parallel_misses": (1.5, 4.0),
        "writeback_ratio": (0.05, 0.4),
        "busy_ratio": (0.85, 1.0),
    },
    "caching": {
        "base_cpi": (0.6, 1.4),
        "l2_mpki": (12.0, 80.0),
        "full_ratio": (0.65, 1.0),
        "least_ratio": (0.05, 0.25),
        "half_mib": (0.7, 8.0),
        "steepness": (1.0, 2.5),
        "parallel_misses": (2.0, 7.0),
        "writeback_ratio": (0.1, 0.4),
        "busy_ratio": (0.85, 1.0),
    },
    "streaming": {
        "base_cpi": (0.5, 1.0),
        "l2_mpki": (10.0, 60.0),
        "full_ratio": (0.95, 1.0),
        "least_ratio": (0.75, 0.95),
        "half_mib": (2.0, 16.0),
        "steepness": (1.0, 2.0),
        "parallel_misses": (3.0, 8.0),
        "writeback_ratio": (0.2, 0.8),
        "busy_ratio": (0.85, 1.0),
    },
    "serving": {
        "base_cpi": (0.8, 1.4),
        "l2_mpki": (8.0, 45.0),
        "full_ratio": (0.8, 1.0),
        "least_ratio": (0.15, 0.4),
        "half_mib": (2.0, 14.0),
        "steepness": (1.0, 1.6),
        "parallel_misses": (2.0, 5.0),
        "writeback_ratio": (0.2, 0.5),
        "busy_ratio": (0.4, 0.9),
    },
}
_WEIGHTS = (0.25, 0.35, 0.2, 0.2)
_BY_RATIO = frozenset({"l2_mpki", "half_mib"})
"""Drawn so that twice as much is as likely as half as much."""


def any_mix(seed: int) -> Mix:
    random = Random(f"mix-{seed}")
    shape = _shape(random)
    memory = random.choice(tuple(Memory))
    members = _members(random, shape, is_elastic=random.random() < ELASTIC_RATIO)
    mix = Mix(
        name=f"{PREFIX}{seed}",
        members=members,
        shape=shape,
        hardware=_hardware(random, shape, members, memory),
        fill=random.choice(tuple(Fill)),
        memory=memory,
    )
    form = random.choice(tuple(QueueForm))
    return replace(
        mix,
        shape=_with_siblings(random, shape),
        hardware=replace(mix.hardware, queue_form=form),
    )


def _with_siblings(random: Random, shape: Shape) -> Shape:
    """Now and then as many CPUs on half of the cores."""
    cores, odd = divmod(shape.cores_per_domain, 2)
    if odd or random.random() >= SIBLINGS_RATIO:
        return shape
    return replace(shape, cores_per_domain=cores, threads_per_core=2)


def _shape(random: Random) -> Shape:
    kind = random.choices(("one", "several", "smp"), (0.4, 0.35, 0.25))[0]
    if kind == "smp":
        return Shape(1, random.choice((2, 2, 3, 4)), random.choice((2, 4, 4, 6, 8)), 0, Private.L1)
    nodes = random.choice((2, 2, 3, 4))
    if kind == "one":
        return Shape(nodes, 1, random.choice((4, 4, 6, 8, 8, 12)))
    domains, cores = random.choice((2, 2, 3, 4)), random.choice((2, 2, 4, 4, 6))
    while nodes * domains * cores > MOST_CPUS:
        domains -= 1
    return Shape(nodes, domains, cores)


def _drawn(value: float) -> Parameter:
    return Parameter(value, SOURCE, value, value)


def _between(random: Random, span: Span, by_ratio: bool = False) -> float:
    low, high = span
    value = low * (high / low) ** random.random() if by_ratio else random.uniform(low, high)
    return round(value, 3)


def _hardware(random: Random, shape: Shape, members: Sequence[Member], memory: Memory) -> Hardware:
    cores, is_smp = shape.cores_per_domain, shape.private is Private.L1
    local_ns = _between(random, (70, 140))
    node_gbps = max(8.0, cores * shape.domains_per_node * _between(random, (1.5, 5.0)))
    values = {
        "clock_ghz": _between(random, (2.0, 3.4)),
        "llc_mib": cores * _between(random, (1.0, 3.0)),
        "llc_cycles": _between(random, (12, 20) if is_smp else (30, 60)),
        "node_mib": _node_mib(random, shape, members, memory),
        "local_ns": local_ns,
        "remote_ns": local_ns * _between(random, (1.3, 1.9)),
        "node_gbps": node_gbps,
        "node_channels": float(random.choice((2, 3, 4, 6))),
        "link_gbps": node_gbps * _between(random, (0.3, 0.8)),
    }
    figures = {**WESTMERE.figures(), **{name: _drawn(value) for name, value in values.items()}}
    return Hardware(queue_form=WESTMERE.queue_form, **figures)


def _node_mib(random: Random, shape: Shape, members: Sequence[Member], memory: Memory) -> float:
    """Whatever the start order, it fits; with memory from everywhere that may be tight."""
    sizes = [m.row.memory_mib.value for m in members for _ in range(m.row.guests)]
    if memory is Memory.LOCAL:
        return sum(sizes)
    return (sum(sizes) / shape.nodes + 2 * max(sizes)) * _between(random, (1.0, 1.5))


def _members(random: Random, shape: Shape, is_elastic: bool) -> tuple[Member, ...]:
    cpus = shape.nodes * shape.domains_per_node * shape.cores_per_domain
    wanted = cpus * random.uniform(0.5, 1.0)
    chosen: list[Member] = []
    failed = 0
    while _vcpus(chosen) < wanted and failed < ATTEMPTS:
        more = list(_copies(random, shape, f"app{len(chosen) + 1}", is_elastic))
        if _vcpus([*chosen, *more]) <= cpus and _fits([*chosen, *more], shape):
            chosen += more
        else:
            failed += 1
    return tuple(chosen)


def _vcpus(members: Sequence[Member]) -> int:
    return sum(_size(member) * member.row.guests for member in members)


def _size(member: Member) -> int:
    return member.initial_cores or member.row.vcpus


def _fits(members: Sequence[Member], shape: Shape) -> bool:
    """There is a placement in which each VM has as many CPUs as vCPUs in one LLC domain."""
    room = [shape.cores_per_domain] * (shape.nodes * shape.domains_per_node)
    sizes = (_size(member) for member in members for _ in range(member.row.guests))
    for size in sorted(sizes, reverse=True):
        at = next((number for number, free in enumerate(room) if free >= size), None)
        if at is None:
            return False
        room[at] -= size
    return True


def _copies(random: Random, shape: Shape, name: str, is_elastic: bool) -> Iterator[Member]:
    """One application, now and then two or three times."""
    row = _row(random, shape, name)
    for number in range(1, random.choice((1, 1, 1, 2, 2, 3)) + 1):
        cores = random.randint((row.vcpus + 1) // 2, row.vcpus) if is_elastic else None
        yield Member(f"{name}-{number}", row, initial_cores=cores)


def _row(random: Random, shape: Shape, name: str) -> Row:
    kind = random.choices(tuple(_KINDS), _WEIGHTS)[0]
    values = {key: _between(random, span, key in _BY_RATIO) for key, span in _KINDS[kind].items()}
    vcpus = min(random.choice((1, 2, 2, 4, 4, 8)), shape.cores_per_domain)
    guests = random.choice((1, 1, 1, 1, 2, 3))
    guests = max(1, min(guests, shape.domains_per_node * shape.cores_per_domain // vcpus))
    values["l1_mpki"] = values["l2_mpki"] * _between(random, (1.1, 3.0))
    values["hit_exposure"] = _between(random, (0.25, 0.55))
    values["memory_mib"] = float(random.choice((512, 1024, 2048, 4096, 8192)))
    values["footprint_mib"] = values["memory_mib"] * _between(random, (0.3, 0.9))
    phases, cycles = _phases(random)
    return Row(
        name=f"{name}-{kind}",
        vcpus=vcpus,
        guests=guests,
        phases=phases,
        phases_source=SOURCE,
        cycles=cycles,
        **{key: _drawn(value) for key, value in values.items()},
    )


def _phases(random: Random) -> tuple[tuple[Phase, ...], int]:
    """Most do one thing all the time, the others two or three, for 15 seconds or more each."""
    number = random.choice((1, 1, 1, 2, 3))
    if number == 1:
        return (Phase(1.0, 1.0),), 1
    weights = [random.uniform(0.5, 1.0) for _ in range(number)]
    phases = tuple(
        Phase(
            time_share=weight / sum(weights),
            busy_ratio=_between(random, (0.4, 1.0)),
            traffic_factor=_between(random, (0.5, 1.5)),
        )
        for weight in weights
    )
    return phases, random.randint(1, 4)
