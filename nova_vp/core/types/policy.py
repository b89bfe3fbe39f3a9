# SPDX-License-Identifier: Apache-2.0
"""What the operator allows and the numbers that the core decides by."""

import enum
from dataclasses import dataclass


class Mode(enum.Enum):
    """What the operator lets the agent do on this host."""

    OBSERVE = "observe"
    ADVISE = "advise"
    ENFORCE = "enforce"


def tightest(mode: Mode, *others: Mode) -> Mode:
    """The one that allows least."""
    return min((mode, *others), key=tuple(Mode).index)


class Homing(enum.Enum):
    """In which modes a VP gets one LLC domain when it arrives."""

    NEVER = "never"
    ENFORCE = "enforce"
    ALWAYS = "always"


class Controller(enum.Enum):
    """Who may want something of a guest, besides initial placement."""

    VP = "vp"
    """Mitigation of interference (thesis chapter 2)."""
    REARRANGE = "rearrange"
    """Better places before anybody's state changes (thesis 2.3.1)."""
    MERLIN = "merlin"
    """Elastic demands for CPU (thesis chapter 3)."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The operator's numbers. Defaults are written once, here; `nova_vp/conf/policy.py` makes
    options of them."""

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
    move_hold_s: float = 10.0
    moves_per_minute: int = 6
    home_on_arrival: Homing = Homing.ENFORCE
    cpi_rise_ratio: float = 0.1
    hot_node_by_mpki: bool = False
    hot_node_mpki: float = 100.0
    least_gain_ratio: float = 0.03
    most_hurt_ratio: float = 0.05
    felt_loss_ratio: float = 0.03
    noise_ratio: float = 0.02
    settle_samples: int = 5
    rearrange_after_s: float = 10.0
    cap_probe_s: float = 60.0
    memory_move_price_ratio: float = 0.15
    memory_pace_kib_per_s: float = 524288.0
    phased_pace_ratio: float = 0.25
    partition_llc_ratio: float = 0.25
    partition_bandwidth_ratio: float = 0.5
    escalate_after_s: float = 30.0
    controllers: frozenset[Controller] = frozenset({Controller.VP, Controller.REARRANGE})
    demand_sensitivity: float = 0.8
    epoch_s: float = 10.0
    repercussion_s: float = 3.0
    epsilon: float = 0.1
