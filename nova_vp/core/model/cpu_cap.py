# SPDX-License-Identifier: Apache-2.0
"""CPU quotas as shares of what Nova gave, and one step down: a tenth, never below the floor.

The thesis (2.1.3, 2.2) caps an interfering VP by 10 % per action where nothing can be moved.
"""

from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Quota

CAP_STEP = 0.1


def quota_of(own: Quota, ratio: float) -> Quota:
    """`ratio` of what Nova gave; all of it is no cap."""
    if ratio >= 1.0:
        return own
    return Quota(round(own.cores * ratio * own.period_us), own.period_us)


def next_lower_quota(
    guest: Guest, own: Quota, busiest_cores: float, busiest_at_first: float
) -> Quota | None:
    """One step down, or None: at its floor, or its flavor forbids caps. Who uses less than it was
    given would not feel a tenth less of that: the step is one of what its busiest vCPU used at
    most lately, since the quota is each vCPU's.

    `own`: what Nova gave it. `busiest_at_first`: of its busiest vCPU before the first step.
    """
    if guest.cap_floor_ratio is None:
        return None
    ratio = guest.quota.cores / own.cores
    used_ratio = busiest_cores / own.cores
    at_first = min(busiest_at_first / own.cores, 1.0)
    lower = round(min(ratio - CAP_STEP * at_first, used_ratio * (1 - CAP_STEP)), 6)
    if lower < guest.cap_floor_ratio < round(min(ratio, used_ratio), 3):
        lower = guest.cap_floor_ratio
    return quota_of(own, lower) if lower >= guest.cap_floor_ratio else None


def loss_ratio(quota: Quota, busiest_at_first: float) -> float:
    """What a cap takes from a guest's busiest vCPU in all its steps, of the CPU that it used before
    the first: the others lose less, or nothing."""
    return 1 - quota.cores / busiest_at_first if busiest_at_first else 0.0
