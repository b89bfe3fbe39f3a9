# SPDX-License-Identifier: Apache-2.0
"""Where no CPU is free elsewhere, somebody changes places."""

from dataclasses import replace

from nova_vp.core.controllers.vp.declaration import SWAP
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.reason import INEFFECTIVE, Rejection, Rung
from tests.unit.core.build import (
    ALL_KNOBS,
    CHASE,
    CHASE_HURT,
    COMPUTE,
    STREAM,
    Host,
    Rates,
    nodes_of,
    uuid_of,
)
from tests.unit.core.controllers.vp.hosts import POLICY

FAR = Rates(mips=20, l2_mpki=6.0, mpki=5.0, cpi=3.0)
"""State 7: it must not leave its memory."""


def a_full_host(**fields) -> Host:
    """One CPU for each LLC, and on neither as much free as anybody uses."""
    host = Host(nodes_of(0, 1, cpus=1), POLICY, knobs=ALL_KNOBS)
    host.add("storm", replace(COMPUTE, cores=0.6), cpus={0}, node=0)
    host.add("victim", CHASE, cpus={0}, node=0)
    host.add("partner", replace(COMPUTE, cores=0.725), cpus={1}, node=1, **fields)
    host.ticks(6)

    def beside(host: Host) -> None:
        host.run("storm", replace(STREAM, cores=0.6))
        together = host.share_a_cache("victim", "storm")
        host.run("victim", CHASE_HURT if together else CHASE)

    host.rule = beside
    return host


def test_where_no_cpu_is_free_a_suspect_changes_places_with_who_minds_it_less():
    host = a_full_host()
    action = host.until(SWAP)
    assert action.rung is Rung.SWAP
    assert (host.placement("storm"), host.placement("partner")) == ({1}, {0})
    assert {c.guest_uuid for c in action.changes} == {uuid_of("storm"), uuid_of("partner")}
    assert host.ticks(20)[-1].detections == ()


def test_nobody_changes_places_with_a_guest_that_is_not_ours():
    host = a_full_host(unmanaged=Unmanaged.REALTIME)
    assert not any(d.actions for d in host.ticks(20))


def test_nobody_changes_places_with_a_server_of_its_own_vp():
    host = a_full_host(group="vp")
    host.change("storm", group="vp")
    changed = {c.guest_uuid for d in host.ticks(20) for a in d.actions for c in a.changes}
    assert not {uuid_of("storm"), uuid_of("partner")} <= changed


def test_nobody_changes_places_at_the_cost_of_a_third():
    """The victim weighs more, but another one would lose what it gets back."""
    host = a_full_host()
    host.change("victim", priority=10.0)
    host.add("resident", replace(CHASE, cores=0.1), cpus={1}, node=1)
    host.rule, rule = None, host.rule
    host.ticks(6)
    host.rule = rule
    decisions = host.ticks(10)
    assert not any(d.actions for d in decisions)
    assert (Rung.SWAP, Rejection.HURTS_OTHERS) in {
        (r.rung, r.rejection) for d in decisions for r in d.refused
    }


def test_a_swap_that_brings_too_little_is_not_made():
    """The partner is as loud as the storm."""
    host = a_full_host()
    rule = host.rule

    def run(host: Host) -> None:
        rule(host)
        host.run("partner", replace(STREAM, cores=0.725))

    host.rule = run
    host.ticks(1)
    decisions = host.ticks(10)
    assert not any(d.actions for d in decisions)
    assert (Rung.SWAP, Rejection.GAINS_TOO_LITTLE) in {
        (r.rung, r.rejection) for d in decisions for r in d.refused
    }


def test_a_swap_that_an_operator_rejected_is_told_as_rejected_and_not_proposed_again():
    host = a_full_host()
    host.mode = Mode.ADVISE
    [first] = host.ticks(2)[-1].proposals
    assert first.reason is SWAP
    host.rejected = {first.id: "rejected by me"}
    host.tick()
    host.rejected = {}
    decision = host.ticks(5)[-1]
    assert decision.proposals == ()
    assert (uuid_of("storm"), 1, Rejection.REJECTED) in swaps_refused(decision)


def test_a_swap_in_vain_is_told_as_ineffective_and_not_made_again_within_the_hold():
    """The victim changes places, since the storm may not move, and is degraded there too."""
    host = Host(nodes_of(0, 1, cpus=1), POLICY)
    for name, cpu in (("storm", 0), ("other", 1)):
        told = {"cpus": {cpu}, "unmanaged": Unmanaged.DEDICATED_CPUS}
        host.add(name, replace(COMPUTE, cores=0.6), **told)
    host.add("victim", CHASE, cpus={0})
    host.add("partner", COMPUTE, cpus={1})
    host.ticks(6)
    host.run("victim", CHASE_HURT)
    host.run("storm", replace(STREAM, cores=0.6))
    host.run("other", replace(STREAM, mips=2, cores=0.6))
    decisions = host.ticks(60)
    assert [a.reason for d in decisions for a in d.actions] == [SWAP, INEFFECTIVE]
    assert swaps_refused(decisions[-1]) == {(uuid_of("victim"), 1, Rejection.FAILED_BEFORE)}


def swaps_refused(decision: Decision) -> set[tuple[str, int, Rejection]]:
    """Who, where to, and why."""
    return {
        (one.guest_uuid, one.domain_id, one.rejection)
        for one in decision.refused
        if one.rung is Rung.SWAP
    }


def test_a_partner_that_needs_its_memory_takes_it_along():
    host = a_full_host()
    host.run("partner", replace(FAR, cores=0.725))
    host.rule, rule = None, host.rule
    host.ticks(8)
    host.rule = rule
    host.until(SWAP)
    assert (host.nodes("partner"), host.nodes("storm")) == ({0}, {1})
