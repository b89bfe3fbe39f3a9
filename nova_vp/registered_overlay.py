# SPDX-License-Identifier: Apache-2.0
"""Overlays as the registry has them, and those that follow from `vp:group`; which of them are told
to a host. Pure.

A server is in one overlay at most: one that is registered, else that of its group. Otherwise it
could be boosted by the credit of several.
"""

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from nova_vp.core.types.overlay import ArbitrationClass, Overlay

_GROUPS = uuid.UUID("8e1f6f7c-5a3b-5d0e-9c74-2b6d10f4a987")
MOST_NAME = 64
PRIORITY = 1
"""What weighs the servers of a flavor that does not say."""


class RegisteredOverlay(NamedTuple):
    id: str
    project_id: str
    name: str
    servers: frozenset[str]
    """UUIDs in lower case, wherever they run."""
    priority: int
    arbitration: ArbitrationClass
    target: float | None
    target_unit: str
    by: str
    at: datetime
    version: int
    is_deleted: bool = False


class Running(NamedTuple):
    """A server as the report of its host has it."""

    uuid: str
    project_id: str
    group: str
    """`vp:group` of its flavor; empty: it has none."""


def running_in(report: Mapping[str, Any]) -> tuple[Running, ...]:
    """The servers of a valid report."""
    return tuple(
        Running(vp["uuid"].lower(), vp["project_id"], vp.get("group", "")) for vp in report["vps"]
    )


@lru_cache(maxsize=16_384)
def group_overlay_id(project_id: str, group: str) -> str:
    """The same wherever and whenever it is asked for."""
    return str(uuid.uuid5(_GROUPS, f"{project_id}/{group}"))


def group_overlay(project_id: str, group: str, members: Iterable[str] = ()) -> Overlay:
    id = group_overlay_id(project_id, group)
    return Overlay(id, group, project_id, frozenset(members), float(PRIORITY))


def overlays_on_host(
    servers: Iterable[Running], registered: Mapping[str, RegisteredOverlay]
) -> tuple[Overlay, ...]:
    """`registered`: by server. A host that claims a server for another project than that of its
    overlay is not told of the overlay."""
    grouped: dict[tuple[str, str], set[str]] = {}
    members: dict[str, set[str]] = {}
    known: dict[str, RegisteredOverlay] = {}
    for one in servers:
        found = registered.get(one.uuid)
        if found is None:
            if one.group and one.project_id:
                grouped.setdefault((one.project_id, one.group), set()).add(one.uuid)
        elif found.project_id == one.project_id:
            known[found.id] = found
            members.setdefault(found.id, set()).add(one.uuid)
    return (
        *(_as_told(found, members[found.id]) for found in known.values()),
        *(group_overlay(*key, uuids) for key, uuids in grouped.items()),
    )


def _as_told(one: RegisteredOverlay, members: Iterable[str]) -> Overlay:
    return Overlay(
        id=one.id,
        name=one.name,
        project_id=one.project_id,
        members=frozenset(members),
        priority=float(one.priority),
        arbitration=one.arbitration,
        target=one.target,
        target_unit=one.target_unit,
    )
