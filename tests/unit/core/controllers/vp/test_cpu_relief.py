# SPDX-License-Identifier: Apache-2.0
"""A VP that waits for CPU is relieved by the cheapest rung while other CPUs are idle."""

from dataclasses import replace

import pytest

from nova_vp.core.controllers.vp.declaration import CAP, MOVE_AGGRESSOR, MOVE_VICTIM, SWAP
from nova_vp.core.types.action import Result
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.reason import INEFFECTIVE, Rejection
from nova_vp.core.types.topology import Topology
from tests.unit.core.build import ALL_KNOBS, COMPUTE, Host, Rates, nodes_of, uuid_of
from tests.unit.core.controllers.vp.hosts import POLICY
from tests.unit.core.crowding import beside_host_processes, give, shared_cpus

BUSY = replace(COMPUTE, cores=1.0)
LIGHT = replace(COMPUTE, cores=0.1)


def a_host(places: dict[str, set[int]], topology: Topology, **about) -> Host:
    """Guests that use little; `about`: fields by guest."""
    host = Host(topology, POLICY, knobs=ALL_KNOBS)
    for name, cpus in places.items():
        host.add(name, LIGHT, cpus=cpus, **about.get(name, {}))
    work(host, **dict.fromkeys(places, LIGHT))
    host.ticks(6)
    return host


def work(host: Host, **rates: Rates) -> None:
    known = getattr(host.rule, "alone", {})
    alone = {**known, **rates}
    host.rule = shared_cpus(alone)
    host.rule.alone = alone


def unread(host: Host, *names: str) -> None:
    """Nobody reads the CPU times of these."""
    rule = host.rule

    def run(host: Host) -> None:
        rule(host)
        for name in names:
            host.change(name, cpu_times=None)

    run.alone = rule.alone
    host.rule = run


def both_busy(host: Host) -> None:
    work(host, victim=BUSY, storm=BUSY)


def waits(host: Host, name: str) -> float:
    use = host.state.vps[uuid_of(name)].recent_cpu_use
    return use.waiting_ratio


def test_the_victim_moves_to_an_idle_cpu_of_its_own_cache():
    host = a_host({"storm": {0}, "victim": {0}}, nodes_of(0, 0))
    both_busy(host)
    action = host.until(MOVE_VICTIM)
    assert host.placement(action_name(action)) == {1}
    host.ticks(20)
    assert host.outcomes[-1].result is Result.APPLIED
    assert waits(host, "victim") < 0.05 > waits(host, "storm")
    assert results(host) == [Result.MENDED]


def test_a_moment_that_an_idle_server_waits_there_undoes_no_move():
    """It runs a thousandth of a CPU, and waits for as long once somebody runs beside it."""
    host = a_host({"storm": {0}, "victim": {0}, "idler": {1}}, nodes_of(0, 0))
    work(host, victim=BUSY, storm=BUSY, idler=replace(COMPUTE, cores=0.0))
    crowd = host.rule

    def run(host: Host) -> None:
        crowd(host)
        beside = {name for name in ("storm", "victim") if 1 in host.placement(name)}
        give(host, "idler", 0.001, waited=0.001 if beside else 0.0)

    host.rule = run
    host.until(MOVE_VICTIM)
    host.ticks(20)
    assert results(host) == [Result.MENDED]
    assert waits(host, "idler") > 0.3


def action_name(action) -> str:
    return "storm" if action.guest_uuid == uuid_of("storm") else "victim"


def results(host: Host) -> list[Result]:
    """Of all that was done, as it was judged."""
    judged = {o.action.id: o.result for vp in host.state.vps.values() for o in vp.history}
    return list(judged.values())


def test_where_its_cache_is_full_it_moves_to_another_of_its_node():
    host = a_host({"storm": {0, 1}, "victim": {0, 1}, "third": {0, 1}}, nodes_of(1, 0, 0))
    host.change("victim", placement=frozenset({2, 3}))
    host.change("storm", placement=frozenset({2, 3}))
    host.change("third", placement=frozenset({2, 3}))
    host.ticks(6)
    work(host, victim=BUSY, storm=BUSY, third=BUSY)
    host.until(MOVE_VICTIM)
    host.ticks(15)
    places = [host.placement(name) for name in ("victim", "storm", "third")]
    assert sorted(map(sorted, places)) == [[2, 3], [2, 3], [4, 5]]
    assert max(waits(host, name) for name in ("victim", "storm", "third")) < 0.05


def test_a_place_is_not_taken_from_one_whose_waiting_nobody_can_tell():
    """The kernel says nothing of the neighbour there; that it uses its CPU is seen all the same."""
    crowd = ("storm", "other", "victim")
    here = {name: {0, 1} for name in crowd}
    host = a_host({**here, "dark": {2, 3}}, nodes_of(0, 0), dark={"vcpus": 2})
    work(host, dark=replace(COMPUTE, cores=2.0))
    unread(host, "dark")
    host.ticks(10)
    work(host, **dict.fromkeys(crowd, BUSY))
    unread(host, "dark")
    assert any(d.detections for d in host.ticks(20))
    assert {tuple(host.placement(name)) for name in crowd} == {(0, 1)}


@pytest.mark.parametrize(("gib", "node"), [(1, 1), (1000, 0)])
def test_memory_that_takes_too_long_to_copy_keeps_a_victim_where_it_waits(gib, node):
    """An idle CPU is on another node only, and its memory would have to come along."""
    needy = Rates(mips=50, l2_mpki=25.0, mpki=20.0, cpi=2.0, cores=1.0)
    host = Host(nodes_of(0, 1, cpus=1), POLICY, knobs=ALL_KNOBS)
    host.add("storm", LIGHT, cpus={0}, node=0, unmanaged=Unmanaged.OPTED_OUT)
    host.add("victim", needy, cpus={0}, node=0, memory_kib=gib << 20)
    work(host, storm=LIGHT, victim=replace(needy, cores=0.5))
    host.ticks(20)
    work(host, storm=BUSY, victim=needy)
    refused = {one.rejection for d in host.ticks(20) for one in d.refused}
    assert host.nodes("victim") == {node}
    assert (Rejection.GAINS_TOO_LITTLE in refused) is (node == 0)


def test_a_victim_that_is_not_ours_is_relieved_by_moving_the_heaviest_suspect():
    host = a_host(
        {"storm": {0}, "victim": {0}},
        nodes_of(0, 0),
        victim={"unmanaged": Unmanaged.OPTED_OUT},
        storm={"refuses_help": True},
    )
    both_busy(host)
    action = host.until(MOVE_AGGRESSOR)
    assert action.guest_uuid == uuid_of("storm")
    host.ticks(15)
    assert waits(host, "victim") < 0.05


def test_a_suspect_that_uses_less_than_the_victim_waits_stays():
    host = a_host(
        {"storm": {0}, "small": {0}, "victim": {0}},
        nodes_of(0, 0),
        victim={"unmanaged": Unmanaged.OPTED_OUT},
        storm={"unmanaged": Unmanaged.OPTED_OUT},
        small={"unmanaged": None},
    )
    work(host, victim=BUSY, storm=BUSY, small=LIGHT)
    refused = [one for d in host.ticks(10) for one in d.refused]
    assert host.placement("small") == {0}
    assert (uuid_of("small"), Rejection.GAINS_TOO_LITTLE) in {
        (one.guest_uuid, one.rejection) for one in refused
    }


def test_where_no_cpu_is_idle_it_changes_places_with_who_uses_less():
    """Two domains of two CPUs: three busy ones here, one busy and one quiet there."""
    host = a_host(
        {"storm": {0, 1}, "other": {0, 1}, "victim": {0, 1}, "quiet": {2, 3}, "busy": {2, 3}},
        nodes_of(0, 0),
        storm={"unmanaged": Unmanaged.OPTED_OUT},
        other={"unmanaged": Unmanaged.OPTED_OUT},
        busy={"unmanaged": Unmanaged.OPTED_OUT},
    )
    nearly = replace(BUSY, cores=0.9)
    work(host, storm=nearly, other=nearly, victim=BUSY, quiet=LIGHT, busy=BUSY)
    action = host.until(SWAP)
    assert {change.guest_uuid for change in action.changes} == {
        uuid_of("victim"),
        uuid_of("quiet"),
    }
    host.ticks(15)
    assert host.placement("victim") == {2, 3}
    assert max(waits(host, name) for name in ("victim", "quiet", "busy", "storm")) < 0.05


def full(**about) -> Host:
    """One domain, and nowhere to go: a wide aggressor beside a victim of one vCPU."""
    host = Host(nodes_of(0, cpus=2), POLICY, knobs=ALL_KNOBS)
    host.add("storm", LIGHT, cpus={0, 1}, vcpus=4, **about)
    host.add("victim", LIGHT, cpus={0, 1})
    host.add("small", LIGHT, cpus={0, 1})
    work(host, storm=LIGHT, victim=LIGHT, small=LIGHT)
    host.ticks(6)
    return host


def test_where_nothing_can_move_the_one_that_has_more_than_is_fair_is_capped():
    host = full(cap_floor_ratio=0.1)
    host.add("pinned", LIGHT, cpus={0})
    host.rule = queued({"storm": 1.5, "victim": 0.3}, victim_wants=0.6)
    action = host.until(CAP)
    assert action.guest_uuid == uuid_of("storm")
    assert action.evidence["waiting_ratio"] > 0.3


def queued(ran: dict[str, float], victim_wants: float):
    """A run queue that gives a wide server more than its neighbour: by vCPUs, not by servers. What
    a cap takes from it, the victim gets."""

    def run(host: Host) -> None:
        limit = 4 * host.cap_ratio("storm")
        storm = min(ran["storm"], limit)
        victim = min(victim_wants, ran["victim"] + ran["storm"] - storm)
        give(host, "storm", storm, waited=0.0, throttled=ran["storm"] - storm)
        give(host, "victim", victim, waited=victim_wants - victim)

    return run


def test_the_throttling_of_the_one_that_is_capped_does_not_undo_the_cap_that_helps():
    host = full(cap_floor_ratio=0.1)
    host.rule = queued({"storm": 1.5, "victim": 0.3}, victim_wants=0.6)
    host.until(CAP)
    decisions = host.ticks(25)
    assert not any(a.reason is INEFFECTIVE for d in decisions for a in d.actions)
    assert host.state.vps[uuid_of("storm")].cpu_use.throttled_ours_cores > 0.1
    assert host.cap_ratio("storm") < 1
    assert Result.MENDED in results(host)


def test_a_cap_that_helps_one_who_computes_in_registers_stands():
    """Of its next to no misses a few more or less are no other work."""
    host = full(cap_floor_ratio=0.1)
    queue = queued({"storm": 1.5, "victim": 0.3}, victim_wants=0.6)

    def run(host: Host) -> None:
        queue(host)
        victim = host.rates[uuid_of("victim")]
        host.run("victim", replace(victim, l2_mpki=0.1 if host.cap_ratio("storm") < 1 else 0.01))

    host.rule = run
    host.until(CAP)
    host.ticks(25)
    assert Result.MENDED in results(host)
    assert Result.INEFFECTIVE not in results(host)


def test_the_delay_of_the_one_that_is_capped_does_not_undo_the_cap_that_helps():
    """The kernel tells some of its throttling as delay alone."""
    host = full(cap_floor_ratio=0.1)
    queue = queued({"storm": 1.5, "victim": 0.3}, victim_wants=0.6)

    def unexplained(host: Host) -> None:
        queue(host)
        if host.cap_ratio("storm") < 1:
            was = host.guest("storm").cpu_times
            more = was._replace(run_delay_ns=was.run_delay_ns + 500_000_000)
            host.change("storm", cpu_times=more)

    host.rule = unexplained
    host.until(CAP)
    decisions = host.ticks(20)
    assert not any(a.reason is INEFFECTIVE for d in decisions for a in d.actions)


def beside_the_host(host: Host) -> None:
    """The neighbour is idle, and processes of the host take what it took."""
    queue = queued({"storm": 0.01, "victim": 0.3}, victim_wants=0.6)
    beside_host_processes(host, queue, dict.fromkeys(host.topology.cpus, 0.5))


def test_for_waiting_that_the_host_causes_nothing_is_done():
    """A place with idle CPU would help too, but no guest is to blame, and it may end any moment."""
    host = a_host({"storm": {0}, "victim": {0}}, nodes_of(0, 0))
    beside_the_host(host)
    decisions = host.ticks(30)
    found = {d.kind for decision in decisions for d in decision.detections}
    assert found == {Kind.HOST_CPU}
    assert not any(d.actions or d.proposals or d.escalations for d in decisions)


def test_a_cap_is_raised_though_the_host_makes_its_victim_wait():
    host = full(cap_floor_ratio=0.1)
    host.rule = queued({"storm": 1.5, "victim": 0.3}, victim_wants=0.6)
    host.until(CAP)
    host.ticks(25)
    assert host.cap_ratio("storm") < 1
    beside_the_host(host)
    found = {d.kind for decision in host.ticks(600) for d in decision.detections}
    assert Kind.HOST_CPU in found
    assert host.cap_ratio("storm") == 1


def throttled(host: Host, name: str, ran_s: float, delay_s: float, throttled_s: float) -> None:
    rule = host.rule

    def run(host: Host) -> None:
        was = host.guest(name).cpu_times
        rule(host)
        host.change(
            name,
            cpu_times=was._replace(
                ran_ns=was.ran_ns + round(ran_s * 1e9),
                run_delay_ns=was.run_delay_ns + round(delay_s * 1e9),
                throttled_ns=was.throttled_ns + round(throttled_s * 1e9),
            ),
        )

    host.rule = run


def test_a_server_that_its_quota_throttles_is_not_relieved():
    host = a_host({"storm": {0}, "victim": {0}}, nodes_of(0, 0))
    throttled(host, "victim", ran_s=0.5, delay_s=0.52, throttled_s=0.5)
    host.ticks(20)
    assert not host.outcomes


def test_what_a_kernel_leaves_of_a_throttled_servers_delay_is_no_waiting():
    """As measured of a 30 % quota on an idle host: 0.06 s of delay each second."""
    host = a_host({"storm": {0}, "victim": {0}}, nodes_of(0, 0))
    throttled(host, "victim", ran_s=0.30, delay_s=0.6967, throttled_s=0.6333)
    host.ticks(20)
    assert not host.outcomes


def test_servers_of_one_vp_are_left_to_share_their_cpu():
    host = a_host({"storm": {0}, "victim": {0}}, nodes_of(0, 0))
    for name in ("storm", "victim"):
        host.change(name, group="web")
    both_busy(host)
    host.ticks(20)
    assert not host.outcomes


def test_of_two_that_wait_alike_nobody_is_capped():
    host = Host(nodes_of(0, cpus=1), POLICY, knobs=ALL_KNOBS)
    for name in ("storm", "victim"):
        host.add(name, LIGHT, cpus={0}, cap_floor_ratio=0.1)
    work(host, storm=LIGHT, victim=LIGHT)
    host.ticks(6)
    both_busy(host)
    decisions = host.ticks(30)
    assert not host.outcomes
    assert Rejection.UNFAIR in {one.rejection for d in decisions for one in d.refused}


def test_where_every_rung_is_spent_it_says_so_and_escalates():
    host = Host(nodes_of(0, cpus=1), POLICY, knobs=ALL_KNOBS)
    for name in ("storm", "victim"):
        host.add(name, LIGHT, cpus={0})
    work(host, storm=LIGHT, victim=LIGHT)
    host.ticks(6)
    both_busy(host)
    decisions = host.ticks(50)
    [last, *_] = [one for one in decisions[-1].escalations if one.victim_uuid == uuid_of("victim")]
    assert last.kind is Kind.CPU
    assert last.rejected
    assert not host.outcomes


def test_a_host_whose_cpu_times_nobody_reads_does_nothing():
    host = a_host({"storm": {0}, "victim": {0}}, nodes_of(0, 0))
    both_busy(host)
    unread(host, "victim", "storm")
    host.ticks(30)
    assert not host.outcomes
