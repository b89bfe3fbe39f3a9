# SPDX-License-Identifier: Apache-2.0
"""How fast vCPUs run in a place by how much CPU is wanted there: waiting, and siblings of a core.

The kernel fills idle cores first, then their siblings; beyond that vCPUs take turns.
"""

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
