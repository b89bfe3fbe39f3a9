# SPDX-License-Identifier: Apache-2.0
"""What a host can do for servers, as traits that flavors may require; pure, one table.

Coarse and slow on purpose: states of servers and hosts belong into digests, not into Placement.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Mode

NO_COUNTERS = "none"


@dataclass(frozen=True, slots=True)
class HostTraits:
    """Of one run of a host's agent, from its report. The mode may change within a run."""

    provider: str
    """Placement's name of the host."""
    has_counters: bool
    knobs: frozenset[str]


def host_traits_of(report: Mapping[str, Any]) -> HostTraits:
    """Per `wire.REPORT_SCHEMA`; agents of older releases say neither name nor knobs."""
    return HostTraits(
        provider=report.get("hypervisor") or report["host"],
        has_counters=report["counters"]["source"] != NO_COUNTERS,
        knobs=frozenset(report.get("knobs", ())),
    )


_CACHE = frozenset({Knob.LLC.value, "partition"})
"""Agents of the release before this one have one knob for cache and bandwidth."""

_TRAITS: Mapping[str, Callable[[HostTraits, str], bool]] = {
    "CUSTOM_VP_MANAGED": lambda able, mode: True,
    "CUSTOM_VP_ENFORCE": lambda able, mode: mode == Mode.ENFORCE.value,
    "CUSTOM_VP_COUNTERS": lambda able, mode: able.has_counters,
    "CUSTOM_VP_CACHE_PARTITION": lambda able, mode: not _CACHE.isdisjoint(able.knobs),
    "CUSTOM_VP_MEMORY_MOVES": lambda able, mode: Knob.MEMORY.value in able.knobs,
}
"""An agent reports; it acts on its own; it sees caches; it can divide them; it moves memory."""

OURS = frozenset(_TRAITS)
"""Exactly these: other names, whatever they begin with, are somebody else's."""


def traits_of(able: HostTraits, mode: str) -> frozenset[str]:
    return frozenset(name for name, holds in _TRAITS.items() if holds(able, mode))
