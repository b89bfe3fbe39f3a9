# SPDX-License-Identifier: Apache-2.0
"""The modes that are set for the cloud and for host aggregates: a value that agent, database and
vp-scheduler share, and its form in messages and files. Pure.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from nova_vp import wire
from nova_vp.core.types.mode_levels import ModeLevel, SetMode
from nova_vp.core.types.policy import Mode

NOT_SET = "unset"
"""In place of a mode, in orders to an agent and in its state folder: the host has none of its own.
Agents before it was known refuse the order."""


class CloudModes(NamedTuple):
    cloud: Mode | None = None
    """None: not set."""
    aggregates: Mapping[str, Mode] = {}
    """By name; aggregates without a mode are absent."""

    def of_host(self, aggregates: Collection[str] | None) -> tuple[SetMode, ...]:
        """Those that hold for a host that is in these aggregates, the broadest first. None: nobody
        knows in which it is; then those of all aggregates hold, since one of them may be its own.
        """
        return tuple(self._of_host(aggregates))

    def _of_host(self, aggregates: Collection[str] | None) -> Iterator[SetMode]:
        if self.cloud:
            yield SetMode(self.cloud, ModeLevel.CLOUD)
        for name, mode in sorted(self.aggregates.items()):
            if aggregates is None or name in aggregates:
                yield SetMode(mode, ModeLevel.AGGREGATE, name)

    def as_message(self) -> dict[str, Any]:
        """In one order, so that equal modes have equal texts."""
        named = [{"name": n, "mode": m.value} for n, m in sorted(self.aggregates.items())]
        return {"aggregates": named} | ({"cloud": self.cloud.value} if self.cloud else {})

    @property
    def checksum(self) -> str:
        return hashlib.sha256(wire.compact(self.as_message()).encode("ascii")).hexdigest()[:32]


NO_MODES = CloudModes()


def source_text(report: Mapping[str, Any]) -> str | None:
    """Where the mode of a host is set, by its report: `cloud`, `aggregate:NAME`. None: the agent
    does not say."""
    if "modes" not in report:
        return None
    source = report["modes"]["source"]
    return ":".join(part for part in (source["level"], source["name"]) if part)


def modes_text(version: int, modes: CloudModes) -> str:
    """A `wire.MODES` message, or a file of the like. Raises wire.BadMessage if it is too large."""
    return wire.encode(wire.MODES, {"v": wire.VERSION, "version": version, **modes.as_message()})


def read_modes(text: object) -> tuple[int, CloudModes]:
    """Its version and what it says. Raises wire.BadMessage."""
    message = wire.decode(wire.MODES, text)
    cloud = Mode(message["cloud"]) if "cloud" in message else None
    aggregates = {one["name"]: Mode(one["mode"]) for one in message["aggregates"]}
    return int(message["version"]), CloudModes(cloud, aggregates)
