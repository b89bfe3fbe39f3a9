# SPDX-License-Identifier: Apache-2.0
"""Merlin in closed loop: more CPU for who uses all it has, by the cheapest way that hurts least.

A worker has two vCPUs on one CPU and uses all of it. Who minds it is each test's own rule.
"""

from dataclasses import replace
from itertools import pairwise

import pytest

from nova_vp.core.controllers.merlin.rungs import DecisionContext, local_cpus
from nova_vp.core.model.candidate import has_room, unit_of, within_allotment
from nova_vp.core.model.host import build_host
from nova_vp.core.model.what_if import WhatIfModel
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Controller, Homing, Policy
from nova_vp.core.types.reason import Reason, Rejection, Rung
from nova_vp.core.types.want import Setting
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

POLICY = Policy(home_on_arrival=Homing.NEVER, controllers=frozenset({Controller.MERLIN}))
WORKER = Rates(mips=100, l2_mpki=0.5, mpki=0.1, cpi=1.0, cores=2.0)
"""A pug: it does not care where its memory is."""
BUSY = replace(COMPUTE, cores=0.9)


def a_worker(*nodes: int, cpus: int = 3, policy: Policy = POLICY, **worker) -> Host:
    host = Host(nodes_of(*nodes, cpus=cpus), policy, knobs=ALL_KNOBS)
    host.add("worker", WORKER, **{"cpus": {0}, "vcpus": 2, "node": 0, **worker})
    return host


STORE = Rates(mips=40, l2_mpki=40.0, mpki=14.0, cpi=2.0, cores=0.5)
"""State 4: it minds its neighbours, and must not leave its memory."""
STORE_HURT = replace(STORE, mips=20, mpki=30.0, cpi=4.0)
STORMY_WORKER = replace(WORKER, l2_mpki=70.0, mpki=1.9)


def with_store(host: Host, cpus: set[int], **fields) -> None:
    """The store is hurt for as long as the worker has more than one CPU in its LLC."""

    def run(host: Host) -> None:
        beside = next(d.cpus for d in host.topology.domains if d.cpus & host.placement("store"))
        many = len(host.placement("worker") & beside) > 1
        host.run("worker", STORMY_WORKER if many else WORKER)
        host.run("store", STORE_HURT if many else STORE)

    host.add("store", STORE, cpus=cpus, **{"node": 0, **fields})
    host.run("worker", replace(WORKER, cores=0.5))
    host.ticks(6)
    host.rule = run


@pytest.mark.parametrize(("cores", "gets"), [(0.79, 1), (0.85, 2)])
def test_who_uses_more_than_four_fifths_of_its_cpu_gets_a_local_one(cores, gets):
    host = a_worker(0, 1)
    host.run("worker", replace(WORKER, cores=cores))
    host.ticks(5)
    assert len(host.placement("worker")) == gets
    assert host.placement("worker") <= {0, 1, 2}


def test_the_demand_is_told_with_its_numbers():
    host = a_worker(0, 1)
    action = host.until(Reason.MORE_CPU)
    assert action.rung is Rung.LOCAL_CPU
    assert action.on_behalf_of == uuid_of("worker")
    assert action.evidence["cpu_sensitivity"] > 0.8


def test_one_cpu_at_a_time_once_in_an_epoch():
    host = a_worker(0, cpus=4, vcpus=4, policy=replace(POLICY, epoch_s=15.0))
    host.run("worker", replace(WORKER, cores=4.0))
    sizes = []
    for _ in range(50):
        host.tick()
        sizes.append(len(host.placement("worker")))
    first = [sizes.index(size) for size in (2, 3, 4)]
    assert [later - earlier for earlier, later in pairwise(first)] == [15, 15]


def test_who_has_as_many_cpus_as_vcpus_asks_for_no_more():
    host = a_worker(0, cpus=4)
    host.ticks(40)
    assert len(host.placement("worker")) == 2


@pytest.mark.parametrize("unmanaged", [Unmanaged.OPTED_OUT])
def test_an_unmanaged_guest_gets_nothing(unmanaged):
    host = a_worker(0, unmanaged=unmanaged)
    assert not any(d.actions for d in host.ticks(20))


def test_without_a_free_cpu_at_home_it_takes_a_remote_one():
    host = a_worker(0, 1)
    host.add("filler", replace(BUSY, cores=1.9), cpus={1, 2}, vcpus=2, node=0)
    action = host.until(Reason.MORE_CPU)
    assert action.rung is Rung.REMOTE_CPU
    assert len(host.placement("worker") & {3, 4, 5}) == 1
    assert host.nodes("worker") == {0}, "its memory stays: it does not mind"


def test_who_is_hurt_by_it_joins_the_set_and_the_insensitive_one_goes_elsewhere():
    """Thesis 3.2.3: the local CPU hurts the store, so the worker goes to the other node."""
    host = a_worker(0, 1)
    with_store(host, {1})
    first = host.until(Reason.MORE_CPU)
    assert first.rung is Rung.LOCAL_CPU
    second = host.until(Reason.MORE_CPU)
    assert second.decided_s - first.decided_s == pytest.approx(POLICY.epoch_s, abs=1)
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
    host.until(Reason.MORE_CPU)
    host.ticks(6)
    host.rule = rule
    decisions = host.ticks(3)
    assert any(d.detections for d in decisions)
    assert not host.state.demands[uuid_of("worker")].degraded


def with_a_full_node_elsewhere(far: Rates) -> Host:
    host = a_worker(0, 1)
    with_store(host, {1})
    host.add("far", replace(far, cores=1.2), cpus={3, 4}, vcpus=2, node=1)
    host.add("full", replace(BUSY, cores=0.9), cpus={5}, node=1)
    host.add("beside", replace(BUSY, cores=0.1), cpus={1}, node=0)
    host.until(Reason.MORE_CPU)
    return host


def test_a_guest_that_minds_where_its_memory_is_changes_no_places():
    host = with_a_full_node_elsewhere(STORE)
    assert Rung.SWAP not in {a.rung for d in host.ticks(30) for a in d.actions}


def test_nobody_changes_places_back_within_the_hold():
    host = with_a_full_node_elsewhere(BUSY)
    far = uuid_of("far")
    left = host.state.vps[far]._replace(left=((frozenset({0, 2}), host.now_s),))
    host.state = replace(host.state, vps={**host.state.vps, far: left})
    assert Rung.SWAP not in {a.rung for d in host.ticks(30) for a in d.actions}


def test_where_no_cpu_is_free_an_insensitive_guest_elsewhere_changes_places():
    host = with_a_full_node_elsewhere(BUSY)
    action = host.until(Reason.MORE_CPU)
    assert action.rung is Rung.SWAP
    assert uuid_of("worker") in {c.guest_uuid for c in action.changes}
    assert all(c.knob is Knob.PLACEMENT for c in action.changes)
    assert not host.share_a_cache("worker", "store")


def test_who_asks_alone_changes_places_with_nobody():
    """It would bring no CPU, in no epoch."""
    host = a_worker(0, 1)
    for name, cpus in (("near", {1, 2}), ("full", {4, 5})):
        host.add(name, replace(BUSY, cores=1.9), cpus=cpus, vcpus=2, node=0)
    host.add("far", BUSY, cpus={3}, node=1)
    assert not any(d.actions for d in host.ticks(40))


@pytest.mark.parametrize(("age_s", "cpu"), [(899, 2), (900, 1)])
def test_it_goes_back_to_no_cpu_that_it_left_within_the_hold(age_s, cpu):
    host = a_worker(0)
    host.run("worker", replace(WORKER, cores=0.5))
    host.ticks(6)
    worker, now_s = uuid_of("worker"), host.now_s
    left = host.state.vps[worker]._replace(left=((frozenset({1}), now_s - age_s),))
    seen = build_host(host.picture(), {worker: left}, host.state.undisturbed)
    outlook = WhatIfModel(seen, host.limits, POLICY)
    arbiter = DecisionContext(seen, outlook, POLICY, {}, frozenset(), now_s)
    [grown] = local_cpus(arbiter, seen.guests[worker])
    assert grown.settings[0].value == (frozenset({0, cpu}),)


def test_what_is_left_for_another_place_is_remembered():
    host = a_worker(0, 1)
    with_store(host, {1})
    first, second = (host.until(Reason.MORE_CPU) for _ in range(2))
    assert first.from_cpus < first.cpus
    [(left, _)] = host.state.vps[uuid_of("worker")].left
    assert left == second.from_cpus - second.cpus != set()


def test_who_changes_places_gets_no_cpu_that_another_one_gets_at_once():
    host = Host(nodes_of(0, 1, cpus=4), POLICY, knobs=ALL_KNOBS)
    for name, cpus, node in (("one", {0}, 0), ("other", {4}, 1), ("bound", {5}, 1)):
        host.add(name, replace(BUSY, cores=0.5), cpus=cpus, vcpus=2, node=node)
    host.ticks(6)
    seen = build_host(host.picture(), host.state.vps, host.state.undisturbed)
    settings = [Setting(uuid_of("one"), Knob.PLACEMENT, (frozenset({4, 5, 6, 7}),))]
    [narrowed] = within_allotment(seen, settings, taken={6})
    assert narrowed.value == (frozenset({7}),)
    one, there = unit_of(seen, uuid_of("one")), seen.domains_of[uuid_of("other")]
    assert has_room(seen, there, one, taken={6})
    assert not has_room(seen, there, one, taken={6, 7})


def sensitive_pair(**store) -> Host:
    """Nobody in the set may leave its memory."""
    host = Host(nodes_of(0, 1, cpus=4), POLICY, knobs=ALL_KNOBS)
    alone = replace(STORE, cores=2.0)
    host.add("worker", replace(alone, cores=0.5), cpus={0}, vcpus=2, node=0, memory_kib=400_000)
    host.add("store", STORE, cpus={1}, node=0, **store)
    host.ticks(6)

    def run(host: Host) -> None:
        many = host.share_a_cache("worker", "store") and len(host.placement("worker")) > 1
        host.run("worker", replace(alone, l2_mpki=70.0, mpki=30.0) if many else alone)
        host.run("store", STORE_HURT if many else STORE)

    host.rule = run
    return host


@pytest.mark.parametrize(("store_kib", "goes"), [(100_000, "store"), (900_000, "worker")])
def test_with_memory_the_smaller_footprint_goes(store_kib, goes):
    host = sensitive_pair(memory_kib=store_kib)
    host.until(Reason.MORE_CPU)
    action = host.until(Reason.MORE_CPU)
    assert (action.rung, action.guest_uuid) == (Rung.MOVE_WITH_MEMORY, uuid_of(goes))
    assert host.nodes(goes) == {1}
    assert host.ticks(20)[-1].detections == ()


def test_cpu_that_is_not_used_any_more_is_given_back_to_who_asks():
    host = a_worker(0, cpus=3, vcpus=3)
    host.run("worker", replace(WORKER, cores=3.0))
    host.ticks(20)
    assert host.placement("worker") == {0, 1, 2}
    host.run("worker", replace(WORKER, cores=0.9))
    assert not any(d.actions for d in host.ticks(30)), "while nobody else wants it"
    host.add("asker", WORKER, cpus={0}, vcpus=2, node=0)
    host.until(Reason.LESS_CPU)
    assert host.placement("worker") == {0, 1}
    assert host.until(Reason.MORE_CPU).guest_uuid == uuid_of("asker")
    assert host.placement("asker") == {0, 2}


def test_nobody_who_is_not_ours_gives_back():
    host = a_worker(0, cpus=3, vcpus=3)
    host.run("worker", replace(WORKER, cores=3.0))
    host.ticks(20)
    host.run("worker", replace(WORKER, cores=0.9))
    host.change("worker", unmanaged=Unmanaged.OPTED_OUT)
    host.add("asker", WORKER, cpus={0}, vcpus=2, node=0)
    assert not any(d.actions for d in host.ticks(30))


def test_a_guest_that_left_is_forgotten():
    host = a_worker(0, 1)
    host.until(Reason.MORE_CPU)
    host.leave("worker")
    host.ticks(2)
    assert host.state.demands == {}


@pytest.mark.parametrize(
    ("priority", "rung"), [(0.1, Rung.LOCAL_CPU), (1.0, Rung.LOCAL_CPU), (50.0, Rung.REMOTE_CPU)]
)
def test_priority_decides_who_pays(priority, rung):
    """A storm that grows at home costs the store some; how much that counts is its weight."""
    host = a_worker(0, 1)
    storm = replace(WORKER, mips=20, l2_mpki=70.0, mpki=60.0, cpi=5.0)
    host.add("store", STORE_HURT, cpus={1}, node=0, priority=priority)
    host.run("worker", replace(storm, cores=0.5))
    host.ticks(6)
    host.run("worker", storm)
    assert host.until(Reason.MORE_CPU).rung is rung


def test_a_reconfiguration_that_makes_degradations_more_unequal_is_refused():
    """The store is hurt and weighs more, but it could only go where a worse storm is."""
    host = Host(nodes_of(0, 1, cpus=3), POLICY, knobs=ALL_KNOBS)
    worker = replace(STORE, cores=2.0)
    host.add("worker", replace(worker, cores=0.5), cpus={0}, vcpus=2, node=0)
    host.add("store", CHASE, cpus={1}, node=0, priority=5.0)
    host.add("storm", replace(STREAM, mips=3000, cores=1.9), cpus={3, 4}, vcpus=2, node=1)
    host.ticks(6)

    def run(host: Host) -> None:
        many = len(host.placement("worker")) > 1
        host.run("worker", replace(worker, l2_mpki=70.0, mpki=30.0) if many else worker)
        host.run("store", CHASE_HURT if many else CHASE)

    host.rule = run
    host.until(Reason.MORE_CPU)
    decisions = host.ticks(20)
    assert not any(d.actions for d in decisions)
    assert Rejection.UNFAIR in {r.rejection for d in decisions for r in d.refused}


def test_nobody_changes_places_with_a_server_of_its_own_vp():
    host = a_worker(0, 1, group="shop")
    with_store(host, {1})
    host.add("far", replace(BUSY, cores=1.2), cpus={3, 4}, vcpus=2, node=1, group="shop")
    host.add("full", replace(BUSY, cores=0.9), cpus={5}, node=1, group="shop")
    host.until(Reason.MORE_CPU)
    assert Rung.SWAP not in {a.rung for d in host.ticks(30) for a in d.actions}


def test_who_runs_on_no_cpu_that_is_known_is_given_none():
    """A CPU came online after the topology was read."""
    host = a_worker(0, 1, cpus=2)
    host.change("worker", placement=frozenset({9}))
    assert not any(decision.actions for decision in host.ticks(5))
