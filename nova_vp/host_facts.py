# SPDX-License-Identifier: Apache-2.0
"""What Nova knows of a host and its servers: a value that agent and vp-scheduler share, and its
form in messages and files. Pure.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from nova_vp import wire
from nova_vp.flavor_specs import NAMESPACE


class ServerGroup(NamedTuple):
    id: str
    policy: str
    members: tuple[str, ...]
    """UUIDs of servers, wherever they run."""


class HostFacts(NamedTuple):
    aggregates: tuple[str, ...] = ()
    """Names."""
    groups: tuple[ServerGroup, ...] = ()
    """Those that a server of the host is in."""
    specs: Mapping[str, Mapping[str, str]] = {}
    """`vp:` extra specs of flavors, by server; a server without any is absent."""

    def as_message(self) -> dict[str, Any]:
        """In one order, so that equal facts have equal texts."""
        return {
            "aggregates": sorted(self.aggregates),
            "groups": [
                {"id": group.id, "policy": group.policy, "members": sorted(group.members)}
                for group in sorted(self.groups)
            ],
            "servers": [
                {"uuid": uuid, "specs": dict(sorted(self.specs[uuid].items()))}
                for uuid in sorted(self.specs)
            ],
        }

    @property
    def checksum(self) -> str:
        return hashlib.sha256(wire.compact(self.as_message()).encode("ascii")).hexdigest()[:32]


NO_FACTS = HostFacts()


def facts_text(read_at: float, facts: HostFacts) -> str:
    """`read_at`: seconds since 1970. Raises wire.BadMessage for more than agents take."""
    return wire.encode(wire.FACTS, {"v": wire.VERSION, "read_at": read_at, **facts.as_message()})


def read_facts(text: object) -> tuple[float, HostFacts]:
    """In one order, so that what is kept of them is read as the same. Raises wire.BadMessage."""
    message = wire.decode(wire.FACTS, text)
    groups = (
        ServerGroup(
            group["id"].lower(),
            group["policy"],
            tuple(sorted(uuid.lower() for uuid in group["members"])),
        )
        for group in message["groups"]
    )
    specs = {server["uuid"].lower(): ours(server["specs"]) for server in message["servers"]}
    return message["read_at"], HostFacts(
        tuple(sorted(message["aggregates"])), tuple(sorted(groups)), specs
    )


def ours(extra_specs: Mapping[str, str]) -> dict[str, str]:
    """Those of our namespace."""
    return {key: value for key, value in extra_specs.items() if key.startswith(NAMESPACE)}
