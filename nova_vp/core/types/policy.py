# SPDX-License-Identifier: Apache-2.0
"""What the operator allows and the numbers that the core decides by."""

import enum
from dataclasses import dataclass
from typing import Any, NamedTuple

from nova_vp.core.types.island import Island


class Mode(enum.Enum):
    """What the operator lets the agent do on this host."""

    OBSERVE = "observe"
    ADVISE = "advise"
    ENFORCE = "enforce"


def tightest(mode: Mode, *others: Mode) -> Mode:
    """The one that allows least."""
    return min((mode, *others), key=tuple(Mode).index)


MODE_OF_LATER_RELEASE = tightest(*Mode)
"""What a mode counts as that this release does not know. It may be tighter than all that this one
knows, and who set it must not get more than asked for."""


def known_mode(name: str) -> Mode:
    """Of a stored name, which a later release may have written."""
    try:
        return Mode(name)
    except ValueError:
        return MODE_OF_LATER_RELEASE


class Enabled(NamedTuple):
    """One controller, with the operator's settings for it."""

    controller: Any
    """A `nova_vp.core.controllers.base.Controller`, which the types know nothing of."""
    settings: Any
    """Of the controller's own kind."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The operator's numbers that belong to no controller alone. Defaults are written once, here;
    `nova_vp/conf/policy.py` makes options of them."""

    dwell_samples: int = 2
    hysteresis_ratio: float = 0.1
    l2_hold_ratio: float = 0.2
    min_instructions_per_s: float = 1e6
    min_references_pki: float = 1.0
    sensitive_hits_pki: float = 10.0
    min_running_ratio: float = 0.8
    max_sample_age_s: float = 5.0
    guilty_rise_ratio: float = 0.5
    guilty_min_share_ratio: float = 0.1
    miss_penalty_cycles: float = 160.0
    strict_max_hurt_ratio: float = 0.05
    effect_window_s: float = 10.0
    reverse_hold_s: float = 900.0
    rejected_hold_s: float = 3600.0
    move_hold_s: float = 10.0
    moves_per_minute: int = 6
    actions_per_victim_hour: int = 12
    actions_per_project_hour: int = 36
    actions_without_gain: int = 3
    cpi_rise_ratio: float = 0.1
    cpu_waiting_ratio: float = 0.05
    hot_node_by_mpki: bool = False
    hot_node_mpki: float = 100.0
    least_gain_ratio: float = 0.03
    most_hurt_ratio: float = 0.05
    noise_ratio: float = 0.02
    settle_samples: int = 5
    memory_move_price_ratio: float = 0.1
    memory_pace_kib_per_s: float = 524288.0
    phased_pace_ratio: float = 0.25
    escalate_after_s: float = 30.0
    llc_floor_ratio: float = 0.05
    membw_floor_ratio: float = 0.1
    probation_s: float = 60.0
    islands: tuple[Island, ...] = ()
    """Empty: one of kind `fair` for each LLC domain, that servers may span."""
    host_cap_cores: float | None = None
    """That all servers together may use; None: all."""
    controllers: tuple[Enabled, ...] = ()
    """In the order of their names; what each may do is in its own settings."""
