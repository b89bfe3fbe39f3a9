# SPDX-License-Identifier: Apache-2.0
"""Whether a server still does the work that it was measured at, by its L2 misses, which neighbours
do not change."""

from nova_vp.core.types.policy import Policy

NOISE_MPKI = 0.5
"""L2 misses per 1000 instructions: of who has next to none, a few more say nothing of its work."""


def l2_holds(before_l2_mpki: float, now_l2_mpki: float, policy: Policy) -> bool:
    """Both in L2 misses per 1000 instructions; thesis, section 2.1.3."""
    return abs(now_l2_mpki - before_l2_mpki) <= policy.l2_hold_ratio * before_l2_mpki


def is_same_work(before_l2_mpki: float, now_l2_mpki: float, policy: Policy) -> bool:
    """The same for numbers that are next to nothing."""
    is_noise = abs(now_l2_mpki - before_l2_mpki) <= NOISE_MPKI
    return is_noise or l2_holds(before_l2_mpki, now_l2_mpki, policy)
