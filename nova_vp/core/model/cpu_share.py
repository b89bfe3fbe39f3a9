# SPDX-License-Identifier: Apache-2.0
"""How fast vCPUs run in a place by how much CPU is wanted there: waiting, and siblings of a core.

The kernel fills idle cores first, then their siblings; beyond that vCPUs take turns. Where guests
are pinned to some CPUs of a domain, who shares a core with whom is worked out CPU by CPU.
"""

import math
from collections.abc import Iterator, Mapping

from nova_vp.core.types.topology import LlcDomain

SIBLING_RATIO = 0.65
"""Of what a core does for one thread alone, that each of two busy threads gets (an estimate: two
threads of a core do a fifth to a third more together than one does)."""


def cpu_speed(wanted_cores: float, cpus: int, cores: int) -> float:
    """Over that of a vCPU with a core of its own. `cores`: physical ones among the CPUs."""
    if wanted_cores <= cores:
        return 1.0
    busy = min(wanted_cores, cpus)
    beside_sibling = min(2 * (busy - cores) / busy, 1.0)
    return (1 - beside_sibling * (1 - SIBLING_RATIO)) * busy / wanted_cores


def sibling_speeds(
    domain: LlcDomain, wanted_cores: Mapping[frozenset[int], float]
) -> Mapping[frozenset[int], float]:
    """Of what a core does for one thread alone, that vCPUs get beside busy siblings: by the CPUs of
    the domain that they may use, as is the CPU that they want there.

    Those with the fewest CPUs to choose from are put first, each vCPU on an idle core before an
    idle sibling, since the kernel moves the others around them.
    """
    busy = dict.fromkeys(domain.cpus, 0.0)
    siblings = {cpu: core - {cpu} for core in domain.shared_cores for cpu in core}

    def beside(cpu: int) -> float:
        return min(sum(min(busy[one], 1.0) for one in siblings.get(cpu, ())), 1.0)

    parts: dict[frozenset[int], list[tuple[int, float]]] = {}
    for cpus in sorted(wanted_cores, key=lambda cpus: (len(cpus), min(cpus))):
        parts[cpus] = []
        for part in _threads(min(wanted_cores[cpus], float(len(cpus)))):
            chosen = min(cpus, key=lambda cpu: (busy[cpu] + part > 1, beside(cpu), busy[cpu], cpu))
            busy[chosen] += part
            parts[cpus].append((chosen, part))
    return {
        cpus: 1 - (1 - SIBLING_RATIO) * _mean((part, beside(cpu)) for cpu, part in placed)
        for cpus, placed in parts.items()
    }


def _threads(wanted_cores: float) -> Iterator[float]:
    """As few as can want so much: each all of a CPU, and one the rest."""
    whole = math.floor(wanted_cores)
    yield from (1.0,) * whole
    if wanted_cores > whole:
        yield wanted_cores - whole


def _mean(parts: Iterator[tuple[float, float]]) -> float:
    """Of the second by the first; 0 where nothing is."""
    listed = list(parts)
    whole = sum(weight for weight, _ in listed)
    return sum(weight * value for weight, value in listed) / whole if whole else 0.0
