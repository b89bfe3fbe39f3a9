# SPDX-License-Identifier: Apache-2.0
"""LLC domains, nodes and cores of this host, from libvirt's capabilities and sysfs. Parsing only.

libvirt reports cache banks of level 3 and above; a host whose last level is 2 is read from sysfs,
and one that tells nothing about caches is taken to have one LLC per NUMA cell. A cache that spans
cells (sub-NUMA clusters) is split: a domain lies in one node, the unit of memory. Which CPUs are
threads of one core sysfs tells where libvirt does not.
"""

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from pathlib import Path

from nova_vp.core.types.topology import LlcDomain, Topology
from nova_vp.cpuset import parse_cpus

SYSFS_CPU = Path("/sys/devices/system/cpu")


def parse_topology(capabilities_xml: str, sysfs_cpu: Path = SYSFS_CPU) -> Topology:
    host = ET.fromstring(capabilities_xml).find("host")
    if host is None:
        raise ValueError("libvirt's capabilities have no <host>")
    cells = _cells(host)
    banks = _libvirt_banks(host) or _sysfs_banks(cells, sysfs_cpu) or tuple(cells.values())
    return Topology(domains=_domains(cells, banks, _cores(host, cells, sysfs_cpu)))


def _cells(host: ET.Element) -> Mapping[int, frozenset[int]]:
    """Online CPUs by node; memory-only nodes are no place for vCPUs."""
    cells = {
        int(cell.attrib["id"]): frozenset(int(cpu.attrib["id"]) for cpu in cell.iter("cpu"))
        for cell in host.iterfind("topology/cells/cell")
    }
    return {node: cpus for node, cpus in cells.items() if cpus}


def _cores(
    host: ET.Element, cells: Mapping[int, frozenset[int]], sysfs_cpu: Path
) -> frozenset[frozenset[int]]:
    """CPUs of each physical core."""
    told = [
        parse_cpus(cpu.attrib["siblings"])
        for cpu in host.iterfind("topology/cells/cell/cpus/cpu")
        if "siblings" in cpu.attrib
    ]
    return frozenset(told or _sysfs_cores(cells, sysfs_cpu))


def _sysfs_cores(cells: Mapping[int, frozenset[int]], sysfs_cpu: Path) -> Iterable[frozenset[int]]:
    for cpu in frozenset().union(*cells.values()):
        path = sysfs_cpu / f"cpu{cpu}/topology/thread_siblings_list"
        if path.exists():
            yield parse_cpus(path.read_text())


def _libvirt_banks(host: ET.Element) -> tuple[frozenset[int], ...]:
    banks = [
        (int(bank.attrib["level"]), parse_cpus(bank.attrib["cpus"]))
        for bank in host.iterfind("cache/bank")
    ]
    return _last_level(banks)


def _sysfs_banks(
    cells: Mapping[int, frozenset[int]], sysfs_cpu: Path
) -> tuple[frozenset[int], ...]:
    banks = [
        (int((index / "level").read_text()), parse_cpus((index / "shared_cpu_list").read_text()))
        for cpu in sorted(frozenset().union(*cells.values()))
        for index in (sysfs_cpu / f"cpu{cpu}/cache").glob("index*")
        if (index / "level").exists() and (index / "shared_cpu_list").exists()
    ]
    return _last_level(bank for bank in banks if bank[0] > 1)


def _last_level(banks: Iterable[tuple[int, frozenset[int]]]) -> tuple[frozenset[int], ...]:
    found = list(banks)
    last = max((level for level, _ in found), default=0)
    return tuple({cpus for level, cpus in found if level == last})


def _domains(
    cells: Mapping[int, frozenset[int]],
    banks: Iterable[frozenset[int]],
    cores: Iterable[frozenset[int]],
) -> tuple[LlcDomain, ...]:
    """CPUs that no bank names (a partial report) form a domain of their own per cell."""
    pieces = []
    for node, cell in cells.items():
        parts = [cell & bank for bank in banks if cell & bank]
        rest = cell.difference(*parts)
        pieces += [(node, part) for part in (*parts, rest) if part]
    pieces.sort(key=lambda piece: min(piece[1]))
    return tuple(
        LlcDomain(id=i, node=node, cpus=cpus, shared_cores=_shared_cores(cpus, cores))
        for i, (node, cpus) in enumerate(pieces)
    )


def _shared_cores(
    cpus: frozenset[int], cores: Iterable[frozenset[int]]
) -> tuple[frozenset[int], ...]:
    """Of those in the domain: a sibling that is offline, or in none, takes nothing."""
    here = {core & cpus for core in cores}
    return tuple(sorted((core for core in here if len(core) > 1), key=min))
