# SPDX-License-Identifier: Apache-2.0
"""Classes of the HTTP requests that reach a server, told apart on the tap of the server."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from nova_vp.monitors.request_classes import RequestClasses, RequestSettings
from vp_agent.drivers.capabilities import CAP_NET_RAW
from vp_agent.drivers.request_capture import RequestCapture
from vp_agent.monitors.base import HostMonitor, Seen, WrongSetting, check_port, settings_from
from vp_agent.monitors.taps import OnTaps

_CLASS, _SERVERS = "class.", "servers."
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Settings(RequestSettings):
    port: int = 80
    """Of TCP, at which the server takes requests."""
    interval_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Classes:
    server: str
    """UUID of the one that takes the requests."""
    patterns: Mapping[str, re.Pattern[str]]
    """By class, for the beginning of a request's first line."""
    servers_of: Mapping[str, tuple[str, ...]]
    """By class, those that its requests keep busy."""

    def of(self, line: str) -> str | None:
        """The first class whose pattern fits."""
        return next((name for name, one in self.patterns.items() if one.match(line)), None)


class RequestClassMonitor:
    capabilities = frozenset({CAP_NET_RAW})

    def __init__(self, classes: Classes, settings: Settings) -> None:
        self.interval_s = settings.interval_s
        self.server = classes.server
        self._classes = classes
        self._settings = settings
        self._taps: OnTaps[RequestCapture] = OnTaps()
        self.decides = self._anew()

    def _anew(self) -> RequestClasses:
        return RequestClasses(self._classes.servers_of, self._settings)

    def look(self, seen: Seen, now_s: float) -> Mapping[str, str]:
        server = self._classes.server
        if server not in seen.members or server not in seen.nics:
            self._taps.close()
            self.decides = self._anew()  # It left: what it was granted here ends with its lease.
            return {}
        counts: Counter[str] = Counter()

        def count(capture: RequestCapture) -> None:
            for line in capture.lines():
                if name := self._classes.of(line):
                    counts[name] += 1

        problem = self._taps.look(
            seen.nics[server], lambda device: RequestCapture(device, self._settings.port), count
        )
        self.decides.see(counts, now_s)
        return {server: problem} if problem else {}

    def close(self) -> None:
        self._taps.close()


def create(given: Mapping[str, str]) -> HostMonitor:
    """`server`, a `class.NAME` and a `servers.NAME` for each class, and the settings. Raises
    WrongSetting."""
    own = {name: text for name, text in given.items() if not _is_of_classes(name)}
    settings = settings_from(Settings, own)
    check_port(settings.port)
    return RequestClassMonitor(_classes(given), settings)


def _is_of_classes(name: str) -> bool:
    return name == "server" or name.startswith((_CLASS, _SERVERS))


def _classes(given: Mapping[str, str]) -> Classes:
    """Raises WrongSetting."""
    patterns = _of(given, _CLASS, _pattern)
    servers_of = _of(given, _SERVERS, _uuids)
    if len(patterns) < 2 or patterns.keys() != servers_of.keys():
        raise WrongSetting(
            "give two classes or more, each with class.NAME=PATTERN and servers.NAME=UUID,UUID"
        )
    return Classes(_uuids(given.get("server", ""))[0], patterns, servers_of)


def _of(given: Mapping[str, str], prefix: str, read: Callable[[str], Read]) -> dict[str, Read]:
    return {
        name.removeprefix(prefix): read(text)
        for name, text in given.items()
        if name.startswith(prefix)
    }


def _pattern(text: str) -> re.Pattern[str]:
    """Raises WrongSetting."""
    try:
        return re.compile(text)
    except re.error as exc:
        raise WrongSetting(f"{text}: {exc}; give a regular expression of Python") from exc


def _uuids(text: str) -> tuple[str, ...]:
    """Raises WrongSetting."""
    try:
        return tuple(str(UUID(one)) for one in text.split(","))
    except ValueError as exc:
        raise WrongSetting(f"{text}: give ids of servers, separated by commas") from exc
