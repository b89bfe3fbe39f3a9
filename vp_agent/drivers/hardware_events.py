# SPDX-License-Identifier: Apache-2.0
"""Which hardware events the counter source `perf` counts, by vendor, family and model of the CPU.

The kernel's generic cache events are no choice: they mean the last-level cache on Intel, the L2 on
AMD Zen and the L1 data cache on Arm. A CPU that the table lacks is refused. Each row names the
vendor's document that has its numbers; tests hold the table against those documents.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vp_agent.drivers.cpu_model import ArmCpu, Cpu, X86Cpu

_HARDWARE, _RAW = 0, 4
_ARM_LIMITED = 0x41


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    type: int
    config: int
    meaning: str = ""


CYCLES = Event("cycles", _HARDWARE, 0, "cycles of the core in which it was not halted")
INSTRUCTIONS = Event("instructions", _HARDWARE, 1, "instructions retired")
ANY_PMU = (CYCLES, INSTRUCTIONS)
"""What every PMU counts: whether there is one is tried with these."""


@dataclass(frozen=True, slots=True)
class CpuEvents:
    """The events of one kind of CPU, each as its vendor documents it."""

    name: str
    source: str
    """The vendor's document that has the numbers."""
    references: Event
    misses: Event
    remote: Event | None = None
    bus_locks: Event | None = None
    """Shown, not counted: one group takes four or five counters, and few CPUs have more to give."""
    generic_is_llc: bool = False
    """The kernel's generic cache events, which libvirt counts, mean the last-level cache too."""
    l2_reads: Event | None = None
    """The LLC events may be a duplicate of this one, or count nothing: they are tried first."""

    @property
    def needed(self) -> tuple[Event, ...]:
        return (*ANY_PMU, self.references, self.misses)

    @property
    def group(self) -> tuple[Event, ...]:
        """What is counted of each vCPU thread, at the best."""
        return self.needed if self.remote is None else (*self.needed, self.remote)

    @property
    def metrics(self) -> Mapping[str, Event | None]:
        return {
            "cycles": CYCLES,
            "instructions": INSTRUCTIONS,
            "llc_references": self.references,
            "llc_misses": self.misses,
            "llc_misses_remote": self.remote,
            "bus_locks": self.bus_locks,
        }


class NoEvents(Exception):
    """The table has no events for this CPU; the text says what to do next."""


def events_of(cpu: Cpu) -> CpuEvents:
    """Raises NoEvents."""
    found = _of_x86(cpu) if isinstance(cpu, X86Cpu) else _of_arm(cpu)
    if found is None:
        known = ", ".join(_names())
        raise NoEvents(
            f"no events are known for this CPU ({cpu}), and the kernel's generic ones may count "
            f"another cache. Known are {known}; a test host can use the software PMU "
            "(counters = vpmu)"
        )
    return found


def _of_x86(cpu: X86Cpu) -> CpuEvents | None:
    for vendor, family, models, events in _X86:
        if (cpu.vendor, cpu.family) == (vendor, family) and cpu.model in models:
            return events
    return None


def _of_arm(cpu: ArmCpu) -> CpuEvents | None:
    return _ARM.get(cpu.part) if cpu.implementer == _ARM_LIMITED else None


def _names() -> Iterable[str]:
    return dict.fromkeys(each.name for each in (*(row[3] for row in _X86), *_ARM.values()))


def _umask(name: str, select: int, umask: int, meaning: str) -> Event:
    return Event(name, _RAW, umask << 8 | select, meaning)


def _intel(name: str, remote: Event, bus_locks: Event) -> CpuEvents:
    return CpuEvents(
        name,
        "Intel 64 and IA-32 SDM volume 3B (253669), pre-defined architectural performance events; "
        "the model's core events at perfmon-events.intel.com",
        _umask("LONGEST_LAT_CACHE.REFERENCE", 0x2E, 0x4F, "requests of the core to the LLC"),
        _umask("LONGEST_LAT_CACHE.MISS", 0x2E, 0x41, "requests of the core that missed the LLC"),
        remote,
        bus_locks,
        generic_is_llc=True,
    )


def _retired_remote(prefix: str, umask: int) -> Event:
    return _umask(
        f"{prefix}_L3_MISS_RETIRED.REMOTE_DRAM",
        0xD3,
        umask,
        "retired loads that memory of another socket served; stores and prefetches are not counted",
    )


_SPLIT_LOCK = _umask("SQ_MISC.SPLIT_LOCK", 0xF4, 0x10, "locked accesses that split a cache line")
_LOCKS = "bus locks: locked accesses that split a cache line or are not cacheable"
_UOPS_REMOTE = _retired_remote("MEM_LOAD_UOPS", 0x04)
_LOADS_REMOTE = _retired_remote("MEM_LOAD", 0x02)
_HASWELL = _intel("Intel Haswell and Broadwell servers", _UOPS_REMOTE, _SPLIT_LOCK)
_SKYLAKE = _intel("Intel Skylake, Cascade Lake and Cooper Lake servers", _LOADS_REMOTE, _SPLIT_LOCK)
_ICE_LAKE = _intel(
    "Intel Ice Lake servers", _LOADS_REMOTE, _umask("SQ_MISC.BUS_LOCK", 0xF4, 0x10, _LOCKS)
)
_SAPPHIRE_RAPIDS = _intel(
    "Intel Sapphire Rapids and Emerald Rapids",
    _LOADS_REMOTE,
    _umask("SQ_MISC.BUS_LOCK", 0x2C, 0x10, _LOCKS),
)

_OWN_CCX, _NEAR_CACHE, _NEAR_DRAM, _FAR_CACHE, _FAR_DRAM, _EXTENSION = (
    1 << bit for bit in (1, 2, 3, 4, 6, 7)
)
"""Where a line came from: unit masks of PMCx043 and PMCx044."""
_DEMAND = "demand fills of the data cache"
_ANY = "fills of the data cache, prefetches into it included,"
_DEMAND_LACKS = "; no prefetches; a line of another CCX of the same node counts as a hit"
_ANY_LACKS = "; what the L2's own prefetcher fetched before counts as a hit of the L2"


def _zen(
    name: str, source: str, select: int, prefix: str, missed: int, what: str, lacks: str
) -> CpuEvents:
    """One event, by where the line came from: hits are what the caches of the own CCX gave."""
    return CpuEvents(
        name,
        source,
        _umask(
            f"{prefix}.beyond_l2", select, missed | _OWN_CCX, f"{what} from beyond the L2{lacks}"
        ),
        _umask(f"{prefix}.beyond_l3", select, missed, f"{what} from beyond the CCX's L3{lacks}"),
        _umask(f"{prefix}.dram_io_far", select, _FAR_DRAM, f"{what} from memory of another node"),
        _umask("ls_locks.bus_lock", 0x25, 0x01, _LOCKS),
    )


def _zen_any(name: str, source: str, missed: int) -> CpuEvents:
    source = f"{source}, LS events, PMCx044"
    return _zen(name, source, 0x44, "ls_any_fills_from_sys", missed, _ANY, _ANY_LACKS)


_ZEN_2 = _zen(
    "AMD Zen 2",
    "AMD PPR for Family 17h Model 31h (55803), LS events, PMCx043",
    0x43,
    "ls_refills_from_sys",
    _NEAR_DRAM | _FAR_CACHE | _FAR_DRAM,
    _DEMAND,
    _DEMAND_LACKS,
)
_ZEN_3_MISSED = _NEAR_CACHE | _NEAR_DRAM | _FAR_CACHE | _FAR_DRAM
_ZEN_4_MISSED = _ZEN_3_MISSED | _EXTENSION
_ZEN_3 = _zen_any("AMD Zen 3", "AMD PPR for Family 19h Model 01h (55898)", _ZEN_3_MISSED)
_ZEN_4 = _zen_any("AMD Zen 4", "AMD PPR for Family 19h Model 11h (55901)", _ZEN_4_MISSED)
_ZEN_5 = _zen_any(
    "AMD Zen 5",
    "AMD Performance Monitor Counters for Family 1Ah Model 00h-0Fh (58550)",
    _ZEN_4_MISSED,
)


def _models(*bounds: tuple[int, int]) -> frozenset[int]:
    return frozenset(model for first, last in bounds for model in range(first, last + 1))


_X86: tuple[tuple[str, int, frozenset[int], CpuEvents], ...] = (
    ("GenuineIntel", 6, frozenset({0x3F, 0x4F}), _HASWELL),
    ("GenuineIntel", 6, frozenset({0x55}), _SKYLAKE),
    ("GenuineIntel", 6, frozenset({0x6A, 0x6C}), _ICE_LAKE),
    ("GenuineIntel", 6, frozenset({0x8F, 0xCF}), _SAPPHIRE_RAPIDS),
    (
        "AuthenticAMD",
        0x17,
        _models((0x30, 0x4F), (0x60, 0x7F), (0x90, 0x91), (0xA0, 0xAF)),
        _ZEN_2,
    ),
    ("AuthenticAMD", 0x19, _models((0x00, 0x0F), (0x20, 0x5F)), _ZEN_3),
    ("AuthenticAMD", 0x19, _models((0x10, 0x1F), (0x60, 0xAF)), _ZEN_4),
    ("AuthenticAMD", 0x1A, _models((0x00, 0x2F), (0x40, 0x4F), (0x60, 0x7F)), _ZEN_5),
)


def _neoverse(name: str, manual: int) -> CpuEvents:
    return CpuEvents(
        f"Arm {name}",
        f"Arm {name} Technical Reference Manual ({manual}), PMU events",
        Event("LL_CACHE_RD", _RAW, 0x36, "reads that the system's last-level cache was asked for"),
        Event("LL_CACHE_MISS_RD", _RAW, 0x37, "reads that missed the system's last-level cache"),
        l2_reads=Event("L2D_CACHE_RD", _RAW, 0x50, "reads that looked into the L2"),
    )


_ARM = {
    0xD0C: _neoverse("Neoverse N1", 100616),
    0xD40: _neoverse("Neoverse V1", 101427),
    0xD49: _neoverse("Neoverse N2", 102099),
    0xD4F: _neoverse("Neoverse V2", 102375),
}
