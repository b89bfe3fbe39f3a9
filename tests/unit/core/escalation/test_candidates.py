# SPDX-License-Identifier: Apache-2.0
"""Who could leave a host that has nothing left, and what an escalation says that would bring."""

from dataclasses import replace

import pytest

from nova_vp.core.escalation import candidates
from nova_vp.core.types.claim import ClaimGroup
from nova_vp.core.types.decision import Escalation, Migrant, Role
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.topology import Limits, Topology
from tests.unit.core.build import (
    ALL_KNOBS,
    CHASE,
    CHASE_HURT,
    COMPUTE,
    STREAM,
    Host,
    Rates,
    memory_system,
    nodes_of,
    uuid_of,
)
from tests.unit.core.wishful import NO_LOSS, Helpless, Wishful, enabled

POLICY = enabled(Helpless())
LOSS = 1 - 3.7 / 14
BUSY = replace(COMPUTE, cores=1.0)
SENSITIVE = Rates(mips=50, l2_mpki=25.0, mpki=20.0, cpi=2.0, cores=0.5)
LOUD = Rates(mips=60, l2_mpki=70.0, mpki=60.0, cpi=2.0, cores=1.0)
WORKER = Rates(mips=100, l2_mpki=0.5, mpki=0.1, cpi=1.0, cores=2.0)


def a_storm(topology: Topology | None = None, **fields) -> Host:
    """The victim and the storm share the first LLC domain of a host on which nobody is capped."""
    host = Host(topology or nodes_of(0, cpus=4), POLICY, knobs=ALL_KNOBS)
    host.add("victim", CHASE, cpus={0, 1, 2, 3}, node=0)
    host.add("storm", COMPUTE, cpus={0, 1, 2, 3}, node=0, **fields)
    return host


def breaks_out(host: Host) -> Host:
    host.ticks(6)
    host.run("victim", CHASE_HURT)
    host.run("storm", STREAM)
    return host


def told(host: Host, seconds: int = 60) -> Escalation:
    """The first escalation that names who could leave."""
    for _ in range(seconds):
        for one in host.tick().escalations:
            if one.candidates:
                return one
    raise AssertionError("nobody could leave")


def by_name(host: Host, one: Escalation) -> dict[str, Migrant]:
    return {host.guests[m.guest_uuid].name: m for m in one.candidates}


def test_the_victim_and_who_hurts_it_take_the_hurt_along_and_a_quiet_neighbour_takes_nothing():
    host = a_storm()
    host.add("quiet", COMPUTE, cpus={0, 1, 2, 3}, node=0)
    found = by_name(host, told(breaks_out(host)))
    assert {name: m.role for name, m in found.items()} == {
        "victim": Role.VICTIM,
        "storm": Role.AGGRESSOR,
        "quiet": Role.CO_RUNNER,
    }
    assert found["victim"].relief_ratio == pytest.approx(LOSS)
    assert found["storm"].relief_ratio == pytest.approx(LOSS, rel=0.1)
    assert found["quiet"].relief_ratio == pytest.approx(0.0, abs=0.01)


def test_all_are_weighed_by_the_time_the_cluster_is_told():
    host = breaks_out(a_storm())
    first = next(one for d in host.ticks(60) for one in d.escalations)
    assert len(first.candidates) == 2


def test_before_all_are_weighed_nobody_is_named(monkeypatch):
    monkeypatch.setattr("nova_vp.core.escalation.escalate.AHEAD", 1.0)
    host = breaks_out(a_storm())
    decisions = host.ticks(60)
    candidates = [one.candidates for d in decisions for one in d.escalations]
    assert candidates[0] == ()
    assert len(candidates[-1]) == 2


def test_without_a_look_no_candidates_are_known(monkeypatch):
    """An escalation of this tick, that another one's look kept waiting."""
    monkeypatch.setattr("nova_vp.core.escalation.escalate.AHEAD", 1.0)
    host = a_storm()
    host.add("victim2", CHASE, cpus={0, 1, 2, 3}, node=0)
    breaks_out(host)
    host.run("victim2", CHASE_HURT)
    last = {one.id: one for d in host.ticks(90) for one in d.escalations}
    assert len(last) == 2
    assert all(len(one.candidates) == 3 for one in last.values())


def a_full_neighbour_domain(**quiet) -> Host:
    """The second domain would be a place for the storm, but its CPU is in use."""
    host = a_storm(nodes_of(0, 0, cpus=4), vcpus=1)
    for number in range(4):
        name = f"busy{number}"
        kib = 98304 * (number + 1)
        fields = {"unmanaged": Unmanaged.OPTED_OUT, "memory_kib": kib, **quiet}
        host.add(name, BUSY, cpus={4, 5, 6, 7}, vcpus=1, **fields)
    return host


def test_a_quiet_co_runner_is_worth_the_move_into_the_room_that_it_leaves():
    host = breaks_out(a_full_neighbour_domain())
    found = by_name(host, told(host))
    assert found["busy0"].role is Role.CO_RUNNER
    assert found["busy0"].relief_ratio == pytest.approx(LOSS, rel=0.1)
    assert found["busy3"].relief_ratio == 0.0, "the lightest are asked first"


def test_of_those_who_would_leave_room_the_loudest_and_the_lightest_are_weighed():
    """All are as loud, so the first of them; by memory the last ones come first."""
    host = a_full_neighbour_domain()
    for number in range(4):
        host.change(f"busy{number}", memory_kib=98304 * (4 - number))
    found = by_name(host, told(breaks_out(host)))
    brings = {name for name, one in found.items() if one.relief_ratio > 0.9 * LOSS}
    assert brings == {"victim", "storm", "busy0", "busy2", "busy3"}


def test_who_leaves_room_that_nobody_could_take_brings_nothing():
    host = a_full_neighbour_domain()
    host.change("victim", unmanaged=Unmanaged.OPTED_OUT)
    host.change("storm", unmanaged=Unmanaged.OPTED_OUT)
    found = by_name(host, told(breaks_out(host)))
    assert found["busy0"].relief_ratio == 0.0
    assert found["storm"].relief_ratio > 0.5


def test_room_among_those_who_would_be_hurt_is_no_room():
    """A move that the ladder refuses brings nothing, whoever makes room for it."""
    host = a_full_neighbour_domain()
    host.change("victim", unmanaged=Unmanaged.OPTED_OUT)
    host.run("busy1", replace(CHASE, cores=1.0))
    found = by_name(host, told(breaks_out(host)))
    assert found["storm"].relief_ratio > 0.5
    assert found["busy0"].relief_ratio == 0.0


def test_those_who_left_meanwhile_are_not_named():
    host = a_full_neighbour_domain()
    for name in ("gale", "quiet"):
        host.add(name, COMPUTE, cpus={0, 1, 2, 3}, node=0)
    breaks_out(host)
    host.run("gale", STREAM)
    while not host.state.evaluations:
        host.tick()
    for name in ("gale", "quiet"):
        host.leave(name)
    found = by_name(host, told(host))
    assert found.keys() == {"victim", "storm", "busy0", "busy1", "busy2", "busy3"}


def test_who_was_tried_in_vain_takes_nothing_along():
    host = breaks_out(a_storm())
    host.ticks(3)
    pair = (uuid_of("victim"), uuid_of("storm"))
    host.state = replace(host.state, cleared_suspects={pair: host.now_s + 1000})
    assert by_name(host, told(host))["storm"].relief_ratio == 0.0


def test_where_the_model_sees_no_loss_the_load_is_shared_out(monkeypatch):
    monkeypatch.setattr(candidates, "PREDICTED", 2.0)
    host = breaks_out(a_full_neighbour_domain())
    found = by_name(host, told(host))
    assert found["storm"].relief_ratio == pytest.approx(LOSS)
    assert found["busy0"].relief_ratio == pytest.approx(LOSS)


def test_on_a_hot_controller_memory_goes_along_into_the_room():
    limits = Limits(node_misses_per_s=2.4e6, remote_penalty_ratio=9.0)
    host = Host(nodes_of(0, 0, 1), POLICY, knobs=ALL_KNOBS, limits=limits)
    host.add("victim", SENSITIVE, cpus={0, 1}, node=0)
    host.add("storm", COMPUTE, cpus={2, 3}, node=0)
    for name in ("busy0", "busy1"):
        host.add(name, BUSY, cpus={4, 5}, node=1, unmanaged=Unmanaged.OPTED_OUT)
    host.rule = memory_system({"victim": SENSITIVE, "storm": COMPUTE}, 3e6)
    host.ticks(6)
    host.rule = memory_system({"victim": SENSITIVE, "storm": LOUD}, 3e6)
    one = told(host, 90)
    assert one.kind is Kind.CONTROLLER
    found = by_name(host, one)
    assert found["storm"].relief_ratio > 0.1
    assert found["busy0"].relief_ratio > 0.1


def short_of_cpu() -> Host:
    asking = Wishful("asking", 600)
    host = Host(nodes_of(0, cpus=3), enabled(asking), knobs=ALL_KNOBS)
    unmet = ClaimGroup("asking", uuid_of("worker"), (), (), asking.reason, NO_LOSS)
    asking.wish.groups = (replace(unmet, unmet_since_s=host.now_s),)
    host.add("worker", replace(WORKER, cores=1.0), cpus={0}, vcpus=2, node=0)
    host.add("heavy", BUSY, cpus={1}, memory_kib=4 << 20)
    host.add("light", BUSY, cpus={2}, memory_kib=1 << 20)
    host.add("other", replace(BUSY, cores=0.1), cpus={0})
    return host


def test_a_demand_for_cpu_is_met_by_whoever_frees_a_cpu():
    host = short_of_cpu()
    one = told(host)
    assert one.kind is Kind.CPU
    found = by_name(host, one)
    assert found["worker"] == Migrant(uuid_of("worker"), Role.VICTIM, 0.5, pytest.approx(0, abs=1))
    assert found["light"].relief_ratio == found["heavy"].relief_ratio == 0.5
    assert found["other"].relief_ratio == 0.0


def test_a_demand_for_cpu_blames_nobody_who_takes_its_cache():
    host = short_of_cpu()
    host.run("worker", replace(CHASE, cores=1.0))
    host.ticks(6)
    host.run("worker", replace(CHASE_HURT, cores=1.0))
    host.run("other", replace(STREAM, cores=0.1))
    one = told(host)
    detection = host.state.vps[uuid_of("worker")].detection
    assert (one.kind, detection.kind) == (Kind.CPU, Kind.CACHE)
    assert [suspect.guest_uuid for suspect in detection.suspects] == [uuid_of("other")]
    assert by_name(host, one)["other"].role is Role.CO_RUNNER


def test_with_the_hurt_the_weighing_is_over():
    host = breaks_out(a_storm())
    told(host)
    host.run("victim", CHASE)
    assert host.ticks(5)[-1].escalations == ()
    assert host.state.evaluations == {}


def test_what_stands_for_long_is_weighed_anew():
    host = breaks_out(a_storm())
    told(host)
    host.add("latecomer", COMPUTE, cpus={0, 1, 2, 3}, node=0)
    begun_s = {one.begun_s for one in host.state.evaluations.values()}
    [one] = [one for d in host.ticks(620) for one in d.escalations if one.candidates][-1:]
    assert {one.begun_s for one in host.state.evaluations.values()} != begun_s
    assert "latecomer" in by_name(host, one)
