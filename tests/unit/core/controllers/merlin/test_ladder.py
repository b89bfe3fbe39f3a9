# SPDX-License-Identifier: Apache-2.0
"""The ladder: a cap of its own, a CPU at home, a CPU elsewhere, changing places, memory too."""

from dataclasses import replace

import pytest

from nova_vp.core.controllers.base import View
from nova_vp.core.controllers.merlin.declaration import MORE_CPU
from nova_vp.core.controllers.merlin.rungs import DecisionContext, local_cpus, remote_cpus
from nova_vp.core.model.host import build_host
from nova_vp.core.types.claim import Setting
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Knob, Quota
from nova_vp.core.types.policy import Enabled
from nova_vp.core.types.reason import Rejection, Rung
from tests.policies import settings_of
from tests.unit.core.build import (
    ALL_KNOBS,
    CHASE,
    CHASE_HURT,
    COMPUTE,
    Host,
    Rates,
    hyper_threads,
    nodes_of,
    uuid_of,
)
from tests.unit.core.controllers.merlin.hosts import (
    BUSY,
    POLICY,
    STORE,
    WORKER,
    a_worker,
    sensitive_pair,
    with_a_full_node_elsewhere,
    with_store,
)
from tests.unit.core.wishful import Wishful


def a_capped_worker(*, is_granted: bool = True) -> Host:
    """It may use four tenths of each of its CPUs, and uses all of that."""
    capper = Wishful("capper", 400)
    capper.wish.grants = is_granted
    controllers = (Enabled(capper, capper.settings()), *POLICY.controllers)
    host = Host(nodes_of(0, cpus=2), replace(POLICY, controllers=controllers), knobs=ALL_KNOBS)
    worker = replace(WORKER, cores=0.8)
    host.add("worker", worker, cpus={0, 1}, vcpus=2, node=0, cap_floor_ratio=0.1)
    host.add("victim", COMPUTE, cpus={0, 1}, node=0)
    capper.wants(Setting(uuid_of("worker"), Knob.CPU_CAP, Quota(40_000, 100_000)))
    return host


def test_the_first_rung_is_its_own_cap():
    host = a_capped_worker()
    action = host.until(MORE_CPU)
    assert action.rung is Rung.RAISE_CAP
    assert host.cap_ratio("worker") == 0.5


def test_without_a_free_cpu_at_home_it_takes_a_remote_one():
    host = a_worker(0, 1)
    host.add("filler", replace(BUSY, cores=1.9), cpus={1, 2}, vcpus=2, node=0)
    action = host.until(MORE_CPU)
    assert action.rung is Rung.REMOTE_CPU
    assert host.placement("worker") == {3, 4}, "all its vCPUs go to the other node"
    assert host.nodes("worker") == {0}, "its memory stays: it does not mind"


MILD = Rates(mips=40, l2_mpki=5.0, mpki=2.5, cpi=2.0)
"""State 4: it must not leave its memory, although the model sees no great loss."""


def test_a_guest_that_minds_where_its_memory_is_changes_no_places():
    host = with_a_full_node_elsewhere(MILD)
    assert Rung.SWAP not in {a.rung for d in host.ticks(30) for a in d.actions}


def test_nobody_changes_places_back_within_the_hold():
    host = with_a_full_node_elsewhere(BUSY)
    far = uuid_of("far")
    left = host.state.vps[far]._replace(left=((frozenset({0, 2}), host.now_s),))
    host.state = replace(host.state, vps={**host.state.vps, far: left})
    assert Rung.SWAP not in {a.rung for d in host.ticks(30) for a in d.actions}


def test_where_no_cpu_is_free_an_insensitive_guest_elsewhere_changes_places():
    host = with_a_full_node_elsewhere(BUSY)
    action = host.until(MORE_CPU)
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
    picture = replace(host.picture(), at_s=now_s)
    view = View(seen, (), picture, host.state, POLICY)
    context = DecisionContext(view, settings_of(POLICY, "merlin"), frozenset())
    [grown] = local_cpus(context, seen.guests[worker])
    assert grown.settings[0].value == (frozenset({0, cpu}),)


def choosing(host: Host, *, left: frozenset[int] = frozenset()) -> DecisionContext:
    """What Merlin looks at for the worker, which left these CPUs just now."""
    worker = uuid_of("worker")
    vps = {**host.state.vps, worker: host.state.vps[worker]._replace(left=((left, host.now_s),))}
    seen = build_host(host.picture(), vps, host.state.undisturbed)
    view = View(seen, (), host.picture(), host.state, POLICY)
    return DecisionContext(view, settings_of(POLICY, "merlin"), frozenset())


def remote(context: DecisionContext) -> set[tuple[int, ...]]:
    worker = context.host.guests[uuid_of("worker")]
    return {one.domain_ids for one in remote_cpus(context, [worker], worker)}


def test_a_remote_cpu_is_none_of_its_home_node():
    """A quieter cache of its node is local: its memory is as near."""
    host = a_worker(0, 0, 1)
    host.ticks(6)
    assert remote(choosing(host)) == {(2,)}


def test_its_vcpus_go_to_no_node_that_they_left_within_the_hold():
    host = a_worker(0, 1, 1, cpus=2)
    host.change("worker", placement=frozenset({0, 1}))
    host.ticks(6)
    assert remote(choosing(host)) == {(1,), (2,)}
    assert remote(choosing(host, left=frozenset({2}))) == {(2,)}


def test_what_is_left_for_another_place_is_remembered():
    host = a_worker(0, 1)
    with_store(host, {1})
    first, second = (host.until(MORE_CPU) for _ in range(2))
    assert first.from_cpus < first.cpus
    [(left, _)] = host.state.vps[uuid_of("worker")].left
    assert left == second.from_cpus - second.cpus != set()


@pytest.mark.parametrize(("store_kib", "goes"), [(100_000, "store"), (900_000, "worker")])
def test_with_memory_the_smaller_footprint_goes(store_kib, goes):
    host = sensitive_pair(memory_kib=store_kib)
    host.until(MORE_CPU)
    action = host.until(MORE_CPU)
    assert (action.rung, action.guest_uuid) == (Rung.MOVE_WITH_MEMORY, uuid_of(goes))
    assert host.nodes(goes) == {1}
    assert host.ticks(20)[-1].detections == ()


def test_nobody_changes_places_with_a_server_of_its_own_vp():
    host = a_worker(0, 1, group="shop")
    with_store(host, {1})
    host.add("far", replace(BUSY, cores=1.2), cpus={3, 4}, vcpus=2, node=1, group="shop")
    host.add("full", replace(BUSY, cores=0.9), cpus={5}, node=1, group="shop")
    host.until(MORE_CPU)
    assert Rung.SWAP not in {a.rung for d in host.ticks(30) for a in d.actions}


def test_of_two_local_cpus_merlin_takes_the_one_that_hurts_less():
    host = Host(nodes_of(0, 0), POLICY, knobs=ALL_KNOBS)
    storm = Rates(mips=20, l2_mpki=70.0, mpki=60.0, cpi=5.0, cores=0.5)
    host.add("worker", storm, cpus={0}, vcpus=2, node=0)
    host.add("store", replace(STORE, mips=20, mpki=30.0, cpi=4.0, cores=0.1), cpus={1}, node=0)
    host.ticks(6)
    host.run("worker", replace(storm, cores=2.0))
    action = host.until(MORE_CPU)
    assert host.placement("worker") == {0, 2}
    assert Rejection.NOT_BEST in {r.rejection for r in action.rejected}


def test_a_hurt_guest_that_is_not_ours_stays_and_the_asker_goes_with_its_memory():
    host = Host(nodes_of(0, 1, cpus=4), POLICY, knobs=ALL_KNOBS)
    alone = replace(STORE, cores=2.0)
    host.add("worker", replace(alone, cores=0.5), cpus={0}, vcpus=2, node=0, memory_kib=400_000)
    host.add("store", STORE, cpus={1}, node=0, unmanaged=Unmanaged.OPTED_OUT)
    host.ticks(6)

    def run(host: Host) -> None:
        many = host.share_a_cache("worker", "store") and len(host.placement("worker")) > 1
        host.run("worker", replace(alone, l2_mpki=70.0, mpki=30.0) if many else alone)
        host.run("store", replace(STORE, mips=20, mpki=30.0, cpi=4.0) if many else STORE)

    host.rule = run
    host.until(MORE_CPU)
    action = host.until(MORE_CPU)
    assert (action.rung, action.guest_uuid) == (Rung.MOVE_WITH_MEMORY, uuid_of("worker"))
    assert Kind.CACHE not in {d.kind for d in host.ticks(20)[-1].detections}


def test_its_cap_is_raised_before_it_gets_another_cpu():
    host = a_capped_worker()
    host.change("worker", placement=frozenset({0}))
    host.run("worker", replace(WORKER, cores=0.4))
    assert host.until(MORE_CPU).rung is Rung.RAISE_CAP


def test_where_its_cap_must_stand_it_gets_another_cpu():
    host = a_capped_worker(is_granted=False)
    host.change("worker", placement=frozenset({0}))
    host.run("worker", replace(WORKER, cores=0.4))
    assert host.until(MORE_CPU).rung is Rung.LOCAL_CPU
    assert host.cap_ratio("worker") == 0.4


def test_home_is_where_most_of_its_vcpus_are():
    host = Host(nodes_of(0, 1, cpus=4), POLICY, knobs=ALL_KNOBS)
    host.add("worker", WORKER, cpus={0, 4, 5}, vcpus=4, node=0)
    host.run("worker", replace(WORKER, cores=4.0))
    action = host.until(MORE_CPU)
    assert action.rung is Rung.LOCAL_CPU
    assert action.cpus - action.from_cpus <= {6, 7}


def test_a_member_of_the_set_that_minds_no_distance_goes_elsewhere_whole():
    """The asker must not leave its memory."""
    host = Host(nodes_of(0, 1, cpus=4), POLICY, knobs=ALL_KNOBS)
    alone = replace(STORE, cores=2.0)
    host.add("worker", replace(alone, cores=0.5), cpus={0}, vcpus=2, node=0)
    host.add("chase", CHASE, cpus={1}, node=0)
    host.ticks(6)

    def run(host: Host) -> None:
        many = host.share_a_cache("worker", "chase") and len(host.placement("worker")) > 1
        host.run("worker", replace(alone, l2_mpki=70.0, mpki=30.0) if many else alone)
        host.run("chase", CHASE_HURT if many else CHASE)

    host.rule = run
    host.until(MORE_CPU)
    action = host.until(MORE_CPU)
    assert (action.rung, action.guest_uuid) == (Rung.MOVE, uuid_of("chase"))
    assert (host.domains("chase"), host.nodes("chase")) == ({1}, {0})


def test_no_cpu_is_given_to_two_at_once():
    host = Host(nodes_of(0, cpus=4), POLICY, knobs=ALL_KNOBS)
    for name, cpus in (("one", {0}), ("other", {1})):
        host.add(name, WORKER, cpus=cpus, vcpus=2, node=0)
    host.ticks(10)
    assert {frozenset(host.placement(name)) for name in ("one", "other")} == {
        frozenset({0, 2}),
        frozenset({1, 3}),
    }


def test_a_free_cpu_elsewhere_comes_before_changing_places():
    host = with_a_full_node_elsewhere(BUSY)
    host.leave("far")
    assert host.until(MORE_CPU).rung is Rung.REMOTE_CPU


def test_a_cpu_of_a_free_core_comes_before_the_sibling_of_its_own():
    """CPUs 0 and 1 are one core, and so are 2 and 3."""
    host = Host(hyper_threads(2, is_side_by_side=True), POLICY, knobs=ALL_KNOBS)
    host.add("worker", WORKER, cpus={0}, vcpus=2, node=0)
    host.until(MORE_CPU)
    assert host.placement("worker") == {0, 2}


def test_who_goes_onto_free_cpus_elsewhere_gets_as_many_cores():
    host = Host(hyper_threads(2, is_side_by_side=True), POLICY, knobs=ALL_KNOBS)
    host.add("worker", WORKER, cpus={0}, vcpus=2, node=0)
    host.add("full", replace(BUSY, cores=2.7), cpus={1, 2, 3}, vcpus=3, node=0)
    host.until(MORE_CPU)
    assert host.placement("worker") in ({4, 6}, {5, 7}, {4, 7}, {5, 6})
