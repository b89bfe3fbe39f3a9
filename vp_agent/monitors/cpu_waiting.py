# SPDX-License-Identifier: Apache-2.0
"""CPU waiting of servers of overlays, and what their CPUs have left, as the agent samples them."""

from collections.abc import Mapping
from dataclasses import dataclass

from nova_vp.core.types.decision import VpView
from nova_vp.monitors.cpu_waiting import TARGET_UNIT, CpuWaiting, WaitingSettings
from nova_vp.monitors.utilisation import idle_cores, load_by_cpu
from vp_agent.monitors.base import HostMonitor, Seen, settings_from

_UNKNOWN = "how long it waits for a CPU is unknown: see [agent] cpu_times"


@dataclass(frozen=True, slots=True)
class Settings(WaitingSettings):
    interval_s: float = 1.0
    """A sample of the agent that was seen already is not seen again."""


class CpuWaitingMonitor:
    capabilities = frozenset[int]()
    server = ""

    def __init__(self, settings: Settings) -> None:
        self.interval_s = settings.interval_s
        self.decides = CpuWaiting(settings)
        self._seen_at_s = 0.0
        self._known: frozenset[str] = frozenset()
        self._problems: Mapping[str, str] = {}

    def look(self, seen: Seen, now_s: float) -> Mapping[str, str]:
        decision = seen.decision
        if decision is not None and decision.at_s != self._seen_at_s:
            self._seen_at_s = decision.at_s
            self._problems = self._look_at(decision.vps, seen)
        return self._problems

    def _look_at(self, vps: tuple[VpView, ...], seen: Seen) -> dict[str, str]:
        load = load_by_cpu(vps)
        problems = {}
        here = {view.guest.uuid: view for view in vps if view.guest.uuid in seen.members}
        for server, view in here.items():
            if view.cpu_use is None:
                problems[server] = _UNKNOWN
            else:
                idle = idle_cores(load, view.guest.placement)
                target = seen.target(server, TARGET_UNIT)
                self.decides.see(server, view.cpu_use.waiting_ratio, idle, target)
        for server in self._known - here.keys():
            self.decides.forget(server)
        self._known = frozenset(here)
        return problems

    def close(self) -> None:
        """It holds nothing."""


def create(given: Mapping[str, str]) -> HostMonitor:
    """Raises WrongSetting."""
    return CpuWaitingMonitor(settings_from(Settings, given))
