# SPDX-License-Identifier: Apache-2.0
"""Runs the operator's monitors, each in a thread, and makes the calls that they want."""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping

from oslo_config import cfg
from stevedore import DriverManager, ExtensionManager
from stevedore.exception import NoMatches

from nova_vp.core.types.decision import Decision
from nova_vp.core.types.overlay import Call, CallAnswer, Nack, Overlay
from nova_vp.monitors.base import Wanted, make_in_order
from nova_vp.printable import printable
from vp_agent.drivers.nics import Nic
from vp_agent.loop.monitor_calls import MonitorCall
from vp_agent.monitors.base import (
    NAMESPACE,
    Create,
    HostMonitor,
    Seen,
    Target,
    WrongSetting,
    parse_line,
)

LOG = logging.getLogger(__name__)
Nics = Callable[[], Mapping[str, tuple[Nic, ...]]]
Overlays = Callable[[], Mapping[str, Overlay]]


def open_monitors(lines: Iterable[str]) -> list[tuple[str, HostMonitor]]:
    """Each with its name; an empty line is none. Raises cfg.Error, OSError."""
    return [_opened(text) for text in lines if text.strip()]


def _opened(text: str) -> tuple[str, HostMonitor]:
    try:
        line = parse_line(text)
        return line.name, _create(line.name)(line.settings)
    except WrongSetting as exc:
        raise cfg.Error(f"[agent] monitors: {exc}") from exc


def _create(name: str) -> Create:
    try:
        create: Create = DriverManager(NAMESPACE, name).driver
    except NoMatches as exc:
        installed = ", ".join(sorted(ExtensionManager(NAMESPACE).names()))
        raise WrongSetting(f"{name}: give one of {installed}") from exc
    return create


class Monitors:
    """Any number on one host; each sees the overlays and servers as they are at the time."""

    def __init__(
        self,
        monitors: Iterable[tuple[str, HostMonitor]],
        overlays: Overlays,
        nics: Nics,
        last: Callable[[], Decision | None],
        answer: Callable[[MonitorCall], CallAnswer],
    ) -> None:
        """All but the first are thread-safe. `last`: decision of the agent; `answer` waits for
        that of the host of the called server."""
        self._monitors = tuple(monitors)
        self._overlays = overlays
        self._nics = nics
        self._last = last
        self._answer = answer
        self._stopped = threading.Event()

    def start(self) -> None:
        for name, monitor in self._monitors:
            threading.Thread(
                target=self._run, args=(name, monitor), name=f"monitor-{name}", daemon=True
            ).start()

    def _run(self, name: str, monitor: HostMonitor) -> None:
        told: Mapping[str, str] = {}
        while not self._stopped.wait(monitor.interval_s):
            problems = self._round(name, monitor)
            for server, problem in problems.items():
                if told.get(server) != problem:
                    whose = f"vp={server} " if server else ""
                    LOG.warning("%smonitor %s: %s", whose, name, printable(problem))
            told = problems
        monitor.close()

    def _round(self, name: str, monitor: HostMonitor) -> Mapping[str, str]:
        """By server, what cannot be seen; by an empty name, what is wrong with the monitor."""
        try:
            return self.look(monitor)
        except Exception as exc:  # Of a driver of another package, whatever it raises.
            return {"": f"{type(exc).__name__}: {exc}"}

    def look(self, monitor: HostMonitor) -> Mapping[str, str]:
        """Once: what it sees, and the calls that follow from it. Raises what the monitor does."""
        overlays = self._overlays().values()
        overlay_of = {server: one.id for one in overlays for server in one.members}
        targets = {
            server: Target(one.target, one.target_unit)
            for one in overlays
            if one.target is not None
            for server in one.members
        }
        seen = Seen(frozenset(overlay_of), self._nics(), self._last(), targets)
        looked_s = time.monotonic()
        problems = monitor.look(seen, looked_s)
        # This host is told of its own servers only. Whether one that it does not know is of the
        # overlay says vp-scheduler, which the call goes to.
        of_watched = overlay_of.get(monitor.server, "")
        wanted = monitor.decides.wanted(time.monotonic())
        calls = [one for one in wanted if overlay_of.get(one.server, of_watched)]

        def make(call: Wanted) -> Nack | None:
            return self._made(call, overlay_of.get(call.server, of_watched), looked_s)

        make_in_order(monitor.decides, calls, make, time.monotonic)
        return problems

    def _made(self, wanted: Wanted, overlay_id: str, looked_s: float) -> Nack | None:
        nack = self._answer(MonitorCall(_call_of(wanted, overlay_id))).nack
        LOG.debug(
            "vp=%s %s=%s, %.1f ms after the monitor looked",
            wanted.server,
            wanted.verb.value,
            nack.value if nack else "granted",
            1000 * (time.monotonic() - looked_s),
        )
        return nack

    def close(self) -> None:
        self._stopped.set()


def _call_of(wanted: Wanted, overlay_id: str) -> Call:
    return Call(
        id=f"monitor-{uuid.uuid4()}",
        overlay_id=overlay_id,
        verb=wanted.verb,
        resource=wanted.resource,
        direction=wanted.direction,
        guest_uuid=wanted.server,
        cpus=wanted.cpus,
        island=wanted.island,
        lease_s=wanted.lease_s,
    )
