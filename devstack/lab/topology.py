# SPDX-License-Identifier: Apache-2.0
"""The CPU and NUMA topology a virtual host shows, as files below /sys/devices/system/{cpu,node}.

Pure: from a layout to paths and texts; `write_tree` alone touches the disk. libvirt, Nova, lscpu
and our agent read these files and believe them, so a machine without sockets can show some.
Each cell is a socket of its own with one last-level cache shared by its CPUs.
"""

from dataclasses import dataclass
from pathlib import Path

LOCAL_DISTANCE = 10
REMOTE_DISTANCE = 21
LLC_SIZE_KIB = 32768


@dataclass(frozen=True, slots=True)
class Topology:
    cells: tuple[tuple[int, ...], ...]
    memory_mib: int

    @property
    def cpus(self) -> tuple[int, ...]:
        return tuple(sorted(cpu for cell in self.cells for cpu in cell))


@dataclass(frozen=True, slots=True)
class Cache:
    level: int
    kind: str
    size_kib: int
    id: int
    cpus: tuple[int, ...]


def parse_cells(text: str) -> tuple[tuple[int, ...], ...]:
    """`0-3/4-7` is two cells of four CPUs; raises ValueError with the reason otherwise."""
    cells = tuple(tuple(sorted(_parse_list(part))) for part in text.split("/"))
    cpus = [cpu for cell in cells for cpu in cell]
    if len(cpus) != len(set(cpus)):
        raise ValueError(f"{text!r}: a CPU is in two cells")
    if sorted(cpus) != list(range(len(cpus))):
        raise ValueError(f"{text!r}: CPUs must be numbered from 0 without a gap")
    return cells


def _parse_list(text: str) -> set[int]:
    cpus: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ValueError(f"{text!r} is not a CPU list such as 0-3 or 0,2")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def format_list(cpus: tuple[int, ...]) -> str:
    """The kernel's list format: `0-2,5`."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def format_mask(cpus: tuple[int, ...]) -> str:
    """The kernel's mask format: hexadecimal, in comma-separated words of 32 bits."""
    number = sum(1 << cpu for cpu in cpus)
    words = []
    while number or not words:
        words.append(number & 0xFFFFFFFF)
        number >>= 32
    return ",".join(
        f"{word:08x}" if place else f"{word:x}" for place, word in enumerate(reversed(words))
    )


def files(topology: Topology) -> dict[str, str]:
    """Every file's text by its path below /sys/devices/system."""
    cpus, nodes = format_list(topology.cpus), format_list(tuple(range(len(topology.cells))))
    tree = {f"cpu/{name}": cpus for name in ("online", "present", "possible")}
    tree |= {"cpu/offline": "", "cpu/isolated": "", "cpu/kernel_max": "8191"}
    tree |= {"cpu/smt/control": "notsupported", "cpu/smt/active": "0"}
    for name in ("online", "possible", "has_cpu", "has_memory", "has_normal_memory"):
        tree[f"node/{name}"] = nodes
    for node in range(len(topology.cells)):
        tree |= _node_files(topology, node)
        for core, cpu in enumerate(topology.cells[node]):
            tree |= _cpu_files(topology, node, core, cpu)
    return tree


def links(topology: Topology) -> dict[str, str]:
    """The symbolic links between the two trees: path to target."""
    found = {}
    for node, cell in enumerate(topology.cells):
        for cpu in cell:
            found[f"node/node{node}/cpu{cpu}"] = f"../../cpu/cpu{cpu}"
            found[f"cpu/cpu{cpu}/node{node}"] = f"../../node/node{node}"
    return found


def _node_files(topology: Topology, node: int) -> dict[str, str]:
    cell, count = topology.cells[node], len(topology.cells)
    total_kib = topology.memory_mib * 1024 // count
    distances = (LOCAL_DISTANCE if other == node else REMOTE_DISTANCE for other in range(count))
    memory = {"MemTotal": total_kib, "MemFree": total_kib * 3 // 4, "MemUsed": total_kib // 4}
    texts = {
        "cpumap": format_mask(cell),
        "cpulist": format_list(cell),
        "distance": " ".join(str(distance) for distance in distances),
        "meminfo": "\n".join(f"Node {node} {k + ':':<16} {v} kB" for k, v in memory.items()),
    }
    for size_kib in (2048, 1048576):
        for name in ("nr_hugepages", "free_hugepages", "surplus_hugepages"):
            texts[f"hugepages/hugepages-{size_kib}kB/{name}"] = "0"
    return {f"node/node{node}/{name}": text for name, text in texts.items()}


def _cpu_files(topology: Topology, node: int, core: int, cpu: int) -> dict[str, str]:
    cell, own = topology.cells[node], (cpu,)
    texts = {"online": "1", "topology/physical_package_id": str(node)}
    texts |= {"topology/core_id": str(core), "topology/die_id": "0", "topology/cluster_id": "0"}
    for name, cpus in (
        ("thread_siblings", own),
        ("core_cpus", own),
        ("core_siblings", cell),
        ("package_cpus", cell),
        ("die_cpus", cell),
    ):
        texts[f"topology/{name}"] = format_mask(cpus)
        texts[f"topology/{name}_list"] = format_list(cpus)
    caches = (
        Cache(1, "Data", 48, cpu, own),
        Cache(1, "Instruction", 32, cpu, own),
        Cache(2, "Unified", 1024, cpu, own),
        Cache(3, "Unified", LLC_SIZE_KIB, node, cell),
    )
    for index, cache in enumerate(caches):
        texts |= {f"cache/index{index}/{k}": v for k, v in _cache_texts(cache).items()}
    return {f"cpu/cpu{cpu}/{name}": text for name, text in texts.items()}


def _cache_texts(cache: Cache) -> dict[str, str]:
    return {
        "id": str(cache.id),
        "level": str(cache.level),
        "type": cache.kind,
        "size": f"{cache.size_kib}K",
        "shared_cpu_list": format_list(cache.cpus),
        "shared_cpu_map": format_mask(cache.cpus),
    }


def write_tree(topology: Topology, folder: Path) -> None:
    for name, text in files(topology).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    for name, target in links(topology).items():
        (folder / name).symlink_to(target)
