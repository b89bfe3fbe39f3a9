# SPDX-License-Identifier: Apache-2.0
"""One run as people see it: everybody's speed, what was changed, and why."""

import pytest

from vp_sim.app_profiles import ROWS
from vp_sim.mixes import MIXES, Member, Memory, Mix
from vp_sim.policies import find
from vp_sim.run import world_of
from vp_sim.timeline import record

CHANGES = ("CPUs ", "memory ")
"""How what an action did to a guest begins."""


def timeline_of(mix: Mix, policy: str, seed: int = 0):
    return record(world_of(mix), find((policy,))[policy], seed)


def test_who_is_alone_keeps_its_pace_also_where_a_phase_ends():
    alone = Mix("alone", (Member("web-1", ROWS["word-count"]),), memory=Memory.LOCAL)
    [speed] = timeline_of(alone, "baseline").speed.values()
    assert len(ROWS["word-count"].phases) > 1
    assert (min(speed), max(speed)) == pytest.approx((1.0, 1.0), rel=0.01)


@pytest.mark.needs_controllers("initial_placement", "rebalance", "vp")
def test_what_the_core_found_and_why_it_acted_stands_among_the_changes():
    events = timeline_of(MIXES["stream-spec"], "vp", seed=1).events
    told = [(event.at_s, event.label, event.what) for event in events]
    assert [at_s for at_s, _, _ in told] == sorted(at_s for at_s, _, _ in told)
    acted = [at_s for at_s, _, what in told if what.startswith("reason: ")]
    assert acted
    changed = {at_s for at_s, _, what in told if what.startswith(CHANGES)}
    assert {at_s + 1 for at_s in acted} <= changed
    degraded = [label for _, label, what in told if what.startswith("degraded: ")]
    assert degraded
    assert {label for _, label, what in told if what == "no longer degraded"} <= {*degraded}


def test_a_policy_that_is_no_core_gives_no_reasons():
    events = timeline_of(MIXES["stream-spec"], "llc", seed=1).events
    assert any(event.at_s > 1 for event in events)
    reasons = ("reason: ", "degraded: ", "no longer degraded", "no action on this host")
    assert not [event for event in events if event.what.startswith(reasons)]
