# SPDX-License-Identifier: Apache-2.0
"""Classes of the RTP streams that servers of overlays receive, by bit rate and frame rate."""

from collections.abc import Mapping
from dataclasses import dataclass

from nova_vp.monitors.stream_classes import StreamClasses, StreamSettings
from vp_agent.drivers.capabilities import CAP_NET_RAW
from vp_agent.drivers.nics import Nic
from vp_agent.drivers.stream_counter import StreamCounter, StreamRate
from vp_agent.monitors.base import HostMonitor, Seen, check_port, settings_from
from vp_agent.monitors.taps import OnTaps


@dataclass(frozen=True, slots=True)
class Settings(StreamSettings):
    port: int = 5004
    """Of UDP, at which servers receive RTP."""
    interval_s: float = 2.0


class StreamMonitor:
    capabilities = frozenset({CAP_NET_RAW})
    server = ""

    def __init__(self, settings: Settings) -> None:
        self.interval_s = settings.interval_s
        self.decides = StreamClasses(settings)
        self._port = settings.port
        self._counters: dict[str, OnTaps[StreamCounter]] = {}
        """By server."""

    def look(self, seen: Seen, now_s: float) -> Mapping[str, str]:
        here = seen.members & seen.nics.keys()
        for server in self._counters.keys() - here:
            self._counters.pop(server).close()
            self.decides.forget(server)
        problems = {server: self._look_at(server, seen.nics[server], now_s) for server in here}
        return {server: problem for server, problem in problems.items() if problem}

    def _look_at(self, server: str, nics: tuple[Nic, ...], now_s: float) -> str:
        """What cannot be seen of it."""
        found: list[StreamRate] = []
        problem = self._counters.setdefault(server, OnTaps()).look(
            nics,
            lambda device: StreamCounter(device, self._port, now_s),
            lambda counter: found.append(counter.read(now_s)),
        )
        if found:
            self.decides.see(server, sum(s.kbit_s for s in found), sum(s.fps for s in found))
        return problem

    def close(self) -> None:
        for counters in self._counters.values():
            counters.close()


def create(given: Mapping[str, str]) -> HostMonitor:
    """Raises WrongSetting."""
    settings = settings_from(Settings, given)
    check_port(settings.port)
    return StreamMonitor(settings)
