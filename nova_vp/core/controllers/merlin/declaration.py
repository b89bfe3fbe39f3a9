# SPDX-License-Identifier: Apache-2.0
"""Reasons, settings and state of the controller `merlin`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from nova_vp.core.types.declaration import option
from nova_vp.core.types.reason import Reason

NAME = "merlin"

MORE_CPU = Reason(
    code="more-cpu",
    rank=600,
    label="it uses nearly all of its allotted CPU",
    own_label="this server was given more processor time",
    takes_away=True,
)
LESS_CPU = Reason(
    code="cpu-given-back",
    rank=601,
    label="it no longer needs its additional CPU",
    own_label="processor time that this server did not use was taken back",
    gives_back=True,
)
REASONS = (MORE_CPU, LESS_CPU)


@dataclass(frozen=True, slots=True)
class MerlinSettings:
    """The operator's numbers for `merlin` alone."""

    demand_sensitivity: float = option(
        0.8,
        "Share of its allotted CPU above which a server gets more CPU.",
        minimum=0.1,
        maximum=1.0,
        formerly="demand_sensitivity",
    )
    epoch_s: float = option(
        10.0,
        "Least number of seconds between two reconfigurations for one server.",
        minimum=1.0,
        formerly="epoch_s",
    )
    repercussion_s: float = option(
        3.0,
        "Seconds after a reconfiguration in which a neighbour that gets degraded counts as "
        "degraded by it.",
        minimum=1.0,
        formerly="repercussion_s",
    )
    epsilon: float = option(
        0.1,
        "Difference of the weighted degradations of two servers up to which a distribution "
        "counts as fair.",
        minimum=0.0,
        maximum=1.0,
        formerly="epsilon",
    )


@dataclass(frozen=True, slots=True)
class Demand:
    """What became of one VP's demand for CPU (Merlin, thesis 3.2.3)."""

    acted_at_s: float = -math.inf
    application_set: frozenset[str] = frozenset()
    """S: those that its allocations hurt so far."""
    corunners: Mapping[str, int] = field(default_factory=dict)
    """Who shared a cache, a memory controller or a CPU with it when the last one was made, and in
    which state."""
    degraded: frozenset[str] = frozenset()
    """Who got worse in its repercussion interval."""
    last: str = ""
    """The reconfiguration that was made last."""
    tried: frozenset[str] = frozenset()
    """Reconfigurations made for this demand that hurt somebody: not made again."""


@dataclass(frozen=True, slots=True)
class Demands:
    """By the guest that asked for more CPU."""

    met: Mapping[str, Demand] = field(default_factory=dict)
    """What was done for it last, and what came of that."""
    unmet_since_s: Mapping[str, float] = field(default_factory=dict)
    """Since when its demand finds no rung that could meet it."""
    corunners: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Who would share a cache, a memory controller or a CPU with what was asked for last, and the
    state that each was in."""
