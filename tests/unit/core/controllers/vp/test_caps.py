# SPDX-License-Identifier: Apache-2.0
"""CPU caps in closed loop: step by step down to the floor, renewed, raised again, and given back.

One LLC and one node, so that nobody can go anywhere.
"""

from dataclasses import replace
from itertools import pairwise

import pytest

from nova_vp.core.controllers.vp.declaration import CAP
from nova_vp.core.types.claim import Setting
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import NO_QUOTA, Knob, LlcShare, Quota
from nova_vp.core.types.policy import Mode, Policy
from nova_vp.core.types.reason import RELEASED, REVOKED, Rejection, Rung
from nova_vp.core.types.service_level import ServiceClass
from tests.policies import a_policy, settings_of, with_numbers
from tests.unit.core.build import (
    ALL_KNOBS,
    CHASE,
    CHASE_HURT,
    COMPUTE,
    STREAM,
    Host,
    Rates,
    nodes_of,
    slowed,
    uuid_of,
)
from tests.unit.core.controllers.vp.hosts import crowd, with_own
from tests.unit.core.hosts import trapped
from tests.unit.core.test_ordered import revoke
from tests.unit.core.wishful import Wishful

POLICY = a_policy(controllers=("vp",))
BUSY_STREAM = replace(STREAM, cores=1.0)


def hurts_above(cap_ratio: float):
    """The victim's misses come back once the stream gets more CPU than this. Above it, each
    tenth of CPU costs the victim a fifth."""

    def run(host: Host) -> None:
        host.run("stream", BUSY_STREAM)
        over = host.cap_ratio("stream") - cap_ratio
        hurt = slowed(CHASE_HURT, 0.5 + 2 * over)
        host.run("victim", hurt if over > 1e-6 and "stream" in names(host) else CHASE)

    return run


def names(host: Host) -> set[str]:
    return {guest.name for guest in host.guests.values()}


def a_crowd(well_at: float = 0.65, policy: Policy = POLICY, **stream) -> Host:
    host = Host(nodes_of(0, cpus=4), policy, knobs=ALL_KNOBS)
    host.add("victim", CHASE, cpus={0, 1, 2, 3}, node=0, priority=50.0)
    host.add("stream", COMPUTE, cpus={0, 1, 2, 3}, node=0, **{"cap_floor_ratio": 0.5, **stream})
    host.ticks(12)
    host.rule = hurts_above(well_at)
    return host


def caps_of(host: Host, seconds: int) -> list[float]:
    """Each cap that stood, in order."""
    seen = []
    for _ in range(seconds):
        host.tick()
        if not seen or seen[-1] != host.cap_ratio("stream"):
            seen.append(host.cap_ratio("stream"))
    return seen


def test_a_cap_goes_down_a_tenth_at_a_time_until_the_victim_is_well():
    assert caps_of(a_crowd(well_at=0.75), 50) == pytest.approx([1.0, 0.9, 0.8, 0.7])


def test_who_leaves_some_of_its_cpu_idle_is_capped_below_what_it_uses():
    host = a_crowd(cap_floor_ratio=0.3)

    def run(host: Host) -> None:
        host.run("stream", replace(STREAM, cores=0.6))
        host.run("victim", slowed(CHASE_HURT, 0.5 + 2 * max(host.cap_ratio("stream") - 0.4, 0.0)))

    host.rule = run
    assert caps_of(host, 30)[:4] == pytest.approx([1.0, 0.54, 0.48, 0.42])


@pytest.mark.parametrize("busy", [1, 2, 4])
def test_a_step_is_a_tenth_of_a_busy_vcpu_however_many_are_idle_beside_it(busy):
    """The quota is each vCPU's: a tenth of what all use, spread over all, would take more."""
    host = a_crowd(vcpus=4)
    physics = host.rule

    def run(host: Host) -> None:
        physics(host)
        host.run("stream", replace(STREAM, cores=float(busy), busy_vcpus=busy))

    host.rule = run
    assert caps_of(host, 40)[:4] == pytest.approx([1.0, 0.9, 0.8, 0.7])


def test_a_step_that_would_go_below_the_floor_ends_at_it():
    host = a_crowd(well_at=0.1, cap_floor_ratio=0.75)
    assert caps_of(host, 60)[:4] == pytest.approx([1.0, 0.9, 0.8, 0.75])
    assert min(caps_of(host, 60)) == pytest.approx(0.75)


def test_at_a_floor_that_is_no_whole_quota_no_step_is_left():
    host = a_crowd(well_at=0.0, cap_floor_ratio=0.4, quota=Quota(10_797, 100_000))
    decisions = host.ticks(150)
    caps = [c for d in decisions for a in d.actions if a.reason is CAP for c in a.changes]
    assert caps[-1].to == Quota(4_319, 100_000)
    assert all(change.to != change.now for change in caps)


def test_a_cap_stops_at_the_floor_of_the_flavor():
    host = a_crowd(well_at=0.1, cap_floor_ratio=0.8)
    assert caps_of(host, 60)[:3] == pytest.approx([1.0, 0.9, 0.8])
    assert min(caps_of(host, 60)) == pytest.approx(0.8)
    assert Rejection.AT_FLOOR in {r.rejection for r in host.tick().refused}


def test_who_has_no_floor_is_never_capped():
    host = a_crowd(cap_floor_ratio=None)
    assert caps_of(host, 40) == [1.0]
    refused = {(r.rejection, r.rung) for r in host.tick().refused}
    assert (Rejection.NEVER_CAPPED, Rung.CAP) in refused


def test_a_latency_critical_server_is_not_capped():
    host = a_crowd(service_class=ServiceClass.LATENCY_CRITICAL)
    assert caps_of(host, 40) == [1.0]
    assert Rejection.LATENCY_CRITICAL in {one.rejection for one in host.tick().refused}


def test_a_host_that_cannot_cap_does_not_want_to():
    host = a_crowd()
    host.knobs = frozenset({Knob.PLACEMENT})
    assert caps_of(host, 20) == [1.0]


def test_a_cap_that_the_host_refuses_is_tried_again_after_the_hold_and_said():
    host = a_crowd()
    host.refuse = True
    decisions = host.ticks(60)
    caps = [a.decided_s for d in decisions for a in d.actions if a.reason is CAP]
    assert len(caps) >= 3
    assert all(later - earlier >= POLICY.move_hold_s for earlier, later in pairwise(caps))
    assert Rejection.HOST_REFUSED in {r.rejection for r in decisions[-1].refused}
    assert [e.victim_uuid for e in decisions[-1].escalations] == [uuid_of("victim")]


def test_a_cap_that_would_cost_more_than_it_brings_is_refused_as_unfair():
    host = a_crowd(priority=1000.0)
    assert caps_of(host, 20) == [1.0]
    assert Rejection.UNFAIR in {r.rejection for r in host.tick().refused}


@pytest.mark.parametrize(("loss", "steps"), [(0.003, 0), (0.009, 2)])
def test_a_suspect_pays_by_its_caps_no_more_than_half_of_what_its_victim_loses(loss, steps):
    """Weighed by priority: the victim's is fifty times the suspect's here."""
    host = a_crowd(cap_floor_ratio=0.1)

    def run(host: Host) -> None:
        host.run("stream", BUSY_STREAM)
        host.run("victim", replace(CHASE_HURT, cpi=CHASE.cpi / (1 - loss)))

    host.rule = run
    host.policy = with_numbers(POLICY, noise_ratio=-1.0)  # Each step passes for a success.
    assert len(caps_of(host, 60)) == 1 + steps
    assert Rejection.UNFAIR in {r.rejection for r in host.tick().refused}


def test_a_quota_that_nova_set_is_what_a_cap_is_a_share_of():
    host = a_crowd(quota=Quota(80_000, 100_000))
    host.until(CAP)
    assert host.guest("stream").quota == Quota(72_000, 100_000)


def test_the_lease_is_renewed_for_as_long_as_the_agent_lives():
    host = a_crowd(policy=with_numbers(POLICY, cap_probe_s=600.0))
    host.ticks(60)
    assert host.cap_ratio("stream") == pytest.approx(0.6)
    decisions = host.ticks(200)
    assert not any(d.actions for d in decisions), "a renewal changes nothing"
    ends = [one.until_s for d in decisions for one in d.renewals]
    assert len(ends) >= 3
    assert all(later > earlier for earlier, later in pairwise(ends))
    assert host.cap_ratio("stream") == pytest.approx(0.6), "the cap stood all the time"


def test_a_cap_ends_with_its_lease_when_nobody_renews_it_and_is_forgotten():
    host = a_crowd()
    host.until(CAP)
    host.rule = None
    host.run("victim", CHASE)
    host.pass_time(61.0)
    assert host.guest("stream").quota == NO_QUOTA
    host.ticks(3)
    assert host.state.claims == {}


def test_a_cap_is_raised_step_by_step_once_the_victim_was_well_for_long():
    host = a_crowd()
    host.ticks(60)
    host.rule = None
    host.run("stream", replace(COMPUTE, cores=1.0))
    host.run("victim", CHASE)
    assert caps_of(host, 360) == pytest.approx([0.6, 0.7, 0.8, 0.9, 1.0])
    assert host.applied == {}


def test_what_hurts_again_is_capped_again_once_and_then_left_for_the_hold():
    host = a_crowd()
    caps = caps_of(host, 60 + 900)
    assert caps == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6, 0.7, 0.6])
    assert caps_of(host, 120) == pytest.approx([0.6, 0.7, 0.6]), "after the hold it is tried again"


@pytest.mark.parametrize("how", ["gone", "stopped"])
def test_without_its_victim_a_cap_is_lifted_at_once(how):
    host = a_crowd()
    host.until(CAP)
    if how == "gone":
        host.rule = None
        host.leave("victim")
    else:
        host.change("victim", is_running=False)
    assert host.until(RELEASED, seconds=3)
    assert host.guest("stream").quota == NO_QUOTA


def test_a_cap_is_raised_again_once_its_victim_is_idle():
    host = a_crowd(well_at=0.1)
    host.until(CAP)
    host.rule = None
    host.run("victim", Rates(mips=0.1))
    host.ticks(800)
    assert host.guest("stream").quota == NO_QUOTA


def test_a_guest_that_left_takes_its_cap_along():
    host = a_crowd()
    host.until(CAP)
    host.rule = None
    host.leave("stream")
    host.ticks(2)
    assert host.state.claims == {}


def test_who_was_opted_out_meanwhile_is_not_touched_any_more():
    host = a_crowd()
    host.until(CAP)
    host.change("stream", unmanaged=Unmanaged.OPTED_OUT)
    assert not any(d.actions for d in host.ticks(50))


def test_in_advise_a_cap_is_not_renewed():
    host = a_crowd(policy=with_numbers(POLICY, cap_probe_s=600.0))
    host.ticks(60)
    host.mode = Mode.ADVISE
    decisions = host.ticks(50)
    assert not any(d.actions for d in decisions)
    assert not any(d.renewals for d in decisions)


def test_the_steps_of_a_cap_are_undone_one_after_the_other():
    host = a_crowd(policy=with_numbers(POLICY, cap_probe_s=600.0))
    host.ticks(60)
    steps = [o.action for o in host.outcomes if o.action.reason is CAP]
    for step, left in zip(reversed(steps), (0.7, 0.8, 0.9, 1.0), strict=True):
        revoke(host, step.id)
        assert host.cap_ratio("stream") == pytest.approx(left)
    assert host.guest("stream").quota == NO_QUOTA
    assert host.state.claims == {}
    assert CAP not in {a.reason for d in host.ticks(60) for a in d.actions}


def test_what_leaves_nothing_of_ours_is_not_undone():
    host = a_crowd(well_at=0.85)
    host.until(CAP)
    host.rule = None
    host.run("victim", CHASE)
    host.run("stream", COMPUTE)
    lifted = host.until(RELEASED, seconds=600)
    assert REVOKED not in {a.reason for a in revoke(host, lifted.id).actions}
    assert host.guest("stream").quota == NO_QUOTA


def test_while_something_is_tried_nobody_is_told():
    host = trapped(POLICY, cap_floor_ratio=0.5)
    host.guests[uuid_of("victim")] = host.guest("victim")._replace(priority=50.0)

    def run(host: Host) -> None:
        host.run("victim", slowed(CHASE_HURT, host.cap_ratio("storm")))

    host.rule = run
    host.run("storm", replace(STREAM, cores=1.0))
    for decision in host.ticks(120):
        assert not decision.escalations or host.state.pending == ()
    assert host.cap_ratio("storm") < 1.0


def test_who_has_the_smallest_corner_of_the_cache_already_is_capped():
    smallest = LlcShare(settings_of(POLICY, "vp").partition_llc_ratio)
    host = crowd(cap_floor_ratio=0.2, llc=smallest)
    assert host.until(CAP).guest_uuid == uuid_of("storm")


def test_a_cap_waits_until_enough_was_seen_of_its_victim():
    host = a_crowd()
    onset_s = host.now_s + 2
    assert host.until(CAP).decided_s - onset_s >= POLICY.settle_samples - 1


def test_a_cap_that_brings_less_than_it_costs_is_not_set():
    """Victim and suspect weigh the same, and the victim would get back less than a tenth."""
    host = a_crowd()
    host.change("victim", priority=1.0)
    assert caps_of(host, 20) == [1.0]
    assert Rejection.UNFAIR in {r.rejection for r in host.tick().refused}


def test_in_a_cache_the_worst_suspect_is_capped_alone():
    host = a_crowd()
    host.add("second", COMPUTE, cpus={0, 1, 2, 3}, node=0, cap_floor_ratio=0.5)
    host.ticks(0)
    rule, host.rule = host.rule, None
    host.ticks(12)

    def run(host: Host) -> None:
        rule(host)
        host.run("second", replace(BUSY_STREAM, mips=20))

    host.rule = run
    assert {c.guest_uuid for c in host.until(CAP).changes} == {uuid_of("stream")}


def test_a_cap_stands_for_a_minute_before_it_is_raised():
    host = a_crowd()
    host.ticks(60)
    host.rule = None
    host.run("stream", replace(COMPUTE, cores=1.0))
    host.run("victim", CHASE)
    raised = [a.decided_s for d in host.ticks(300) for a in d.actions]
    assert len(raised) == 4
    probe_s = settings_of(POLICY, "vp").cap_probe_s
    assert {later - earlier for earlier, later in pairwise(raised)} == {probe_s}


def test_a_cap_is_not_raised_while_its_victim_is_degraded():
    host = a_crowd(well_at=0.1, cap_floor_ratio=0.8)
    host.ticks(60)
    assert caps_of(host, 300) == pytest.approx([0.8])


def relaxing_world(well_at: float) -> tuple[Host, Wishful]:
    """Another controller asks for one step more of the stream's CPU, all the time."""
    other = Wishful("other", 600)
    host = a_crowd(well_at=well_at, policy=with_own(other))
    host.ticks(60)
    raised = Quota(round((host.cap_ratio("stream") + 0.1) * 100_000), 100_000)
    other.wants(relaxes=[Setting(uuid_of("stream"), Knob.CPU_CAP, raised)])
    return host, other


def test_others_may_raise_a_cap_only_while_its_victim_is_not_degraded():
    host, other = relaxing_world(well_at=0.1)
    decision = host.tick()
    assert decision.detections
    assert host.cap_ratio("stream") == pytest.approx(0.5)
    host, other = relaxing_world(well_at=0.65)
    assert other.reason in {a.reason for a in host.tick().actions}
    assert host.cap_ratio("stream") == pytest.approx(0.7)


def test_nobody_is_asked_to_raise_a_cap_whose_victim_is_gone():
    host, other = relaxing_world(well_at=0.65)
    host.rule = None
    host.leave("victim")
    assert other.reason not in {a.reason for a in host.tick().actions}


def test_a_suspect_pays_for_its_steps_together():
    """The first one is worth it: of a tenth, weighed by priority, half of what the victim loses."""
    host = a_crowd(cap_floor_ratio=0.1)

    def run(host: Host) -> None:
        host.run("stream", BUSY_STREAM)
        loss = 0.006 + 0.22 * (host.cap_ratio("stream") - 0.9)
        host.run("victim", replace(CHASE_HURT, cpi=CHASE.cpi / (1 - loss)))

    host.rule = run
    assert caps_of(host, 60) == pytest.approx([1.0, 0.9])
    assert Rejection.UNFAIR in {r.rejection for r in host.tick().refused}


def test_the_next_cap_begins_by_what_is_used_then():
    """The cap before was for a storm that used all of its CPU, and ended long ago."""
    host = a_crowd(cap_floor_ratio=0.1, well_at=0.85)
    host.until(CAP)
    host.rule = None
    host.run("stream", replace(COMPUTE, cores=0.5))
    host.run("victim", CHASE)
    host.ticks(1200)
    assert host.guest("stream").quota == NO_QUOTA

    def run(host: Host) -> None:
        host.run("stream", replace(STREAM, cores=0.5))
        host.run("victim", slowed(CHASE_HURT, 0.5 + 2 * max(host.cap_ratio("stream") - 0.2, 0.0)))

    host.rule = run
    assert caps_of(host, 30)[:3] == pytest.approx([1.0, 0.45, 0.4], abs=0.02)
