# SPDX-License-Identifier: Apache-2.0
"""A CPU that is not used any more is given back, once another VP asks and finds none."""

from dataclasses import replace

import pytest

from nova_vp.core.controllers.merlin.declaration import LESS_CPU, MORE_CPU
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Applied, Held, Knob
from tests.unit.core.build import ALL_KNOBS, COMPUTE, Host, nodes_of, uuid_of
from tests.unit.core.controllers.merlin.hosts import POLICY, WORKER, a_worker


def test_cpu_that_is_not_used_any_more_is_given_back_to_who_asks():
    host = a_worker(0, cpus=3, vcpus=3)
    host.run("worker", replace(WORKER, cores=3.0))
    host.ticks(20)
    assert host.placement("worker") == {0, 1, 2}
    host.run("worker", replace(WORKER, cores=0.9))
    assert not any(d.actions for d in host.ticks(30)), "while nobody else wants it"
    host.add("asker", WORKER, cpus={0}, vcpus=2, node=0)
    host.until(LESS_CPU)
    assert host.placement("worker") == {0, 1}
    assert host.until(MORE_CPU).guest_uuid == uuid_of("asker")
    assert host.placement("asker") == {0, 2}


def test_nobody_who_is_not_ours_gives_back():
    host = a_worker(0, cpus=3, vcpus=3)
    host.run("worker", replace(WORKER, cores=3.0))
    host.ticks(20)
    host.run("worker", replace(WORKER, cores=0.9))
    host.change("worker", unmanaged=Unmanaged.OPTED_OUT)
    host.add("asker", WORKER, cpus={0}, vcpus=2, node=0)
    assert not any(d.actions for d in host.ticks(30))


def test_who_is_not_ours_stands_in_the_way_of_nobody_who_gives_back():
    host = a_worker(0, cpus=6, vcpus=3)
    names = ("worker", "also")
    host.add("also", WORKER, cpus={1}, vcpus=3, node=0)
    for name in names:
        host.run(name, replace(WORKER, cores=3.0))
    host.ticks(30)
    assert [len(host.placement(name)) for name in names] == [3, 3]
    for name in names:
        host.run(name, replace(WORKER, cores=0.9))
    host.change("worker", unmanaged=Unmanaged.OPTED_OUT)
    host.add("asker", WORKER, cpus={0}, vcpus=2, node=0)
    assert host.until(LESS_CPU).guest_uuid == uuid_of("also")


def test_who_was_sent_elsewhere_has_no_cpu_to_give_back():
    """It has more than at first, but none of those that it had."""
    host = Host(nodes_of(0, 1, cpus=3), POLICY, knobs=ALL_KNOBS)
    there = frozenset({3, 4, 5})
    host.add("far", replace(COMPUTE, cores=0.9), cpus=set(there), vcpus=3, node=0)
    held = Held(Knob.PLACEMENT, (there,), (frozenset({0}),), controller="merlin", action_id="x")
    host.applied[uuid_of("far")] = Applied(uuid_of("far"), 1, (held,))
    host.add("asker", WORKER, cpus={3}, vcpus=2, node=1, allowed_cpus=there)
    assert not any(decision.actions for decision in host.ticks(20))


def test_nobody_gives_back_while_another_cpu_is_free():
    host = a_worker(0, cpus=4, vcpus=3)
    host.run("worker", replace(WORKER, cores=3.0))
    host.ticks(25)
    assert len(host.placement("worker")) == 3
    host.run("worker", replace(WORKER, cores=0.9))
    host.add("asker", WORKER, cpus={0}, vcpus=2, node=0)
    reasons = {a.reason for d in host.ticks(15) for a in d.actions}
    assert reasons == {MORE_CPU}


@pytest.mark.parametrize(("cores", "gives"), [(0.95, True), (1.05, False)])
def test_who_would_use_half_of_what_is_left_gives_nothing_back(cores, gives):
    host = a_worker(0, cpus=3, vcpus=3)
    host.run("worker", replace(WORKER, cores=3.0))
    host.ticks(25)
    host.run("worker", replace(WORKER, cores=cores))
    host.ticks(5)
    host.add("asker", WORKER, cpus={0}, vcpus=2, node=0)
    reasons = {a.reason for d in host.ticks(15) for a in d.actions}
    assert (LESS_CPU in reasons) is gives


def test_who_has_only_what_nova_gave_gives_nothing_back():
    host = a_worker(0, cpus=4)
    host.add("idler", replace(COMPUTE, cores=0.9), cpus={1, 2, 3}, vcpus=3, node=0)
    assert not any(decision.actions for decision in host.ticks(20))
