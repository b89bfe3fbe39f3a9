# SPDX-License-Identifier: Apache-2.0
"""The NUMA lab's hardware: CPUs, nodes and the distances between them; and what it is made by."""

from testbed.emulated.machine import ROOT, Machine

NUMA = ROOT / "testbed" / "numa"
CACHE = ROOT / ".cache" / "numa"
WRITER = CACHE / "shared" / "numa-writer"

NODES = 4
CPUS_PER_NODE = 2
NODE_MEMORY_MIB = 2048
NEAR, FAR = 16, 22
"""Distances on a ring: the two next nodes, and the one opposite (itself: 10, as always)."""


def distance(one: int, other: int) -> int:
    steps = abs(one - other) % NODES
    return (10, NEAR, FAR)[min(steps, NODES - steps)]


def hardware() -> tuple[str, ...]:
    """Eight CPUs in four sockets, each with an L3 and a node of its own, on a ring of nodes."""
    cpus = NODES * CPUS_PER_NODE
    return (
        *("-machine", "pc,usb=off", "-cpu", "Nehalem,l3-cache=on"),
        *("-m", f"{NODES * NODE_MEMORY_MIB}M"),
        *("-smp", f"{cpus},sockets={NODES},cores={CPUS_PER_NODE},threads=1"),
        *_nodes(),
    )


def _nodes() -> list[str]:
    argv = []
    for node in range(NODES):
        first = node * CPUS_PER_NODE
        cpus = f"cpus={first}-{first + CPUS_PER_NODE - 1}"
        memory = f"memory-backend-ram,id=m{node},size={NODE_MEMORY_MIB}M"
        argv += ["-object", memory, "-numa", f"node,nodeid={node},memdev=m{node},{cpus}"]
    pairs = [(a, b) for a in range(NODES) for b in range(a + 1, NODES)]
    for one, other in pairs:
        argv += ["-numa", f"dist,src={one},dst={other},val={distance(one, other)}"]
    return argv


MACHINE = Machine(
    command="numa-lab",
    about="An emulated machine with four NUMA nodes and cgroup v2.",
    cache=CACHE,
    marker="NUMA_LAB",
    builds=(
        (str(NUMA / "build"),),
        ("make", "-s", "-C", str(NUMA / "guest"), f"OUT={WRITER}"),
    ),
    hardware=hardware(),
    kernel_arguments=(
        "console=ttyS0 loglevel=4 panic=-1 mitigations=off tsc=reliable no_timer_check audit=0 "
        # The kernel's own balancing would move pages that a test has just put somewhere.
        "apparmor=0 cgroup_no_v1=all numa_balancing=disable"
    ),
)
