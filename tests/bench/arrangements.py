# SPDX-License-Identifier: Apache-2.0
"""Arrangements of a mix's VMs, and which are next to which.

An arrangement says for every VM its CPUs, its memory by node and its CPU cap. All placements in
which every vCPU has a CPU of its own and memory is local are enumerated; what differs from them is
reached in steps.
"""

from collections.abc import Iterator
from itertools import combinations, permutations
from random import Random
from typing import NamedTuple

from nova_vp.core.types.knob import Shares
from nova_vp.core.types.topology import Topology
from vp_sim.host import SHARE_STEPS
from vp_sim.mixes import Mix
from vp_sim.placement import UNCAPPED, Placement, VmPlace

MEMORY_STEPS = (1, 4, 16)
"""Of the steps that the model knows: so much moves from one node to another at a time."""
CAP_STEPS = (0.01, 0.05, 0.2)
LEAST_CAP = 0.3
CAP_DIGITS = 2

Arrangement = tuple[VmPlace, ...]
"""In the order of `Vms.labels`."""


class Vms(NamedTuple):
    """Those of a mix."""

    topology: Topology
    labels: tuple[str, ...]
    """By VM: its application."""
    kinds: tuple[str, ...]
    """By VM: those of one kind do the same work."""
    vcpus: tuple[int, ...]
    memory_mib: tuple[float, ...]
    node_mib: float


def vms_of(mix: Mix) -> Vms:
    found = [member for member in mix.members for _ in range(member.row.guests)]
    return Vms(
        topology=mix.shape.topology(),
        labels=tuple(member.label for member in found),
        # VMs of one application wait for one another: who is whose matters.
        kinds=tuple(m.row.name if m.row.guests == 1 else m.label for m in found),
        vcpus=tuple(member.row.vcpus for member in found),
        memory_mib=tuple(member.row.memory_mib.value for member in found),
        node_mib=mix.hardware.node_mib.value,
    )


def placement_of(vms: Vms, arrangement: Arrangement) -> Placement:
    found: dict[str, tuple[VmPlace, ...]] = {}
    for label, place in zip(vms.labels, arrangement, strict=True):
        found[label] = (*found.get(label, ()), place)
    return found


def arrangement_of(vms: Vms, placement: Placement) -> Arrangement:
    left = {label: list(places) for label, places in placement.items()}
    return tuple(left[label].pop(0) for label in vms.labels)


def fits(vms: Vms, arrangement: Arrangement) -> bool:
    """Whether every node has room for the memory that lies on it."""
    lying = dict.fromkeys(vms.topology.nodes, 0.0)
    for mib, place in zip(vms.memory_mib, arrangement, strict=True):
        for node, share in place.memory:
            lying[node] += share * mib
    return max(lying.values()) <= vms.node_mib


def local_arrangements(vms: Vms) -> list[Arrangement]:
    """Every way to fill the LLC domains, no vCPU without a CPU, all memory local. Those that differ
    in interchangeable VMs, domains of a node or nodes only are one."""
    domains = {domain.id: domain for domain in vms.topology.domains}
    found: dict[object, tuple[int, ...]] = {(): ()}
    for _ in vms.labels:
        longer: dict[object, tuple[int, ...]] = {}
        for chosen in found.values():
            for domain in domains:
                more = (*chosen, domain)
                if _used(vms, more, domain) <= len(domains[domain].cpus):
                    longer.setdefault(_canonical(vms, more), more)
        found = longer
    places = {d.id: VmPlace(d.cpus, ((d.node, 1.0),)) for d in vms.topology.domains}
    whole = (tuple(places[domain] for domain in chosen) for chosen in found.values())
    return [arrangement for arrangement in whole if fits(vms, arrangement)]


def _used(vms: Vms, chosen: tuple[int, ...], domain: int) -> int:
    return sum(n for n, d in zip(vms.vcpus, chosen, strict=False) if d == domain)


def _canonical(vms: Vms, chosen: tuple[int, ...]) -> object:
    nodes: dict[int, list[tuple[str, ...]]] = {}
    for domain in vms.topology.domains:
        inside = (kind for kind, d in zip(vms.kinds, chosen, strict=False) if d == domain.id)
        nodes.setdefault(domain.node, []).append(tuple(sorted(inside)))
    return tuple(sorted(tuple(sorted(inside)) for inside in nodes.values()))


def neighbours(vms: Vms, arrangement: Arrangement, random: Random) -> Iterator[Arrangement]:
    """All that is one step away and has room, in random order: another place for one VM, two VMs
    exchanged, some memory on another node, a higher or lower cap, more or fewer CPUs."""
    steps: list[tuple[tuple[int, VmPlace], ...]] = []
    for number, place in enumerate(arrangement):
        others = {*_elsewhere(vms, place), *_memory(vms, place), *_caps(place)}
        others |= {*_cpus(vms, arrangement, number)}
        steps += [((number, other),) for other in sorted(others - {place}, key=repr)]
    for one, other in combinations(range(len(arrangement)), 2):
        # Of equal applications too: each has a best baseline run of its own.
        if vms.labels[one] != vms.labels[other] and arrangement[one] != arrangement[other]:
            steps.append(((one, arrangement[other]), (other, arrangement[one])))
    random.shuffle(steps)
    for step in steps:
        places = list(arrangement)
        for number, place in step:
            places[number] = place
        if fits(vms, tuple(places)):
            yield tuple(places)


def _elsewhere(vms: Vms, place: VmPlace) -> Iterator[VmPlace]:
    """In one LLC domain, with its memory there or where it is; or in one more than now."""
    for domain in vms.topology.domains:
        yield VmPlace(domain.cpus, ((domain.node, 1.0),), place.cap_ratio)
        yield place._replace(cpus=domain.cpus)
        yield place._replace(cpus=place.cpus | domain.cpus)


def _memory(vms: Vms, place: VmPlace) -> Iterator[VmPlace]:
    steps = {node: round(share * SHARE_STEPS) for node, share in place.memory}
    for source, target in permutations(vms.topology.nodes, 2):
        for step in MEMORY_STEPS:
            if steps.get(source, 0) >= step:
                moved = {**steps, source: steps[source] - step}
                moved[target] = moved.get(target, 0) + step
                yield place._replace(memory=_shares(moved))


def _shares(steps: dict[int, int]) -> Shares:
    whole = sum(steps.values())
    return tuple((node, count / whole) for node, count in sorted(steps.items()) if count)


def _caps(place: VmPlace) -> Iterator[VmPlace]:
    for step in CAP_STEPS:
        for cap in (place.cap_ratio - step, place.cap_ratio + step):
            yield place._replace(cap_ratio=round(min(max(cap, LEAST_CAP), UNCAPPED), CAP_DIGITS))


def _cpus(vms: Vms, arrangement: Arrangement, number: int) -> Iterator[VmPlace]:
    """Without the CPU that most others may use too; with the one more that fewest may use."""
    place = arrangement[number]
    others = [p.cpus for n, p in enumerate(arrangement) if n != number]

    def crowd(cpu: int) -> tuple[int, int]:
        return sum(cpu in cpus for cpus in others), cpu

    if len(place.cpus) > 1:
        yield place._replace(cpus=place.cpus - {max(place.cpus, key=crowd)})
    free = vms.topology.cpus - place.cpus
    nodes = {domain.node for domain in vms.topology.domains if domain.cpus & place.cpus}
    near = free & {c for d in vms.topology.domains if d.node in nodes for c in d.cpus}
    if free:
        yield place._replace(cpus=place.cpus | {min(near or free, key=crowd)})
