# SPDX-License-Identifier: Apache-2.0
"""CPU time of one guest's vCPUs and of its host: what they got, waited for and were denied.

The terms are those of the kernel's scheduler statistics (Documentation/scheduler/sched-stats.rst)
and of CFS bandwidth control (sched-bwc.rst).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from nova_vp.core.types.knob import Quota


class CpuTimes(NamedTuple):
    """Cumulative, all vCPUs of one guest summed."""

    ran_ns: int
    run_delay_ns: int
    """Runnable, but not running: it waited for a CPU, or its cgroup was throttled."""
    throttled_ns: int
    """In which a quota kept its vCPUs from running, whoever set it."""
    generation: str
    """Changes where counts begin anew, or where nobody can say why it did not run meanwhile."""


class CpuUse(NamedTuple):
    """Means of one VP's vCPUs together, in cores; older samples fade.

    `run_delay_cores` holds the throttled time too. The kernel counts both at different moments, so
    only their means are subtracted from each other.
    """

    at_s: float
    """Of the latest sample in it."""
    samples: int = 0
    ran_cores: float = 0.0
    run_delay_cores: float = 0.0
    throttled_ours_cores: float = 0.0
    """By a cap of nova-vp."""
    throttled_nova_cores: float = 0.0
    """By the quota of Nova's flavor, or another that is not nova-vp's."""

    @property
    def throttled_cores(self) -> float:
        return self.throttled_ours_cores + self.throttled_nova_cores

    @property
    def waited_cores(self) -> float:
        return max(self.run_delay_cores - self.throttled_cores, 0.0)

    @property
    def waiting_ratio(self) -> float:
        """CPU waiting: of the CPU time that its quota let it want, the share that it waited."""
        return _ratio(self.waited_cores, self.ran_cores + self.waited_cores)

    @property
    def throttled_ratio_ours(self) -> float:
        """Of all CPU time that it wanted."""
        return _ratio(self.throttled_ours_cores, self._wanted_cores)

    @property
    def throttled_ratio_nova(self) -> float:
        """Of all CPU time that it wanted."""
        return _ratio(self.throttled_nova_cores, self._wanted_cores)

    @property
    def _wanted_cores(self) -> float:
        return self.ran_cores + self.waited_cores + self.throttled_cores


class SeenCpuUse(NamedTuple):
    """What one tick's CPU times make of a VP: see the fields of `VpState`."""

    times: CpuTimes | None
    quota_under_cap: Quota | None
    sample: CpuUse | None
    mean: CpuUse | None
    recent: CpuUse | None


class HostCpuTimes(NamedTuple):
    """Cumulative, all CPUs of the host summed, in clock ticks."""

    total_ticks: int
    steal_ticks: int
    """In which this host, itself a virtual machine, waited for a CPU of its own host."""
    taken_ticks: Mapping[int, int] = MappingProxyType({})
    """By CPU, of those online: in which anything ran on it, or steal. Empty: nobody says."""


class HostCpuUse(NamedTuple):
    """Of the host's CPUs together."""

    times: HostCpuTimes | None = None
    """As they were last read."""
    samples: int = 0
    steal_ratio: float = 0.0
    """Mean share of all CPU time; older samples fade."""
    recent: tuple[HostCpuTimes, ...] = ()
    """As they were read in the last ticks, the oldest first."""


NOT_MEASURED = HostCpuUse()


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
