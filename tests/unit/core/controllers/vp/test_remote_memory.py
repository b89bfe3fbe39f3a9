# SPDX-License-Identifier: Apache-2.0
"""A VP is far from its memory: they come together again."""

from dataclasses import replace

from nova_vp.core.controllers.vp.declaration import BRING_HOME
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.guest import MemoryMove, Unmanaged
from nova_vp.core.types.reason import Rejection, Rung
from tests.unit.core.build import COMPUTE, Host, memory_system, uuid_of
from tests.unit.core.controllers.vp.hosts import far_away
from tests.unit.core.hosts import SENSITIVE, kinds


def test_remote_memory_brings_the_vcpus_to_it():
    host = far_away()
    action = host.until(BRING_HOME)
    assert (action.rung, host.placement("victim"), host.nodes("victim")) == (
        Rung.MOVE,
        {2, 3},
        {1},
    )
    assert host.ticks(20)[-1].detections == ()


def test_nobody_goes_to_its_memory_while_that_is_coming_to_it():
    """As after an undo, which nobody judges."""
    host = far_away()
    uuid, kib = uuid_of("victim"), host.guest("victim").memory_kib
    host.copy_kib_per_s = kib / 20
    host.memory_moves = {uuid: MemoryMove(uuid, ((0, 1.0),), moved_kib=0, left_kib=kib)}
    decisions = host.ticks(30)
    assert kinds(decisions) == {Kind.REMOTE}
    assert not any(d.actions or d.refused for d in decisions)
    assert (host.nodes("victim"), decisions[-1].detections) == ({0}, ())


def test_where_no_cpu_is_free_there_the_memory_comes_to_the_vcpus():
    host = far_away()
    host.add("filler", replace(COMPUTE, cores=2.0), cpus={2, 3}, vcpus=2, node=1)
    host.rule = memory_system({"victim": SENSITIVE, "filler": replace(COMPUTE, cores=2.0)})
    action = host.until(BRING_HOME)
    assert (action.rung, host.placement("victim"), host.nodes("victim")) == (
        Rung.MOVE_MEMORY,
        {0, 1},
        {0},
    )


def test_memory_that_is_too_dear_to_bring_stays_and_that_is_said():
    host = far_away()
    host.policy = replace(host.policy, memory_move_price_ratio=1e6)
    host.add("filler", replace(COMPUTE, cores=2.0), cpus={2, 3}, vcpus=2, node=1)
    host.rule = memory_system({"victim": SENSITIVE, "filler": replace(COMPUTE, cores=2.0)})
    refused = [r.rejection for r in host.ticks(20)[-1].refused]
    assert refused == [Rejection.GAINS_TOO_LITTLE]


def test_an_unmanaged_guest_with_remote_memory_is_left_and_that_is_said():
    host = far_away(unmanaged=Unmanaged.HUGEPAGES)
    decisions = host.ticks(20)
    assert not any(d.actions for d in decisions)
    assert kinds(decisions) == {Kind.REMOTE}
    assert Rejection.UNMANAGED in {r.rejection for r in decisions[-1].refused}


def test_remote_memory_that_can_go_nowhere_is_said():
    host = far_away(memory_obstacle="locked in memory")
    host.add("filler", replace(COMPUTE, cores=2.0), cpus={2, 3}, vcpus=2, node=1)
    host.rule = memory_system({"victim": SENSITIVE, "filler": replace(COMPUTE, cores=2.0)})
    decisions = host.ticks(40)
    assert kinds(decisions) == {Kind.REMOTE}
    assert not any(d.actions for d in decisions)
    assert [r.rejection for r in decisions[-1].refused] == [Rejection.NO_FREE_CPU]
    assert [e.victim_uuid for e in decisions[-1].escalations] == [uuid_of("victim")]


def coming_home() -> Host:
    """There is no CPU at its memory: that is copied to its vCPUs."""
    host = far_away()
    filler = replace(COMPUTE, cores=2.0)
    host.add("filler", filler, cpus={2, 3}, vcpus=2, node=1)
    host.rule = memory_system({"victim": SENSITIVE, "filler": filler})
    host.copy_kib_per_s = 5_000.0
    host.until(BRING_HOME)
    return host


def test_memory_under_way_is_not_sent_elsewhere():
    host = coming_home()
    assert host.memory_moves[uuid_of("victim")].left_kib > 0
    assert not any(d.actions for d in host.ticks(5))


def test_memory_that_takes_long_to_copy_is_not_worth_it():
    """Two hundred GiB: minutes of copying, for a few percent."""
    host = far_away(memory_kib=200 << 20)
    host.change("victim", memory_by_node=((1, 200 << 20),))
    filler = replace(COMPUTE, cores=2.0)
    host.add("filler", filler, cpus={2, 3}, vcpus=2, node=1)
    host.rule = memory_system({"victim": SENSITIVE, "filler": filler})
    decisions = host.ticks(20)
    assert not any(d.actions for d in decisions)
    assert [r.rejection for r in decisions[-1].refused] == [Rejection.GAINS_TOO_LITTLE]
