# SPDX-License-Identifier: Apache-2.0
"""When a VP asks for more CPU: what it uses of what it has, once per epoch."""

from dataclasses import replace
from itertools import pairwise

import pytest

from nova_vp.core.controllers.merlin.declaration import MORE_CPU, Demands
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Knob, Quota
from nova_vp.core.types.reason import Rung
from tests.policies import settings_of, with_numbers
from tests.unit.core.build import ALL_KNOBS, CHASE, CHASE_HURT, STREAM, Host, nodes_of, uuid_of
from tests.unit.core.controllers.merlin.hosts import BUSY, POLICY, WORKER, a_worker
from tests.unit.core.controllers.merlin.test_ladder import a_capped_worker


@pytest.mark.parametrize(("cores", "gets"), [(0.79, 1), (0.85, 2)])
def test_who_uses_more_than_four_fifths_of_its_cpu_gets_a_local_one(cores, gets):
    host = a_worker(0, 1)
    host.run("worker", replace(WORKER, cores=cores))
    host.ticks(5)
    assert len(host.placement("worker")) == gets
    assert host.placement("worker") <= {0, 1, 2}


def test_the_demand_is_told_with_its_numbers():
    host = a_worker(0, 1)
    action = host.until(MORE_CPU)
    assert action.rung is Rung.LOCAL_CPU
    assert action.on_behalf_of == uuid_of("worker")
    assert action.evidence["cpu_sensitivity"] > 0.8


def test_one_cpu_at_a_time_once_in_an_epoch():
    host = a_worker(0, cpus=4, vcpus=4, policy=with_numbers(POLICY, epoch_s=15.0))
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
    assert not any(d.actions or d.refused for d in host.ticks(20))


def test_who_refuses_help_gets_nothing_and_nobody_else_is_asked_for_it():
    host = a_worker(0, refuses_help=True)
    host.add("filler", replace(BUSY, cores=1.9), cpus={1, 2}, vcpus=2, node=0)
    decisions = host.ticks(90)
    assert not any(d.actions or d.refused or d.escalations for d in decisions)


def test_a_guest_that_left_is_forgotten():
    host = a_worker(0, 1)
    host.until(MORE_CPU)
    host.leave("worker")
    host.ticks(2)
    assert host.state.controllers["merlin"].met == {}


def test_who_runs_on_no_cpu_that_is_known_is_given_none():
    """A CPU came online after the topology was read."""
    host = a_worker(0, 1, cpus=2)
    host.change("worker", placement=frozenset({9}))
    assert not any(decision.actions for decision in host.ticks(5))


def test_a_demand_that_no_rung_meets_is_told_to_the_cluster():
    host = Host(nodes_of(0, cpus=2), POLICY, knobs=ALL_KNOBS)
    host.add("worker", replace(WORKER, cores=1.0), cpus={0}, vcpus=2, node=0)
    host.add("other", BUSY, cpus={1}, node=0)
    decisions = host.ticks(40)
    assert not any(d.escalations for d in decisions[:25])
    told = {e.id: e for d in decisions for e in d.escalations}
    [escalation] = told.values()
    assert (escalation.victim_uuid, escalation.kind) == (uuid_of("worker"), Kind.CPU)
    assert escalation.evidence["cpu_sensitivity"] > settings_of(POLICY, "merlin").demand_sensitivity


def test_where_nothing_could_be_gained_nothing_is_asked_and_nobody_is_told():
    """It has all CPUs of the host, and fewer than vCPUs: no rung and no other server's leaving
    would bring it more."""
    host = Host(nodes_of(0, cpus=1), POLICY, knobs=ALL_KNOBS)
    host.add("worker", replace(WORKER, cores=1.0), cpus={0}, vcpus=2, node=0)
    decisions = host.ticks(90)
    assert not any(d.actions or d.refused or d.escalations for d in decisions)


def test_what_nova_caps_itself_is_no_demand():
    """It has a CPU for each vCPU and uses all that its flavor's quota leaves it: a CPU that another
    server has would bring it nothing."""
    host = a_worker(0, 1, quota=Quota(50_000, 100_000))
    host.add("other", BUSY, cpus={2}, node=0)
    host.change("worker", placement=frozenset({0, 1}))
    host.run("worker", replace(WORKER, cores=1.0))
    decisions = host.ticks(90)
    assert not any(d.actions or d.refused or d.escalations for d in decisions)


def test_who_has_all_the_cpu_that_it_can_use_asks_for_nothing():
    """It would gain elsewhere, but what it lacks is cache, not CPU."""
    host = Host(nodes_of(0, 1), POLICY, knobs=ALL_KNOBS)
    host.add("chase", replace(CHASE, cores=1.0), cpus={0, 1}, node=0)
    host.ticks(6)
    host.add("storm", replace(STREAM, mips=3000, cores=0.9), cpus={0, 1}, node=0)
    host.run("chase", replace(CHASE_HURT, cores=1.0))
    decisions = host.ticks(40)
    assert any(d.detections for d in decisions)
    assert not any(d.actions for d in decisions)


def test_of_a_hundred_that_ask_some_are_chosen_for_and_what_was_not_met_stands():
    host = Host(nodes_of(*range(4), cpus=50), POLICY, knobs=ALL_KNOBS)
    for cpu in range(0, 200, 2):
        host.add(f"worker {cpu}", WORKER, cpus={cpu}, vcpus=2, node=cpu // 50)
    host.ticks(2)
    since_s = host.now_s - POLICY.escalate_after_s
    unmet = Demands(unmet_since_s=dict.fromkeys(list(host.guests)[:-1], since_s))
    host.state = replace(host.state, controllers={**host.state.controllers, "merlin": unmet})
    decision = host.tick()
    assert len(decision.actions) == 8
    assert len(decision.escalations) == 91


def test_a_cap_too_is_raised_once_in_an_epoch():
    host = a_capped_worker()
    raised = [a.decided_s for d in host.ticks(45) for a in d.actions if a.reason is MORE_CPU]
    epoch_s = settings_of(POLICY, "merlin").epoch_s
    assert len(raised) >= 3
    assert {later - earlier for earlier, later in pairwise(raised)} == {epoch_s}


def test_what_was_met_is_over_after_three_epochs():
    """Others may find a better place for it then."""
    host = a_worker(0, 1)
    action = host.until(MORE_CPU)
    key = (uuid_of("worker"), Knob.PLACEMENT)
    three_epochs_s = 3 * settings_of(POLICY, "merlin").epoch_s
    host.ticks(int(three_epochs_s))
    assert host.state.controllers["merlin"].met
    assert key in host.state.claims
    host.ticks(3)
    assert host.now_s > action.decided_s + three_epochs_s
    assert not host.state.controllers["merlin"].met
    assert key not in host.state.claims


def test_who_came_just_now_is_not_believed_yet():
    host = a_worker(0, 1)
    decisions = host.ticks(4)
    seen = [bool(d.actions) for d in decisions]
    assert seen.index(True) == POLICY.dwell_samples
