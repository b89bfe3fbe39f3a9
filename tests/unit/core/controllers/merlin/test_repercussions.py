# SPDX-License-Identifier: Apache-2.0
"""Who is degraded by a reconfiguration joins the application set S, and it is done otherwise."""

from dataclasses import replace

import pytest

from nova_vp.core.controllers.merlin.declaration import MORE_CPU
from nova_vp.core.types.reason import Rejection, Rung
from tests.policies import settings_of
from tests.unit.core.build import (
    ALL_KNOBS,
    CHASE,
    CHASE_HURT,
    COMPUTE,
    STREAM,
    Host,
    nodes_of,
    uuid_of,
)
from tests.unit.core.controllers.merlin.hosts import (
    POLICY,
    STORE,
    STORE_HURT,
    WORKER,
    a_worker,
    with_store,
)


def test_who_is_hurt_by_it_joins_the_set_and_the_insensitive_one_goes_elsewhere():
    """Thesis 3.2.3: the local CPU hurts the store, so the worker goes to the other node."""
    host = a_worker(0, 1)
    with_store(host, {1})
    first = host.until(MORE_CPU)
    assert first.rung is Rung.LOCAL_CPU
    second = host.until(MORE_CPU)
    assert second.decided_s - first.decided_s == pytest.approx(
        settings_of(POLICY, "merlin").epoch_s, abs=1
    )
    assert second.evidence["application_set"] == 2
    assert (second.rung, second.guest_uuid) == (Rung.REMOTE_CPU, uuid_of("worker"))
    assert len(host.placement("worker")) == 2
    assert len(host.placement("worker") & {0, 1, 2}) <= 1, "the CPU that hurt was given back"
    assert (host.placement("store"), host.nodes("worker")) == ({1}, {0})
    assert host.ticks(20)[-1].detections == ()


def test_a_hurt_outside_the_repercussion_interval_is_not_its_doing():
    host = a_worker(0, 1)
    with_store(host, {1})
    rule, host.rule = host.rule, None
    host.run("worker", WORKER)
    host.until(MORE_CPU)
    host.ticks(6)
    host.rule = rule
    decisions = host.ticks(3)
    assert any(d.detections for d in decisions)
    assert not host.state.controllers["merlin"].met[uuid_of("worker")].degraded


@pytest.mark.parametrize(
    ("priority", "rung"),
    [(0.1, Rung.LOCAL_CPU), (1.0, Rung.LOCAL_CPU), (50.0, Rung.MOVE_WITH_MEMORY)],
)
def test_priority_decides_who_pays(priority, rung):
    """A storm that grows at home costs the store some; how much that counts is its weight."""
    host = a_worker(0, 1)
    storm = replace(WORKER, mips=20, l2_mpki=70.0, mpki=60.0, cpi=5.0)
    host.add("store", STORE_HURT, cpus={1}, node=0, priority=priority)
    host.run("worker", replace(storm, cores=0.5))
    host.ticks(6)
    host.run("worker", storm)
    assert host.until(MORE_CPU).rung is rung


def unequal(weight: float = 1.0, mips: float = 3000.0) -> Host:
    """The store is degraded and weighs more, but it could only go where a worse storm is."""
    host = Host(nodes_of(0, 1, cpus=3), POLICY, knobs=ALL_KNOBS)
    worker = replace(STORE, cores=2.0)
    busy = replace(worker, cores=0.5)
    host.add("worker", busy, cpus={0}, vcpus=2, node=0, priority=weight)
    host.add("store", CHASE, cpus={1}, node=0, priority=5 * weight)
    host.add("storm", replace(STREAM, mips=mips, cores=1.9), cpus={3, 4}, vcpus=2, node=1)
    host.ticks(6)

    def run(host: Host) -> None:
        many = len(host.placement("worker")) > 1
        host.run("worker", replace(worker, l2_mpki=70.0, mpki=30.0) if many else worker)
        host.run("store", CHASE_HURT if many else CHASE)

    host.rule = run
    host.until(MORE_CPU)
    return host


def test_a_reconfiguration_that_makes_degradations_more_unequal_is_refused():
    decisions = unequal().ticks(20)
    assert not any(d.actions for d in decisions)
    assert Rejection.UNFAIR in {r.rejection for d in decisions for r in d.refused}


def test_a_difference_of_degradations_below_epsilon_is_fair():
    """All weigh so little that no difference is large."""
    assert not any(d.actions for d in unequal(weight=1.0, mips=30.0).ticks(20))
    assert any(d.actions for d in unequal(weight=0.01, mips=30.0).ticks(20))


def test_who_gets_worse_elsewhere_was_not_degraded_by_it():
    host = a_worker(0, 1)
    host.run("worker", replace(WORKER, cores=0.5))
    for name, rates in (("stranger", CHASE), ("storm", COMPUTE)):
        host.add(name, rates, cpus={3}, node=1)
    host.ticks(6)
    host.run("worker", WORKER)
    host.until(MORE_CPU)
    host.run("storm", STREAM)
    host.run("stranger", CHASE_HURT)
    assert any(d.detections for d in host.ticks(4))
    assert not host.state.controllers["merlin"].met[uuid_of("worker")].degraded


def test_who_was_degraded_once_stays_in_the_set():
    """The second choice degrades nobody."""
    host = a_worker(0, 1)
    with_store(host, {1})
    [host.until(MORE_CPU) for _ in range(2)]
    assert host.state.controllers["merlin"].met[uuid_of("worker")].application_set == {
        uuid_of("store")
    }


def test_what_degraded_somebody_is_not_done_again():
    """Both weigh so little that another local CPU would be fair, too."""
    host = a_worker(0, 1, cpus=4, vcpus=4, priority=0.01)
    with_store(host, {1}, priority=0.01)
    first, second = (host.until(MORE_CPU) for _ in range(2))
    assert first.rung is Rung.LOCAL_CPU
    assert second.rung is not Rung.LOCAL_CPU


def test_what_costs_a_neighbour_more_than_it_brings_is_not_done():
    host = a_worker(0)
    storm = replace(WORKER, mips=20, l2_mpki=70.0, mpki=60.0, cpi=5.0)
    host.add("store", STORE_HURT, cpus={1}, node=0, priority=50.0)
    host.run("worker", replace(storm, cores=0.5))
    host.ticks(6)
    host.run("worker", storm)
    decisions = host.ticks(20)
    assert not any(d.actions for d in decisions)
    assert Rejection.HURTS_OTHERS in {r.rejection for d in decisions for r in d.refused}


def test_who_shares_only_a_memory_controller_is_a_co_runner():
    """Two LLC domains of one node; the worker may use only one of them."""
    host = a_worker(0, 0, allowed_cpus=frozenset({0, 1, 2}))
    host.run("worker", replace(WORKER, cores=0.5))
    for name, rates in (("beside", CHASE), ("storm", COMPUTE)):
        host.add(name, rates, cpus={3}, node=0)
    host.ticks(6)
    host.run("worker", WORKER)
    host.until(MORE_CPU)
    host.run("storm", STREAM)
    host.run("beside", CHASE_HURT)
    host.ticks(4)
    assert uuid_of("beside") in host.state.controllers["merlin"].met[uuid_of("worker")].degraded


def test_a_transition_to_a_higher_memory_factor_is_a_degradation():
    """Its L2 misses rise too, so that no interference is detected."""
    host = a_worker(0, 1)
    host.run("worker", replace(WORKER, cores=0.5))
    host.add("store", STORE, cpus={1}, node=0)
    host.ticks(6)
    host.run("worker", WORKER)
    host.until(MORE_CPU)
    host.run("store", replace(STORE, l2_mpki=80.0, mpki=60.0))
    assert not any(d.detections for d in host.ticks(4))
    degraded = host.state.controllers["merlin"].met[uuid_of("worker")].degraded
    assert degraded == {uuid_of("store")}


def test_a_co_runner_that_left_is_not_counted_as_degraded():
    host = a_worker(0, 1)
    with_store(host, {1})
    host.until(MORE_CPU)
    host.rule = None
    host.leave("store")
    host.ticks(3)
    assert not host.state.controllers["merlin"].met[uuid_of("worker")].degraded


def test_a_member_of_the_set_that_is_stopped_keeps_the_others_from_nothing():
    """Nothing was measured of it when the choice is made anew."""
    host = a_worker(0, 1)
    with_store(host, {1})
    host.until(MORE_CPU)
    host.ticks(5)
    assert host.state.controllers["merlin"].met[uuid_of("worker")].degraded
    host.change("store", is_running=False)
    second = host.until(MORE_CPU)
    assert second.evidence["application_set"] == 2
    assert second.rung is Rung.REMOTE_CPU


def a_hurt_without_remedy() -> Host:
    """One LLC, one node, no caps: what degrades the store cannot be done otherwise."""
    host = a_worker(0)
    with_store(host, {1})
    host.until(MORE_CPU)
    return host


def test_with_all_rungs_spent_the_cluster_is_told():
    decisions = a_hurt_without_remedy().ticks(60)
    assert not any(d.actions for d in decisions)
    assert [e.victim_uuid for e in decisions[-1].escalations] == [uuid_of("worker")]


def test_a_reassessment_is_over_after_three_epochs():
    host = a_hurt_without_remedy()
    host.ticks(12)
    assert host.state.controllers["merlin"].unmet_since_s
    host.rule = None
    host.run("store", STORE)
    assert not any(d.escalations for d in host.ticks(60))
    assert not host.state.controllers["merlin"].unmet_since_s
