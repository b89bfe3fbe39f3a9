# SPDX-License-Identifier: Apache-2.0
"""One thing that was looked at: how it is, and what mends it."""

import enum
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from oslo_config import cfg

from vp_agent.drivers.base import DriverError


class Level(enum.Enum):
    OK = "ok"
    WARNING = "warning"
    """The agent works, and could do more, or does it in a way that somebody should know."""
    FAILURE = "failure"
    """The agent cannot do what it is for."""


class Finding(NamedTuple):
    name: str
    level: Level
    told: str
    mend: str = ""
    """What to do; empty: nothing need be done."""


Looks = Callable[[], Iterable[Finding]]


def ok(name: str, told: str) -> Finding:
    return Finding(name, Level.OK, told)


def warning(name: str, told: str, mend: str) -> Finding:
    return Finding(name, Level.WARNING, told, mend)


def failure(name: str, told: str, mend: str) -> Finding:
    return Finding(name, Level.FAILURE, told, mend)


def looked(name: str, look: Looks) -> Iterator[Finding]:
    """One look that fails keeps no other from being taken."""
    try:
        yield from look()
    except cfg.Error as exc:
        yield failure(name, f"configuration: {exc}", "correct the option, then check again")
    except DriverError as exc:
        told, end, mend = str(exc).partition("): ")  # What is wrong (why): what mends it.
        yield failure(name, told + end[:1], mend or "correct this, then check again")
    except OSError as exc:
        yield failure(name, f"cannot be checked: {exc}", "check again as the user of vp-agent")
