# SPDX-License-Identifier: Apache-2.0
"""The CPU and NUMA topology a virtual host shows, as files below /sys/devices/system/{cpu,node}.

Pure: from a layout to paths and texts; `write_tree` alone touches the disk. libvirt, Nova, lscpu
and our agent read these files and believe them, so a machine without sockets can show some.
Each cell is a socket of its own; its CPUs share one last-level cache, or as many as were asked for.
Of a core that shows itself as two CPUs, one is in the first half of those of its cache.
"""

from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from nova_vp.cpuset import format_cpus, parse_cpus

LOCAL_DISTANCE = 10
REMOTE_DISTANCE = 21
LLC_SIZE_KIB = 32768
_IN_PAIRS = "*2"


@dataclass(frozen=True, slots=True)
class Topology:
    cells: tuple[tuple[int, ...], ...]
    llcs: tuple[tuple[int, ...], ...]
    """The CPUs of each last-level cache; none reaches beyond its cell."""
    memory_mib: int
    threads_per_core: int = 1

    @classmethod
    def parse(cls, text: str, memory_mib: int) -> "Topology":
        """`0-3/4-7` is two cells of four CPUs with a cache each, `0+1` one cell with two caches,
        `0-3/4-7*2` the first with two CPUs per core; raises ValueError with the reason otherwise.
        """
        cpu_text, threads = text.removesuffix(_IN_PAIRS), 2 if text.endswith(_IN_PAIRS) else 1
        llcs_of_cells = [
            [tuple(sorted(parse_cpus(llc))) for llc in cell.split("+")]
            for cell in cpu_text.split("/")
        ]
        cells = tuple(tuple(sorted(chain(*llcs))) for llcs in llcs_of_cells)
        cpus = sorted(chain(*cells))
        if not all(chain(*llcs_of_cells)):
            raise ValueError(f"{text!r}: a cell or cache is without CPUs; give it some, as 0-3/4-7")
        if len(cpus) != len(set(cpus)):
            raise ValueError(f"{text!r}: a CPU is in two cells or caches")
        if cpus != list(range(len(cpus))):
            raise ValueError(f"{text!r}: CPUs must be numbered from 0 without a gap")
        if any(len(llc) % threads for llc in chain(*llcs_of_cells)):
            raise ValueError(f"{text!r}: a cache has an odd number of CPUs; leave out {_IN_PAIRS}")
        return cls(cells, tuple(chain(*llcs_of_cells)), memory_mib, threads)

    def cell_of(self, llc: int) -> int:
        return next(node for node, cell in enumerate(self.cells) if self.llcs[llc][0] in cell)

    @property
    def cpus(self) -> tuple[int, ...]:
        return tuple(sorted(cpu for cell in self.cells for cpu in cell))

    def core(self, cpu: int) -> tuple[int, ...]:
        """The CPUs of its core, itself included."""
        llc = next(cpus for cpus in self.llcs if cpu in cpus)
        cores = len(llc) // self.threads_per_core
        return llc[llc.index(cpu) % cores :: cores]


@dataclass(frozen=True, slots=True)
class Cache:
    level: int
    kind: str
    size_kib: int
    id: int
    cpus: tuple[int, ...]


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
    cpus, nodes = format_cpus(topology.cpus), format_cpus(tuple(range(len(topology.cells))))
    tree = {f"cpu/{name}": cpus for name in ("online", "present", "possible")}
    tree |= {"cpu/offline": "", "cpu/isolated": "", "cpu/kernel_max": "8191"}
    is_smt = topology.threads_per_core > 1
    control = "on" if is_smt else "notsupported"
    tree |= {"cpu/smt/control": control, "cpu/smt/active": str(int(is_smt))}
    for name in ("online", "possible", "has_cpu", "has_memory", "has_normal_memory"):
        tree[f"node/{name}"] = nodes
    for node in range(len(topology.cells)):
        tree |= _node_files(topology, node)
        for cpu in topology.cells[node]:
            tree |= _cpu_files(topology, node, cpu)
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
        "cpulist": format_cpus(cell),
        "distance": " ".join(str(distance) for distance in distances),
        "meminfo": "\n".join(f"Node {node} {k + ':':<16} {v} kB" for k, v in memory.items()),
    }
    for size_kib in (2048, 1048576):
        for name in ("nr_hugepages", "free_hugepages", "surplus_hugepages"):
            texts[f"hugepages/hugepages-{size_kib}kB/{name}"] = "0"
    return {f"node/node{node}/{name}": text for name, text in texts.items()}


def _cpu_files(topology: Topology, node: int, cpu: int) -> dict[str, str]:
    cell, own = topology.cells[node], topology.core(cpu)
    core = cell.index(own[0])
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
        texts[f"topology/{name}_list"] = format_cpus(cpus)
    llc = next(llc for llc, cpus in enumerate(topology.llcs) if cpu in cpus)
    caches = (
        Cache(1, "Data", 48, own[0], own),
        Cache(1, "Instruction", 32, own[0], own),
        Cache(2, "Unified", 1024, own[0], own),
        Cache(3, "Unified", LLC_SIZE_KIB, llc, topology.llcs[llc]),
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
        "shared_cpu_list": format_cpus(cache.cpus),
        "shared_cpu_map": format_mask(cache.cpus),
    }


def write_tree(topology: Topology, folder: Path) -> None:
    for name, text in files(topology).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    for name, target in links(topology).items():
        (folder / name).symlink_to(target)
