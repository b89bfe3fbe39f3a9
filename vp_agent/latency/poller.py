# SPDX-License-Identifier: Apache-2.0
"""Asks the operator's latency sources, each in a thread, while their servers are here."""

import logging
import threading
from collections.abc import Iterable, Mapping
from typing import Protocol

from oslo_config import cfg
from stevedore import DriverManager, ExtensionManager
from stevedore.exception import NoMatches

from nova_vp.printable import printable
from vp_agent.latency.base import (
    NAMESPACE,
    Asked,
    LatencySource,
    Measured,
    SourceError,
    WrongSetting,
    parse_line,
)

LOG = logging.getLogger(__name__)
INTERVAL_S = 2.0
"""Between the ends and beginnings of two rounds of a source."""


class Offered(Protocol):
    """What of the reports is used: `vp_agent.loop.latency_reports.LatencyReports`."""

    def asked_of(self, server: str) -> Asked | None:
        """Of a latency-critical server that is here; None: it is none, or is not here."""

    def measures(self, servers: frozenset[str]) -> None:
        """Of these the operator's sources alone are believed."""

    def offer(self, server: str, latency_ms: float, load: float | None) -> bool:
        """What the operator's source measured just now; whether it can be a latency."""


def open_sources(lines: Iterable[str]) -> dict[str, LatencySource]:
    """By server. Raises cfg.Error."""
    found: dict[str, LatencySource] = {}
    for text in lines:
        try:
            line = parse_line(text)
            if line.server in found:
                raise WrongSetting(f"{line.server}: there is another line of this server")
            found[line.server] = _create(line.driver, line.settings)
        except WrongSetting as exc:
            raise cfg.Error(f"[agent] latency_sources: {exc}") from exc
    return found


def _create(driver: str, settings: Mapping[str, str]) -> LatencySource:
    try:
        source: LatencySource = DriverManager(NAMESPACE, driver).driver(settings)
    except NoMatches as exc:
        installed = ", ".join(sorted(ExtensionManager(NAMESPACE).names()))
        raise WrongSetting(f"driver={driver}: give one of {installed}") from exc
    return source


class Poller:
    def __init__(
        self,
        sources: Mapping[str, LatencySource],
        reports: Offered,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._sources = sources
        self._reports = reports
        self._interval_s = interval_s
        self._stopped = threading.Event()

    def start(self) -> None:
        self._reports.measures(frozenset(self._sources))
        for server, source in self._sources.items():
            # Nobody waits for one that hangs, at the end of the process neither.
            threading.Thread(
                target=self._run, args=(server, source), name=f"latency-{server}", daemon=True
            ).start()

    def _run(self, server: str, source: LatencySource) -> None:
        is_failing = False
        while not self._stopped.wait(self._interval_s):
            asked = self._reports.asked_of(server)
            if asked is None:
                continue
            fault = self._round(server, source, asked)
            if fault and not is_failing:
                LOG.warning(
                    "vp=%s latency source failed, see its line of [agent] latency_sources: %s",
                    server,
                    fault,
                )
            if is_failing and not fault:
                LOG.info("vp=%s its latency source measures again", server)
            is_failing = bool(fault)

    def _round(self, server: str, source: LatencySource, asked: Asked) -> str:
        """What is wrong; empty: nothing is."""
        try:
            measured: Measured = source.read(asked)
            if self._stopped.is_set() or self._reports.offer(server, *measured):
                return ""
            return printable(f"{measured} is no latency")
        except SourceError as exc:
            return printable(str(exc))
        except Exception as exc:  # Of a driver of another package, whatever it raises.
            return printable(f"{type(exc).__name__}: {exc}")

    def close(self) -> None:
        self._stopped.set()
