# SPDX-License-Identifier: Apache-2.0
"""Reasons, settings and state of the controller `vp`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from nova_vp.core.types.declaration import option
from nova_vp.core.types.reason import Reason

NAME = "vp"
MOVED = "this server was moved within its host"
NEIGHBOUR_MOVED = "a neighbour was moved away"

SEPARATE = Reason(
    code="separate-state-8",
    rank=399,
    label="it works mostly in memory on a hot NUMA node, so it gets a node of its own",
    own_label=MOVED,
    neighbour_label="a neighbour was moved",
    is_verified=True,
    is_counted=True,
    takes_away=True,
    is_for_host=True,
    is_rule=True,
)
MOVE_AGGRESSOR = Reason(
    code="move-aggressor",
    rank=400,
    label="it degrades a neighbour",
    own_label=MOVED,
    neighbour_label=NEIGHBOUR_MOVED,
    is_verified=True,
    is_counted=True,
    takes_away=True,
)
BRING_HOME = Reason(
    code="bring-memory-and-cpus-together",
    rank=400,
    label="its memory and its CPUs were on different NUMA nodes",
    own_label="this server was moved closer to its memory",
    is_verified=True,
    is_counted=True,
    takes_away=True,
    is_for_moved=True,
    is_rule=True,
)
MOVE_VICTIM = Reason(
    code="move-victim",
    rank=401,
    label="its neighbours degrade it",
    own_label=MOVED,
    is_verified=True,
    is_counted=True,
    takes_away=True,
)
SWAP = Reason(
    code="swap-places",
    rank=402,
    label="no CPU was free, so it swaps places with another server",
    own_label=MOVED,
    is_verified=True,
    is_counted=True,
    takes_away=True,
)
PARTITION = Reason(
    code="partition-cache-or-bandwidth",
    rank=403,
    label="it degrades a neighbour, so its cache or bandwidth is limited",
    own_label="this server's share of the host's cache was limited",
    neighbour_label="a neighbour's share of the cache was limited",
    is_verified=True,
    is_counted=True,
)
CAP = Reason(
    code="cap-aggressor",
    rank=404,
    label="it degrades a neighbour and no move helps, so its CPU is capped",
    own_label="this server's processor time was limited",
    neighbour_label="a neighbour's processor time was limited",
    is_verified=True,
    is_counted=True,
    is_stepwise=True,
)
LIFT_CAP = Reason(
    code="lift-cap",
    rank=405,
    label="the neighbour is no longer degraded, so the cap is raised by one step",
    own_label="the limit on this server's processor time was raised",
    neighbour_label="the limit on a neighbour's processor time was raised",
    gives_back=True,
)
REASONS = (SEPARATE, MOVE_AGGRESSOR, BRING_HOME, MOVE_VICTIM, SWAP, PARTITION, CAP, LIFT_CAP)


@dataclass(frozen=True, slots=True)
class VpSettings:
    """The operator's numbers for `vp` alone."""

    cap_probe_s: float = option(
        60.0,
        "Seconds after which a CPU cap is raised by one step of a tenth, if its victim is no "
        "longer degraded. If the cap has to be lowered again, it is not raised within "
        "reverse_hold_s.",
        minimum=1.0,
        formerly="cap_probe_s",
    )
    partition_llc_ratio: float = option(
        0.25,
        "Share of the LLC that remains for an aggressor that does not need the cache itself, if "
        "the hardware can partition the cache (resctrl). It is never less than "
        "[policy] llc_floor_ratio.",
        minimum=0.01,
        maximum=1.0,
        formerly="partition_llc_ratio",
    )
    partition_bandwidth_ratio: float = option(
        0.5,
        "Share of the memory bandwidth that remains for an aggressor that overloads a memory "
        "controller, if the hardware can limit the bandwidth (resctrl). It is never less than "
        "[policy] membw_floor_ratio.",
        minimum=0.01,
        maximum=1.0,
        formerly="partition_bandwidth_ratio",
    )


@dataclass(frozen=True, slots=True)
class CapHistory:
    """What `vp` remembers of the caps that it has set, and of its looks at who needs memory."""

    busiest_cores: Mapping[str, float] = field(default_factory=dict)
    """By capped guest: the most CPU that one vCPU of it used lately, before the first step."""
    raised_at_s: Mapping[str, float] = field(default_factory=dict)
    """By guest: when a cap of it was last raised or removed."""
    looked_at_s: float = -math.inf
    """When it last found no State-8 VPs to separate and no memory to bring home."""
