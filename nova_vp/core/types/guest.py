# SPDX-License-Identifier: Apache-2.0
"""One server as libvirt and Nova's metadata describe it."""

import enum
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from nova_vp.core.types.cpu_time import CpuTimes
from nova_vp.core.types.knob import (
    NO_CPU_WEIGHT,
    NO_EMULATOR_WEIGHT,
    NO_LLC_LIMIT,
    NO_MEMBW_LIMIT,
    NO_MEMORY_SIZE,
    NO_QUOTA,
    Cpus,
    CpuWeight,
    EmulatorWeight,
    LlcShare,
    MembwShare,
    MemorySize,
    Quota,
    Shares,
)
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.service_level import DEFAULT_PERCENTILE, ServiceClass


class Isolation(enum.Enum):
    """`vp:isolation`: what the flavor asks for."""

    NONE = "none"
    SOFT = "soft"
    STRICT = "strict"


class Unmanaged(enum.Enum):
    """Why a guest is watched but never touched (it can still be victim or aggressor)."""

    NUMA_TOPOLOGY = "numa-topology"
    DEDICATED_CPUS = "dedicated-cpus"
    HUGEPAGES = "hugepages"
    REALTIME = "realtime"
    OPTED_OUT = "vp:manage=no"
    INVALID_SPEC = "invalid-vp-spec"
    NOT_NOVA = "no-nova-metadata"
    MIGRATING = "migrating"
    FOREIGN_CHANGE = "changed-by-somebody-else"
    LEAVING = "about-to-be-migrated"
    """The cluster asked for it, so we let go of it beforehand."""
    EXEMPT = "exempt"
    """An override exempts this server; what was set on it is undone."""
    OVERRIDE_OBSERVE = "override-observe"
    """Mode observe is set for this server, on a host that may do more."""
    AWAITING_OVERRIDES = "awaiting-overrides"
    """It has just arrived, and nobody has said yet whether it may be touched."""


LET_GO_OF = frozenset({Unmanaged.EXEMPT, Unmanaged.LEAVING})
"""Nothing of ours is on these any more."""


@lru_cache(maxsize=1024)
def _shares(memory_by_node: tuple[tuple[int, int], ...]) -> Shares:
    """Asked for in every tick, while memory seldom moves."""
    total = sum(kib for _, kib in memory_by_node)
    return tuple((node, kib / total) for node, kib in memory_by_node if kib)


class Guest(NamedTuple):
    """One running or paused server as libvirt and Nova's metadata describe it."""

    uuid: str
    domain_name: str
    name: str
    project_id: str
    flavor: str
    vcpus: int
    memory_kib: int
    allowed_cpus: frozenset[int]
    """Where it may be placed: Nova's bound (`<vcpu cpuset>`, or every CPU of the host), and of that
    only what is near the devices that are passed through to it."""
    placement: frozenset[int]
    """Where any of its vCPU threads may run now, read back from the host."""
    cpu_time_ns: int
    generation: str
    """Changes whenever the vCPU threads are new ones: boot, soft reboot, arrival."""
    is_running: bool = True
    isolation: Isolation = Isolation.NONE
    unmanaged: Unmanaged | None = None
    unmanaged_detail: str = ""
    """For people: which key and value, and what is allowed."""
    vcpu_placement: Cpus = ()
    """By vCPU, where they may not all run alike; empty: each runs wherever any does."""
    group: str = ""
    """`vp:group`: servers of one project that say the same are one VP."""
    priority: float = 1.0
    """`vp:priority`: its weight where demands conflict."""
    cap_floor_ratio: float | None = None
    """Least share of each vCPU that a cap must leave it; None: it is never capped."""
    quota: Quota = NO_QUOTA
    """Read back from the host."""
    cpu_weight: CpuWeight = NO_CPU_WEIGHT
    """Read back from the host."""
    emulator_weight: EmulatorWeight = NO_EMULATOR_WEIGHT
    """Read back from the host."""
    controller_keys: tuple[tuple[str, str], ...] = ()
    """Flavor extra specs that controllers declare (`FlavorKey`), each with its value as text."""
    memory_by_node: tuple[tuple[int, int], ...] = ()
    """(node, KiB that lie there now); empty where it was not read."""
    llc: LlcShare = NO_LLC_LIMIT
    """Read back from the host."""
    membw: MembwShare = NO_MEMBW_LIMIT
    """Read back from the host."""
    memory_obstacle: str = ""
    """Why its memory cannot be moved (huge pages, locked, VFIO), for people."""
    migration_obstacle: str = ""
    """Why it cannot be moved to another host, for people."""
    image: str = ""
    """UUID of the image that it was booted from; empty: from none, or nobody says."""
    mode: Mode | None = None
    """What holds for it, if that is not what holds for its host; None: the same."""
    refuses_help: bool = False
    """Nothing is done for its sake. What keeps it from harming others is."""
    cpu_times: CpuTimes | None = None
    """Of its vCPUs, from the kernel; None: nobody can say."""
    service_class: ServiceClass | None = None
    """`vp:class`; None: neither protected by its latency nor for what is left."""
    latency_target_ms: float | None = None
    """`vp:latency_target_ms`; None: it has none."""
    latency_percentile: float = DEFAULT_PERCENTILE
    """`vp:latency_percentile`: that the target, and what is reported, is for."""
    max_load: float | None = None
    """`vp:max_load`: the most that it serves within its target; None: nobody knows."""
    may_suspend: bool = False
    """`vp:suspend=yes`, which says something of best-effort servers alone."""
    memory_size: MemorySize = NO_MEMORY_SIZE
    """Read back from the host: at most `memory_kib`."""
    memory_used_kib: int | None = None
    """Of it, what its kernel and applications use, as its balloon driver says; None: it does not.
    """
    balloon_obstacle: str = ""
    """Why its memory cannot be resized (no balloon driver, VFIO), for people."""
    beyond_island: frozenset[int] = frozenset()
    """CPUs that Nova allows it and that are not in its island, where it is bound to one."""

    @property
    def vp_id(self) -> str:
        """One application's servers: a lone server is its own VP."""
        return f"{self.project_id}/{self.group}" if self.group else self.uuid

    @property
    def takes_help(self) -> bool:
        """Whether it may be changed for its own sake."""
        return self.unmanaged is None and not self.refuses_help

    @property
    def is_latency_critical(self) -> bool:
        return self.service_class is ServiceClass.LATENCY_CRITICAL

    @property
    def is_suspendable(self) -> bool:
        """Whether it may be held to 1 ms of CPU in each second."""
        return self.may_suspend and self.service_class is ServiceClass.BEST_EFFORT

    @property
    def cpus(self) -> Cpus:
        """Its placement as a knob has it."""
        return self.vcpu_placement or (self.placement,)

    @property
    def memory_shares(self) -> Shares:
        return _shares(self.memory_by_node)


@dataclass(frozen=True, slots=True)
class MemoryMove:
    """One guest's memory on its way between nodes."""

    guest_uuid: str
    to: Shares
    moved_kib: int
    left_kib: int
    is_over: bool = False
    problem: str = ""
    """Why it ended early; empty: it did not."""
    kib_per_s: float = 0.0
    """While it copies, the waits of its pace apart; 0 until it has copied."""
