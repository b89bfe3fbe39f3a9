# SPDX-License-Identifier: Apache-2.0
"""Both ends of Merlin's ladder: the asker's own cap is raised first, the cluster is told last."""

from dataclasses import replace

from nova_vp.core.types.detection import Kind
from nova_vp.core.types.knob import Applied, Held, Knob, Quota
from nova_vp.core.types.policy import Controller, Homing, Policy
from nova_vp.core.types.reason import Reason, Rung
from nova_vp.core.types.state import Cap
from tests.unit.core.build import ALL_KNOBS, COMPUTE, Host, Rates, nodes_of, uuid_of

POLICY = Policy(home_on_arrival=Homing.NEVER, controllers=frozenset({Controller.MERLIN}))
WORKER = Rates(mips=100, l2_mpki=0.5, mpki=0.1, cpi=1.0, cores=2.0)


def a_capped_worker() -> Host:
    """It may use four tenths of each of its CPUs, and uses all of that."""
    host = Host(nodes_of(0, cpus=2), POLICY, knobs=ALL_KNOBS)
    capped = Quota(40_000, 100_000)
    host.add("worker", replace(WORKER, cores=0.8), cpus={0, 1}, vcpus=2, node=0, quota=capped)
    host.add("victim", COMPUTE, cpus={0, 1}, node=0)
    cap = Cap(0.4, Quota(-1, 100_000), "vp", uuid_of("victim"), host.now_s, None, 1.0)
    held = Held(Knob.CPU_CAP, capped, cap.original, "vp", "vp-1", until_s=host.now_s + 600)
    host.applied[uuid_of("worker")] = Applied(uuid_of("worker"), 1, (held,))
    host.state = replace(host.state, caps={uuid_of("worker"): cap})
    return host


def test_the_first_rung_is_its_own_cap():
    host = a_capped_worker()
    action = host.until(Reason.MORE_CPU)
    assert action.rung is Rung.RAISE_CAP
    assert host.cap_ratio("worker") == 0.5


def test_a_demand_that_no_rung_meets_is_told_to_the_cluster():
    host = Host(nodes_of(0, cpus=1), POLICY, knobs=ALL_KNOBS)
    host.add("worker", replace(WORKER, cores=1.0), cpus={0}, vcpus=2, node=0)
    decisions = host.ticks(40)
    assert not any(d.escalations for d in decisions[:25])
    told = {e.id: e for d in decisions for e in d.escalations}
    [escalation] = told.values()
    assert (escalation.victim_uuid, escalation.kind) == (uuid_of("worker"), Kind.CPU)
    assert escalation.evidence["cpu_sensitivity"] > POLICY.demand_sensitivity


def test_of_a_hundred_that_ask_some_are_chosen_for_and_what_was_not_met_stands():
    host = Host(nodes_of(*range(4), cpus=50), POLICY, knobs=ALL_KNOBS)
    for cpu in range(0, 200, 2):
        host.add(f"worker {cpu}", WORKER, cpus={cpu}, vcpus=2, node=cpu // 50)
    host.ticks(2)
    since_s = host.now_s - POLICY.escalate_after_s
    host.state = replace(host.state, unmet_since_s=dict.fromkeys(list(host.guests)[:-1], since_s))
    decision = host.tick()
    assert len(decision.actions) == 8
    assert len(decision.escalations) == 91
