# SPDX-License-Identifier: Apache-2.0
"""Whether the agent does what it is for, from what it published last; pure but for one look at its
folder. It fails only when this host is not looked after: without a bus it does its work alone.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nova_vp import wire
from nova_vp.service.health import Check, Health, Status, bus_check
from vp_agent.publish.host_info import HostInfo
from vp_agent.publish.membw_file import NO_COUNTERS
from vp_agent.publish.metrics import Sources

PATIENCE_S = 10.0
PATIENCE_TICKS = 5


@dataclass(frozen=True, slots=True)
class AgentHealth:
    host: str
    state_directory: str
    sources: Sources
    interval_s: Callable[[], float]
    started_at_s: float
    clock: Callable[[], float] = time.monotonic

    def look(self) -> Health:
        host_info = self.sources.host_info()
        return Health(
            self.host,
            "nova-vp agent: isolates the performance of the servers of this host",
            (self._tick(), _counters(host_info), *self._bus(), self._state()),
        )

    def _tick(self) -> Check:
        last = self.sources.last()
        age_s = self.clock() - (last.at_s if last else self.started_at_s)
        is_late = age_s > max(PATIENCE_S, PATIENCE_TICKS * self.interval_s())
        told = (
            "the agent takes no samples: libvirt does not answer, or the agent hangs; see its log"
        )
        return Check(
            "tick",
            "age",
            Status.FAIL if is_late else Status.PASS,
            told if is_late else "",
            age_s,
            "s",
        )

    def _bus(self) -> Iterator[Check]:
        yield bus_check(self.sources.is_broker_reachable(), self.sources.is_listening())
        sent_at_s = self.sources.sent_at_s()
        age_s = self.clock() - (self.started_at_s if sent_at_s is None else sent_at_s)
        is_old = age_s > wire.EXPIRE_S
        told = "schedulers treat this host as unknown: no report is sent; see the log of vp-agent"
        status = Status.WARN if is_old else Status.PASS
        yield Check("report", "age", status, told if is_old else "", age_s, "s")

    def _state(self) -> Check:
        if os.access(self.state_directory, os.W_OK):
            return Check("state-directory", "writable", Status.PASS)
        told = "[agent] state_directory is not writable: mode and profiles are lost at a restart"
        return Check("state-directory", "writable", Status.WARN, told)


def _counters(host_info: HostInfo) -> Check:
    told = ""
    if host_info.counters == NO_COUNTERS:
        told = "no counter source works, so interference is not detected; run `vp-agent check`"
    elif host_info.problems:
        told = "the counters of some servers have problems; see `vp-agent status`"
    status = Status.WARN if told else Status.PASS
    return Check("counters", "problems", status, told, len(host_info.problems), "servers")
