# SPDX-License-Identifier: Apache-2.0
"""What a person can override of one server, whatever its flavor says: a value that agent, database
and vp-scheduler share, and its form in messages and files. Pure.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from nova_vp import wire
from nova_vp.core.types.policy import Mode, tightest
from nova_vp.wire.schema_types import LEVELS

POSSIBLE_AHEAD_MS = 24 * 3600 * 1000
"""Versions are milliseconds since 1970, or one more than the last. A service believes one that a
host reports up to so far ahead of its clock, and makes its own larger."""
REMEMBERED_AHEAD_MS = POSSIBLE_AHEAD_MS // 2
"""Of the agent's clock. Less than the above by as much as clocks may differ: then every version
that an agent remembers is one that a service can make a larger one than."""
LEAST_WEIGHT = 0.1
"""What priority 0 weighs; the others weigh as much as they say, a flavor's default 1."""


class ServerOverride(NamedTuple):
    mode: Mode | None = None
    """At most this, whatever its host may do; None: as its host."""
    opt_out: bool = False
    """Nothing is done for its sake; what keeps it from harming others is done all the same."""
    priority: int | None = None
    """0 to 9, in place of the flavor's; None: the flavor's."""
    exempt: bool = False
    """It is measured and never touched, whomever it harms."""
    latency_target_ms: float | None = None
    """Of a latency-critical server, in place of the flavor's where the flavor's is less, or where
    it has none; None: the flavor's."""
    latency_percentile: float | None = None
    """In place of the flavor's where the flavor's is more; None: the flavor's."""
    max_load: float | None = None
    """In place of the flavor's where the flavor's is less, or where it has none; None: the
    flavor's."""

    @property
    def is_nothing(self) -> bool:
        return self == NO_OVERRIDE

    @property
    def weight(self) -> float | None:
        """As `vp:priority` has it."""
        return None if self.priority is None else max(LEAST_WEIGHT, float(self.priority))

    def with_local(self, local: "ServerOverride") -> "ServerOverride":
        """What holds where this was set for the cloud, and that on the host itself: the more
        careful one, and the host's own weight."""
        modes = [mode for mode in (self.mode, local.mode) if mode]
        return self._replace(
            mode=tightest(*modes) if modes else None,
            opt_out=self.opt_out or local.opt_out,
            priority=self.priority if local.priority is None else local.priority,
            exempt=self.exempt or local.exempt,
        )

    def as_message(self) -> dict[str, Any]:
        """As messages have it: what is not overridden is absent."""
        told: dict[str, Any] = {}
        if self.mode:
            told["mode"] = self.mode.value
        if self.opt_out:
            told["opt_out"] = True
        if self.priority is not None:
            told["priority"] = self.priority
        if self.exempt:
            told["exempt"] = True
        numbers = {name: getattr(self, name) for name in LEVELS}
        return told | {name: value for name, value in numbers.items() if value is not None}

    @classmethod
    def from_message(cls, told: Mapping[str, Any]) -> "ServerOverride":
        """Of a valid one, in which a whole number may be written as 3.0."""
        return cls(
            mode=Mode(told["mode"]) if "mode" in told else None,
            opt_out=told.get("opt_out", False),
            priority=int(told["priority"]) if "priority" in told else None,
            exempt=told.get("exempt", False),
            **{name: told.get(name) for name in LEVELS},
        )


NO_OVERRIDE = ServerOverride()


def overrides_text(version: int, overrides: Mapping[str, ServerOverride]) -> str:
    """A `wire.OVERRIDES` message, or a file of the like. Raises wire.BadMessage if it is too
    large."""
    servers = [{"uuid": uuid, **one.as_message()} for uuid, one in sorted(overrides.items())]
    return wire.encode(wire.OVERRIDES, {"v": wire.VERSION, "version": version, "servers": servers})


def read_overrides(text: object) -> tuple[int, dict[str, ServerOverride]]:
    """Its version and what it says of each server. Raises wire.BadMessage."""
    message = wire.decode(wire.OVERRIDES, text)
    servers = {one["uuid"].lower(): ServerOverride.from_message(one) for one in message["servers"]}
    return int(message["version"]), servers
