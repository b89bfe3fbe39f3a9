# SPDX-License-Identifier: Apache-2.0
"""Reason, settings, flavor key and state of the controller `initial_placement`."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from nova_vp.core.types.declaration import FlavorKey, option
from nova_vp.core.types.reason import Reason

NAME = "initial_placement"

HOME = Reason(
    code="home-on-arrival",
    rank=800,
    label="it is new, and gets the cache with the lowest predicted degradation",
    own_label="this server was placed within its host",
    is_for_host=True,
)


class Homing(enum.Enum):
    """In which modes a VP gets one LLC domain when it arrives."""

    NEVER = "never"
    ENFORCE = "enforce"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """The operator's numbers for `initial_placement` alone."""

    home_on_arrival: Homing = option(
        Homing.ENFORCE,
        "Whether a new server is placed on the CPUs of one LLC domain. This is initial "
        "placement, not mitigation. It is journalled and reverted like every other change.",
        choices={
            Homing.NEVER: "leave the initial placement to the kernel",
            Homing.ENFORCE: "place new servers in mode `enforce`, propose their placement in "
            "mode `advise`, compute virtual places in mode `observe`",
            Homing.ALWAYS: "place new servers in the modes `enforce` and `advise`, compute virtual "
            "places in mode `observe`",
        },
        formerly="home_on_arrival",
    )


def _memory_split(text: str) -> tuple[float, ...]:
    percents = [int(part) for part in text.split(",")]
    if sum(percents) != 100:
        raise ValueError(f"{text} adds up to {sum(percents)}, not to 100")
    return tuple(percent / 100 for percent in percents)


MEMORY_SPLIT: FlavorKey[tuple[float, ...]] = FlavorKey(
    key="vp:memory_split",
    description=(
        "How the memory of a new server is split over NUMA nodes: percentages that add up to "
        "100, the first for the node of its vCPUs. Without this key, and on a host with fewer "
        "nodes, the kernel places the memory."
    ),
    expected="2 to 8 percentages that add up to 100, such as 60,40",
    read=_memory_split,
    default=(),
    pattern=r"[1-9][0-9]?(,[1-9][0-9]?){1,7}",
)


@dataclass(frozen=True, slots=True)
class Placed:
    """Who has had its place."""

    generations: Mapping[str, str] = field(default_factory=dict)
    """By guest UUID: the generation of vCPU threads that got it."""
