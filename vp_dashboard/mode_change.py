# SPDX-License-Identifier: Apache-2.0
"""Modes of hosts as a page lists them, and what holds for a host or server once one is set. Pure.

A mode is told as vp-api has it: `mode`, and its `source` with `level` and `name`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nova_vp.core.types.mode_levels import ModeLevel, SetMode, effective
from nova_vp.core.types.policy import Mode, known_mode

Told = Mapping[str, Any]


def matching(hosts: Iterable[Told], chosen: Mapping[str, str]) -> list[Told]:
    """Those in the chosen `mode`, whose mode comes from the chosen `source`, a level."""
    return [
        host
        for host in hosts
        if chosen.get("mode", host["mode"]) == host["mode"]
        and chosen.get("source", level_of(host)) == level_of(host)
    ]


def level_of(host: Told) -> str | None:
    """That its mode comes from. None: its agent does not say."""
    source = host["mode_source"]
    return None if source is None else str(source["level"])


def page(hosts: Sequence[Told], marker: str | None, size: int) -> tuple[Sequence[Told], str | None]:
    """Rows after the host that `marker` names, and the marker of the next page. A marker that is
    not listed any more: from the first row on."""
    names = [host["name"] for host in hosts]
    begin = names.index(marker) + 1 if marker in names else 0
    end = begin + size
    return hosts[begin:end], names[end - 1] if end < len(names) else None


def set_on(level: ModeLevel, levels: Iterable[Told]) -> str | None:
    """None: no mode is set there."""
    return next((str(one["mode"]) for one in levels if one["level"] == level.value), None)


def then(levels: Iterable[Told], level: ModeLevel, mode: str | None) -> Told:
    """What holds once `mode` is set on `level`, or none is. `levels`: what is set now."""
    others = [
        SetMode(known_mode(one["mode"]), ModeLevel(one["level"]), one["name"])
        for one in levels
        if one["level"] != level.value
    ]
    found = effective([*others, *([SetMode(Mode(mode), level)] if mode else [])])
    source = {"level": found.level.value, "name": found.name}
    return {"mode": found.mode.value, "source": source}
