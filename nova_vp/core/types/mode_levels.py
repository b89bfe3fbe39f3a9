# SPDX-License-Identifier: Apache-2.0
"""Where a mode can be set, and which one then holds: the tightest of those that are set.

A level that is not set has no say. Where none is set, `observe` holds.
"""

import enum
from collections.abc import Iterable
from typing import NamedTuple

from nova_vp.core.types.policy import Mode


class ModeLevel(enum.Enum):
    """The broadest first."""

    CLOUD = "cloud"
    AGGREGATE = "aggregate"
    HOST = "host"
    SERVER = "server"
    DEFAULT = "default"
    """None of the others is set."""


class SetMode(NamedTuple):
    """What is set on one level."""

    mode: Mode
    level: ModeLevel
    name: str = ""
    """Of the aggregate."""


UNSET = SetMode(Mode.OBSERVE, ModeLevel.DEFAULT)


def effective(levels: Iterable[SetMode]) -> SetMode:
    """The tightest of those that are set; of several that are equally tight the first."""
    return min(levels, key=lambda one: tuple(Mode).index(one.mode), default=UNSET)
