# SPDX-License-Identifier: Apache-2.0
"""What runs together on which machine: the published mixes, and how a host is filled with them.

A start order decides who lands beside whom; every policy of a run begins from the same order.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from vp_sim.app_profiles import ROWS
from vp_sim.apps import Row
from vp_sim.machine import THESIS_SHAPE, WESTMERE, Hardware, Shape

LEAST_MIB = 1e-3
"""Less is a rounding of what was given."""


class Fill(enum.Enum):
    """How guests that start one after the other find their place."""

    SEQUENTIAL = "sequential"
    """Sockets tried in sequence, the first with room (thesis 2.2)."""
    BALANCED = "balanced"
    """The socket with the most free cores."""


class Memory(enum.Enum):
    """Where the memory of a guest that starts comes from."""

    AVAILABLE = "available"
    """Extent by extent from a random node, the more likely the more it has left, wherever the
    guest's CPUs are: the default manager that the thesis describes (1.1) works apart from that of
    the CPUs, and allocates randomly by availability."""
    LOCAL = "local"
    """The node of its CPUs."""


@dataclass(frozen=True, slots=True)
class Member:
    """One application of a mix."""

    label: str
    row: Row
    priority: float = 1.0
    initial_cores: int | None = None
    """CPUs that each of its VMs starts with; None: as many as vCPUs, anywhere in the socket."""
    controller_keys: tuple[tuple[str, str], ...] = ()
    """Flavor extra specs of controllers, each with its value."""


@dataclass(frozen=True, slots=True)
class Mix:
    name: str
    members: tuple[Member, ...]
    shape: Shape = THESIS_SHAPE
    hardware: Hardware = WESTMERE
    fill: Fill = Fill.SEQUENTIAL
    memory: Memory = Memory.AVAILABLE

    def order(self, random: Random) -> tuple[Member, ...]:
        """A start order of its VMs: an application of two stands in it twice."""
        guests = [member for member in self.members for _ in range(member.row.guests)]
        return tuple(random.sample(guests, len(guests)))


def members(
    counts: Mapping[str, int], initial_cores: Mapping[str, int] | None = None
) -> tuple[Member, ...]:
    cores = initial_cores or {}
    return tuple(
        Member(f"{name}-{number}", ROWS[name], initial_cores=cores.get(name))
        for name, count in counts.items()
        for number in range(1, count + 1)
    )


_MAP_REDUCE = {"matrix-mult": 3, "word-count": 3}

MIXES: Mapping[str, Mix] = {
    mix.name: mix
    for mix in (
        Mix("stream-spec", members({"stream": 3, "mcf": 2, "lbm": 2, "milc": 2})),
        Mix("voldemort-mapreduce", members({"voldemort": 1, **_MAP_REDUCE})),
        Mix("streaming-mapreduce", members({"streaming": 1, **_MAP_REDUCE})),
        Mix(
            "merlin",
            members(
                {"voldemort": 1, "matrix-mult-uneven": 3, "word-count-uneven": 2},
                initial_cores={
                    "voldemort": 2,
                    "matrix-mult-uneven": 2,
                    "word-count-uneven": 2,
                },
            ),
            # A guest beside Voldemort finds free cores at home to grow (3.1, 3.3.2).
            fill=Fill.BALANCED,
            memory=Memory.LOCAL,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class StartPlace:
    """Where a VM starts: its CPUs, and the share of its memory by node."""

    cpus: frozenset[int]
    memory: Mapping[int, float]


def seats(mix: Mix, order: Sequence[Member], random: Random) -> tuple[StartPlace, ...]:
    """A place for each VM, in the start order."""
    topology = mix.shape.topology()
    free = {d.id: sorted(d.cpus) for d in topology.domains}
    by_id = {d.id: d for d in topology.domains}
    free_mib = dict.fromkeys(topology.nodes, mix.hardware.node_mib.value)
    taken: list[StartPlace] = []
    for member in order:
        wanted = member.initial_cores or member.row.vcpus
        chosen = by_id[_choose(free, wanted, mix.fill)]
        own = frozenset(free[chosen.id][:wanted])
        free[chosen.id] = free[chosen.id][wanted:]
        is_pinned = member.initial_cores is not None and len(own) == wanted
        mib = member.row.memory_mib.value
        lying = {chosen.node: mib}
        if mix.memory is Memory.AVAILABLE:
            lying = _available(mib, free_mib, mix.hardware.memory_extent_mib.value, random)
        for node, part in lying.items():
            free_mib[node] -= part
        memory = {node: part / mib for node, part in lying.items()}
        taken.append(StartPlace(own if is_pinned else chosen.cpus, memory))
    return tuple(taken)


def _available(
    mib: float, free_mib: Mapping[int, float], extent_mib: float, random: Random
) -> dict[int, float]:
    """MiB by node. A node that has less than an extent left gives what it has."""
    left = {node: max(room, 0.0) for node, room in free_mib.items()}
    lying: dict[int, float] = {}
    while mib > LEAST_MIB and sum(left.values()) > LEAST_MIB:
        [node] = random.choices(list(left), list(left.values()))
        part = min(mib, extent_mib, left[node])
        lying[node] = lying.get(node, 0.0) + part
        left[node] -= part
        mib -= part
    return lying


def _choose(free: Mapping[int, Sequence[int]], wanted: int, fill: Fill) -> int:
    """Where nothing fits, where most is free: it will have to share."""
    fitting = [number for number, cpus in free.items() if len(cpus) >= wanted]
    if fill is Fill.SEQUENTIAL and fitting:
        return fitting[0]
    return max(fitting or free, key=lambda number: (len(free[number]), -number))
