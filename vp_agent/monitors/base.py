# SPDX-License-Identifier: Apache-2.0
"""What a monitor on the host is (stevedore namespace `vp_agent.monitors`), and what the operator
sets.

A monitor reads the host; what follows from that is decided in `nova_vp.monitors`. Each runs in a
thread of its own: no tick waits for it.
"""

import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from nova_vp.core.types.decision import Decision
from nova_vp.monitors.base import Monitor
from vp_agent.drivers.nics import Nic

NAMESPACE = "vp_agent.monitors"
Settings = TypeVar("Settings")


class WrongSetting(ValueError):
    """A line of `[agent] monitors` is not valid. The text says what is expected."""


class Target(NamedTuple):
    """What the monitors of an overlay act on."""

    number: float
    unit: str


class Seen(NamedTuple):
    """What every monitor may look at."""

    members: frozenset[str]
    """UUIDs of servers on this host that are in an overlay."""
    nics: Mapping[str, tuple[Nic, ...]]
    """By server on this host."""
    decision: Decision | None
    """Of the latest tick; None: there was none yet."""
    targets: Mapping[str, Target] = MappingProxyType({})
    """By server whose overlay has one."""

    def target(self, server: str, unit: str) -> float | None:
        """Of its overlay; None: it has none in this unit."""
        found = self.targets.get(server)
        return found.number if found and found.unit == unit else None


class HostMonitor(Protocol):
    interval_s: float
    """Between the end of a look and the next one."""
    capabilities: frozenset[int]
    """That it needs, by their numbers."""
    server: str
    """That it watches; its calls may be for any server of that one's overlay, on any host. Empty:
    it watches all servers of overlays on this host, and calls for these."""

    @property
    def decides(self) -> Monitor:
        """From what it was shown."""

    def look(self, seen: Seen, now_s: float) -> Mapping[str, str]:
        """Read the host, and show it to `decides`. Returns, by server, what cannot be seen of it,
        for people. Raises OSError."""

    def close(self) -> None: ...


class MonitorLine(NamedTuple):
    """One value of `[agent] monitors`."""

    name: str
    settings: Mapping[str, str]


Create = Callable[[Mapping[str, str]], HostMonitor]
"""What an entry point names. Raises WrongSetting for settings that it does not take."""


def parse_line(text: str) -> MonitorLine:
    """Of `NAME key=value ...`, quoted as in a shell. Raises WrongSetting."""
    try:
        name, *words = shlex.split(text)
        parts = [word.partition("=") for word in words]
        settings = {key: value for key, is_given, value in parts if is_given}
        if len(settings) != len(parts) or "=" in name:
            raise ValueError("write each setting once, as key=value, after the name")
    except ValueError as exc:
        raise WrongSetting(
            f"{text!r}: {exc}; write the name of a monitor and its settings, as key=value"
        ) from exc
    return MonitorLine(name, settings)


def settings_from(kind: type[Settings], given: Mapping[str, str]) -> Settings:
    """Of a frozen dataclass of numbers, those not given with their defaults. Raises
    WrongSetting."""
    known: dict[str, Any] = {field.name: field.default for field in fields(cast(Any, kind))}
    if unknown := given.keys() - known.keys():
        raise WrongSetting(
            f"{', '.join(sorted(unknown))}: the settings of this monitor are {', '.join(known)}"
        )
    return kind(**{name: _number(name, text, known[name]) for name, text in given.items()})


def check_port(port: int) -> None:
    """Raises WrongSetting."""
    if not 1 <= port < 1 << 16:
        raise WrongSetting(f"port={port}: give a number from 1 to 65535")


def _number(name: str, text: str, default: float) -> float:
    """Of the kind that the default has. Raises WrongSetting."""
    try:
        number = type(default)(text)
    except ValueError:
        number = -1
    is_whole = isinstance(default, int)
    if number < 0 or not math.isfinite(number) or (number == 0 and not is_whole):
        expected = "a whole number, 0 or more" if is_whole else "a number above 0"
        raise WrongSetting(f"{name}={text}: give {expected}")
    return number
