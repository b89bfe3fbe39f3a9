# SPDX-License-Identifier: Apache-2.0
"""Packets that wait for servers of overlays, in the rings of their taps."""

from collections.abc import Mapping
from dataclasses import dataclass

from nova_vp.monitors.backlog import BacklogSettings, NetworkBacklog
from vp_agent.drivers.capabilities import CAP_NET_RAW
from vp_agent.drivers.link_stats import LinkStatsReader
from vp_agent.drivers.nics import Nic
from vp_agent.drivers.tap_queue import TapQueue, Waiting
from vp_agent.monitors.base import HostMonitor, Seen, settings_from
from vp_agent.monitors.taps import OnTaps


@dataclass(frozen=True, slots=True)
class Settings(BacklogSettings):
    interval_s: float = 0.05
    """At 100 Mbit/s 128 KiB arrive within 10 ms, and the ring is full after 120 ms."""


class BacklogMonitor:
    capabilities = frozenset({CAP_NET_RAW})
    server = ""

    def __init__(self, settings: Settings) -> None:
        self.interval_s = settings.interval_s
        self.decides = NetworkBacklog(settings)
        self._links = LinkStatsReader()
        self._queues: dict[str, OnTaps[TapQueue]] = {}
        """By server."""

    def look(self, seen: Seen, now_s: float) -> Mapping[str, str]:
        here = seen.members & seen.nics.keys()
        for server in self._queues.keys() - here:
            self._queues.pop(server).close()
            self.decides.forget(server)
        problems = {server: self._look_at(server, seen.nics[server], now_s) for server in here}
        return {server: problem for server, problem in problems.items() if problem}

    def _look_at(self, server: str, nics: tuple[Nic, ...], now_s: float) -> str:
        """What cannot be seen of it."""
        found: list[Waiting] = []
        problem = self._queues.setdefault(server, OnTaps()).look(
            nics,
            lambda device: TapQueue(device, self._links, now_s),
            lambda queue: found.append(queue.read(now_s)),
        )
        if found:
            self.decides.see(server, sum(q.kib for q in found), sum(q.lost for q in found))
        return problem

    def close(self) -> None:
        for queues in self._queues.values():
            queues.close()
        self._links.close()


def create(given: Mapping[str, str]) -> HostMonitor:
    """Raises WrongSetting."""
    return BacklogMonitor(settings_from(Settings, given))
