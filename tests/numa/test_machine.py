# SPDX-License-Identifier: Apache-2.0
"""The NUMA lab is what the other tests here take it for: nodes, distances, cgroups, libvirt."""

from pathlib import Path
from xml.etree import ElementTree as ET

from testbed.numa import settings

NODES = Path("/sys/devices/system/node")


def test_it_has_four_nodes_with_cpus_memory_and_distances():
    numbers = range(settings.NODES)
    assert {path.name for path in NODES.glob("node[0-9]*")} == {f"node{n}" for n in numbers}
    for node in numbers:
        cpus = (NODES / f"node{node}/cpulist").read_text().strip()
        assert cpus == f"{2 * node}-{2 * node + 1}"
        distances = (NODES / f"node{node}/distance").read_text().split()
        assert distances == [str(settings.distance(node, other)) for other in numbers]
        assert total_mib(node) > 0.9 * settings.NODE_MEMORY_MIB


def total_mib(node: int) -> int:
    line = (NODES / f"node{node}/meminfo").read_text().splitlines()[0]
    return int(line.split()[-2]) // 1024


def test_its_cgroups_are_unified():
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    assert [target for _, target, kind, *_ in mounts if kind == "cgroup2"] == ["/sys/fs/cgroup"]
    assert not [kind for _, _, kind, *_ in mounts if kind == "cgroup"]
    controllers = Path("/sys/fs/cgroup/cgroup.controllers").read_text().split()
    assert {"cpu", "cpuset", "memory"} <= set(controllers)


def test_libvirt_sees_four_cells_each_with_a_cache_of_its_own(numa_host):
    capabilities = ET.fromstring(numa_host.connect().getCapabilities())
    cells = capabilities.findall("host/topology/cells/cell")
    seen = {cell.get("id"): [cpu.get("id") for cpu in cell.iter("cpu")] for cell in cells}
    assert seen == {"0": ["0", "1"], "1": ["2", "3"], "2": ["4", "5"], "3": ["6", "7"]}
    far = {s.get("id"): s.get("value") for s in cells[0].iter("sibling")}
    assert far == {"0": "10", "1": "16", "2": "22", "3": "16"}
    banks = capabilities.findall("host/cache/bank")
    assert [bank.get("cpus") for bank in banks if bank.get("level") == "3"] == [
        "0-1", "2-3", "4-5", "6-7",
    ]  # fmt: skip


def test_the_kernel_moves_no_pages_of_its_own_accord():
    assert Path("/proc/sys/kernel/numa_balancing").read_text().strip() == "0"
