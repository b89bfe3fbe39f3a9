# SPDX-License-Identifier: Apache-2.0
"""When what is granted has to wait: no way back within the hold, but for what is undone."""

from dataclasses import replace

import pytest

from nova_vp.core.pipeline.rate_limit import rate_limit
from nova_vp.core.types.claim import ClaimGroup, PredictedLoss, Setting
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.reason import INEFFECTIVE, Reason, Rejection
from nova_vp.core.types.state import CoreState, VpState
from tests.unit.core.wishful import MOVES, NOBODY, a_reason

UNVERIFIED = a_reason("places", 800)


def a_want(uuid: str, reason: Reason, cpus: set[int]) -> ClaimGroup:
    setting = Setting(uuid, Knob.PLACEMENT, (frozenset(cpus),))
    return ClaimGroup("vp", uuid, (setting,), (0,), reason, PredictedLoss(0.0, 0.0))


@pytest.mark.parametrize(
    ("reason", "cpus", "age_s", "why"),
    [
        (MOVES, {0}, 899, Rejection.REVERSE_MOVE),
        (MOVES, {0}, 900, None),
        (MOVES, {1}, 0, None),
        (INEFFECTIVE, {0}, 0, None),
        (UNVERIFIED, {0}, 0, None),
    ],
)
def test_nobody_goes_back_within_the_hold_but_by_undo(reason, cpus, age_s, why):
    vp = VpState("vm", left=((frozenset({0}), 1000.0),))
    state = CoreState(vps={"vm": vp})
    may, refused = rate_limit([a_want("vm", reason, cpus)], state, 1000.0 + age_s, NOBODY)
    assert [r.rejection for r in refused] == ([why] if why else [])
    assert len(may) == (why is None)


@pytest.mark.parametrize(
    ("to", "age_s", "why"),
    [
        (((0, 1.0),), 899, Rejection.REVERSE_MOVE),
        (((0, 0.5), (1, 0.5)), 0, Rejection.REVERSE_MOVE),
        (((0, 1.0),), 900, None),
        (((2, 1.0),), 0, None),
    ],
)
def test_no_memory_goes_back_within_the_hold(to, age_s, why):
    state = CoreState(vps={"vm": VpState("vm", left_nodes=((frozenset({0}), 1000.0),))})
    want = replace(a_want("vm", MOVES, set()), settings=(Setting("vm", Knob.MEMORY, to),))
    may, refused = rate_limit([want], state, 1000.0 + age_s, NOBODY)
    assert [r.rejection for r in refused] == ([why] if why else [])
    assert len(may) == (why is None)
