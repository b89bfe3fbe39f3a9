# SPDX-License-Identifier: Apache-2.0
"""Places that were bad from the first second: which plan is made, and who may pay for it."""

from dataclasses import replace

import pytest

from nova_vp.core.controllers.rebalance.declaration import REARRANGE
from nova_vp.core.model import arrangement
from nova_vp.core.model.arrangement import is_bearable
from nova_vp.core.model.what_if import Gain
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Enabled
from nova_vp.core.types.reason import INEFFECTIVE, Rung
from nova_vp.core.types.topology import LlcDomain, Topology
from tests.policies import a_policy
from tests.unit.core.build import ALL_KNOBS, CHASE, COMPUTE, STREAM, Host, Rates, nodes_of, uuid_of
from tests.unit.core.wishful import Wishful, place

POLICY = a_policy(controllers=("rebalance",))


def actions(host: Host, seconds: int):
    return [action for decision in host.ticks(seconds) for action in decision.actions]


def test_whose_memory_cannot_move_is_rearranged_without_it():
    """Hurt from the first second, in the cache: no state changed, so nobody is detected."""
    host = Host(nodes_of(0, 1), POLICY, knobs=ALL_KNOBS)
    host.add("stream", STREAM, cpus={0, 1}, node=0, memory_obstacle="locked in memory")
    host.add("mixed", MIXED, cpus={0, 1}, node=0, memory_obstacle="locked in memory")
    host.add("pug", CHASE, cpus={0, 1}, node=0)
    action = host.until(REARRANGE, seconds=120)
    assert [c.knob for c in action.changes] == [Knob.PLACEMENT]
    assert action.rung is Rung.MOVE
    assert not host.share_a_cache("stream", "mixed")


def test_memory_of_who_is_not_sensitive_to_its_latency_stays():
    """In state 1 alone, as mcf, and far from all of its memory."""
    mcf = Rates(mips=60, l2_mpki=38.0, mpki=6.0, cpi=3.0, cores=0.5)
    host = Host(nodes_of(0, 1), POLICY, knobs=ALL_KNOBS)
    host.add("mcf", mcf, cpus={0, 1}, node=1, allowed_cpus=frozenset({0, 1}))
    assert actions(host, 120) == []
    host.run("mcf", replace(mcf, mpki=18.0))
    host.until(REARRANGE, seconds=300)
    assert host.nodes("mcf") == {0}


MIXED = Rates(mips=40, l2_mpki=77.0, mpki=25.0, cpi=6.0, cores=0.3)


def test_the_gain_of_who_refuses_help_is_no_reason_to_rearrange():
    host = two_at_odds(beside=1)
    host.change("mixed", refuses_help=True)
    assert actions(host, 60) == []


def test_who_degrades_others_is_rearranged_though_it_refuses_help():
    host = two_at_odds(beside=1)
    host.change("mixed", allowed_cpus=frozenset({0, 1, 2, 3}))
    memory_by_node = ((1, host.guest("stream").memory_kib),)
    host.change("stream", refuses_help=True, memory_by_node=memory_by_node)
    assert [change.guest_uuid for change in host.until(REARRANGE).changes] == [uuid_of("stream")]


def two_at_odds(*, beside: int) -> Host:
    """On one of two LLCs with four CPUs each; on the other somebody in a light phase."""
    host = Host(nodes_of(0, 1, cpus=4), POLICY, knobs=ALL_KNOBS)
    for name, rates in (("stream", STREAM), ("mixed", MIXED)):
        host.add(name, rates, cpus={0, 1, 2, 3}, node=0)
    host.add("light", COMPUTE, cpus={4, 5, 6, 7}, node=1, vcpus=beside)
    return host


@pytest.mark.parametrize(("beside", "moves"), [(3, True), (4, False)])
def test_who_has_cpus_of_its_own_keeps_them_in_a_light_phase(beside, moves):
    host = two_at_odds(beside=beside)
    assert bool(actions(host, 60)) is moves


@pytest.mark.parametrize(("beside", "moves"), [(3, True), (4, False)])
def test_nobody_changes_places_with_who_shares_its_cpus(beside, moves):
    host = two_at_odds(beside=beside)
    host.add("also", COMPUTE, cpus={4, 5, 6, 7}, node=1)
    host.change("light", unmanaged=Unmanaged.OPTED_OUT)
    assert bool(actions(host, 60)) is moves


@pytest.mark.parametrize(("cpus", "moves"), [({4, 5, 6}, True), ({4, 5, 6, 7}, False)])
def test_who_was_given_fewer_cpus_than_vcpus_leaves_the_others_free(cpus, moves):
    host = two_at_odds(beside=4)
    host.change("light", placement=frozenset(cpus))
    assert bool(actions(host, 60)) is moves


@pytest.mark.parametrize(("beside", "moves"), [(3, True), (4, False)])
def test_who_shares_its_cpus_is_not_brought_to_who_does_not(beside, moves):
    host = Host(nodes_of(0, 1, 2, cpus=4), POLICY, knobs=ALL_KNOBS)
    bound = frozenset(range(8))
    for name, rates in (("stream", STREAM), ("mixed", MIXED), ("filler", COMPUTE)):
        host.add(name, rates, cpus={0, 1, 2, 3}, node=0, vcpus=3 if name == "filler" else 1)
        host.change(name, allowed_cpus=bound)
    host.add("light", COMPUTE, cpus={4, 5, 6, 7}, node=1, vcpus=beside, unmanaged=Unmanaged.LEAVING)
    assert bool(actions(host, 60)) is moves


@pytest.mark.parametrize(("beside", "moves"), [(2, True), (3, False)])
def test_who_would_have_more_cpus_elsewhere_counts_with_those(beside, moves):
    """It has six vCPUs on four CPUs, and would have eight to be on."""
    narrow, wide = LlcDomain(0, 0, frozenset(range(4))), LlcDomain(1, 1, frozenset(range(4, 12)))
    host = Host(Topology((narrow, wide)), POLICY, knobs=ALL_KNOBS)
    host.add("stream", STREAM, cpus={0, 1, 2, 3}, node=0)
    host.add("mixed", MIXED, cpus={0, 1, 2, 3}, node=0, vcpus=6)
    host.add("light", COMPUTE, cpus=set(wide.cpus), node=1, vcpus=beside)
    for name in ("stream", "light"):
        host.change(name, unmanaged=Unmanaged.OPTED_OUT)
    assert bool(actions(host, 60)) is moves


def test_where_vcpus_outnumber_the_cpus_of_the_host_what_is_used_counts():
    host = two_at_odds(beside=4)
    host.add("also", COMPUTE, cpus={4, 5, 6, 7}, node=1, vcpus=4)
    assert actions(host, 60)


def test_a_rearrangement_that_brought_nothing_is_made_again_only_after_the_hold():
    host = Host(nodes_of(0, 1), POLICY, knobs=ALL_KNOBS)
    for name, rates in (("stream", STREAM), ("mixed", MIXED)):
        host.add(name, rates, cpus={0, 1}, node=0, memory_obstacle="locked in memory")
    first = host.until(REARRANGE)
    undone = host.until(INEFFECTIVE)
    again = host.until(REARRANGE, seconds=1500)
    assert set(again.changes) == set(first.changes)
    assert again.decided_s - undone.decided_s >= POLICY.reverse_hold_s
    undone_again = host.until(INEFFECTIVE)
    assert len({action.id for action in (first, undone, again, undone_again)}) == 4


DRIZZLE_MIPS = 1.0
LITTLE = 0.05
LONG = (
    (Rates(mips=16, l2_mpki=20, mpki=18, cpi=8, cores=0.2), 1, 1),
    (Rates(mips=40, l2_mpki=20, mpki=5, cpi=2, cores=0.2), 0, 0),
    (Rates(mips=40, l2_mpki=20, mpki=5, cpi=4, cores=0.2), 2, 2),
    (Rates(mips=40, l2_mpki=77, mpki=60, cpi=4, cores=0.2), 2, 2),
    (Rates(mips=5, l2_mpki=40, mpki=0.1, cpi=8, cores=0.2), 1, 2),
    (Rates(mips=16, l2_mpki=77, mpki=14, cpi=2, cores=0.9), 2, 1),
    (Rates(mips=5, l2_mpki=40, mpki=36, cpi=4, cores=0.2), 1, 0),
    (Rates(mips=5, l2_mpki=77, mpki=60, cpi=4, cores=0.5), 1, 0),
)
"""A host (rates, LLC, node of the memory) on which a second pass finds more to do."""


def changes_of_a_long_plan() -> int:
    host = Host(nodes_of(0, 1, 2), POLICY, knobs=ALL_KNOBS)
    for number, (rates, domain, node) in enumerate(LONG):
        cpus = {2 * domain, 2 * domain + 1}
        host.add(f"v{number}", rates, cpus=cpus, node=node)
    [action] = actions(host, 9)
    return len(action.changes)


def test_a_plan_that_would_go_on_and_on_is_cut_short(monkeypatch):
    whole = changes_of_a_long_plan()
    monkeypatch.setattr(arrangement, "PASSES", 1)
    assert 2 < changes_of_a_long_plan() < whole


@pytest.mark.parametrize(
    ("won", "losses", "bears"),
    [
        ({"payer": -0.05, "other": 0.01}, {"payer": 0.3, "other": 0.0}, True),
        ({"payer": -0.06, "other": 0.11}, {"payer": 0.3, "other": 0.1}, False),
        ({"payer": -0.06, "other": 0.11}, {"payer": 0.1, "other": 0.1}, False),
        ({"payer": -0.06, "other": 0.12}, {"payer": 0.1, "other": 0.1}, True),
        ({"payer": -0.06, "other": 0.12}, {"payer": 0.3, "other": 0.1}, False),
        ({"payer": -0.15, "other": 0.5}, {"payer": 0.2, "other": 0.0}, True),
        ({"payer": -0.16, "other": 0.9}, {"payer": 0.2, "other": 0.0}, False),
    ],
    ids=[
        "little",
        "more than half of what another gains",
        "that, by who stays better off",
        "half of it, by who stays better off",
        "half of it, by who ends worse off",
        "three times as much as anybody bears",
        "more than that, whatever it brings",
    ],
)
def test_what_one_may_pay_for_another(won, losses, bears):
    gain = Gain(won, sum(won.values()), 0.0, min(0.0, *won.values()), losses)
    assert is_bearable(gain, a_policy(most_hurt_ratio=0.05)) is bears


def test_a_plan_costs_nobody_what_he_may_not_pay():
    """The stream weighs so much that it would be given a cache of its own, at the others' cost."""
    host = full_host()
    for name in ("stream", "mixed", "quiet", "also"):
        host.change(name, priority=50.0 if name == "mixed" else 1.0)
    host.run("quiet", CHASE)
    assert actions(host, 60) == []


def full_host(**about) -> Host:
    """As many vCPUs as CPUs: nobody can go anywhere unless somebody else does."""
    host = Host(nodes_of(0, 1), POLICY, knobs=ALL_KNOBS)
    rows = (("stream", STREAM, 0), ("mixed", MIXED, 0), ("quiet", COMPUTE, 1), ("also", COMPUTE, 1))
    for name, rates, node in rows:
        host.add(name, rates, cpus={2 * node, 2 * node + 1}, node=node, **about)
    return host


def test_on_a_full_host_two_servers_change_places():
    host = full_host()
    action = host.until(REARRANGE)
    moved = {c.guest_uuid for c in action.changes if c.knob is Knob.PLACEMENT}
    assert len(moved) == 2
    assert action.rung is Rung.SWAP
    [name] = [one for one in ("stream", "mixed") if uuid_of(one) == action.guest_uuid]
    assert set(action.domain_ids) == host.domains(name)
    assert not host.share_a_cache("stream", "mixed")


def test_one_large_server_changes_places_with_two_small_ones():
    host = Host(nodes_of(0, 1, cpus=4), POLICY, knobs=ALL_KNOBS)
    for name, rates in (("stream", STREAM), ("mixed", MIXED)):
        host.add(name, rates, cpus={0, 1, 2, 3}, node=0, vcpus=2)
    for number in range(4):
        host.add(f"small{number}", COMPUTE, cpus={4, 5, 6, 7}, node=1)
    action = host.until(REARRANGE)
    assert len({c.guest_uuid for c in action.changes}) == 3
    assert not host.share_a_cache("stream", "mixed")


def test_who_has_cpus_of_its_own_allotment_stays_out_of_it():
    host = two_at_odds(beside=1)
    for name in ("stream", "mixed"):
        host.change(name, placement=frozenset({0, 1}))
    assert actions(host, 60) == []


def test_what_nobody_feels_is_left_as_it_is():
    """It loses two percent, and weighs as much as fifty others."""
    host = two_at_odds(beside=1)
    host.run("stream", replace(STREAM, mips=DRIZZLE_MIPS))
    host.change("mixed", priority=50.0)
    assert actions(host, 60) == []


def test_a_plan_that_gains_too_little_on_the_whole_is_not_made():
    """Who is degraded weighs little."""
    host = two_at_odds(beside=1)
    host.change("mixed", priority=LITTLE)
    assert actions(host, 60) == []


def far_from_its_memory(kib: int) -> Host:
    """Bound to node 0, with memory on node 1."""
    host = Host(nodes_of(0, 1), POLICY, knobs=ALL_KNOBS)
    bound = frozenset({0, 1})
    host.add("vp", MIXED, cpus={0, 1}, node=1, allowed_cpus=bound, memory_kib=kib)
    return host


@pytest.mark.parametrize(("gib", "comes"), [(4, True), (200, False)])
def test_memory_comes_home_if_that_is_worth_the_time_it_takes_to_copy(gib, comes):
    host = far_from_its_memory(gib << 20)
    host.change("vp", memory_by_node=((1, gib << 20),))
    assert bool(actions(host, 10)) is comes
    assert host.nodes("vp") == ({0} if comes else {1})


@pytest.mark.parametrize(("slower", "comes"), [(1, True), (50, False)])
def test_the_time_that_copying_takes_is_what_this_host_needed_before(slower, comes):
    host = far_from_its_memory(4 << 20)
    host.change("vp", memory_by_node=((1, 4 << 20),))
    host.state = replace(host.state, copy_kib_per_s=POLICY.memory_pace_kib_per_s / slower)
    assert bool(actions(host, 10)) is comes


def test_nobody_is_sent_back_to_where_it_was_taken_away():
    """The other one goes."""
    for stays, goes in (("stream", "mixed"), ("mixed", "stream")):
        host = two_at_odds(beside=1)
        host.tick()
        left = ((frozenset({4, 5, 6, 7}), host.now_s),)
        vp = host.state.vps[uuid_of(stays)]._replace(left=left)
        host.state = replace(host.state, vps={**host.state.vps, vp.guest_uuid: vp})
        moved = {c.guest_uuid for c in host.until(REARRANGE).changes}
        assert uuid_of(goes) in moved
        assert uuid_of(stays) not in moved


def test_of_very_many_the_worst_off_is_helped():
    """There is no time to weigh a place for everybody."""
    host = Host(nodes_of(0, 1, cpus=120), POLICY, knobs=ALL_KNOBS)
    near, far = (set(domain.cpus) for domain in host.topology.domains)
    for number in range(200):
        host.add(f"vm{number}", COMPUTE, cpus=far if number % 2 else near)
        host.run(f"vm{number}", replace(COMPUTE, l2_mpki=0.0, cores=0.1))
    host.add("stream", replace(STREAM, mips=300), cpus=near)
    host.add("xmixed", MIXED, cpus=near)
    assert {c.guest_uuid for a in actions(host, 12) for c in a.changes} == {uuid_of("xmixed")}


def test_servers_of_one_vp_go_together():
    host = two_at_odds(beside=1)
    host.change("mixed", group="vp")
    host.add("sibling", COMPUTE, cpus={0, 1, 2, 3}, node=0, group="vp")
    host.change("stream", allowed_cpus=frozenset(range(4)))
    host.until(REARRANGE)
    assert host.placement("mixed") == host.placement("sibling") == {4, 5, 6, 7}


def test_who_belongs_to_a_controller_of_a_lower_rank_stays():
    first = Wishful("first", 400)
    controllers = (Enabled(first, first.settings()), *POLICY.controllers)
    host = two_at_odds(beside=1)
    host.policy = replace(POLICY, controllers=controllers)
    first.wants(place((frozenset(range(4)),), uuid_of("mixed")))
    moved = {c.guest_uuid for c in host.until(REARRANGE).changes}
    assert uuid_of("mixed") not in moved


def test_several_steps_are_planned_and_claimed_together():
    host = Host(nodes_of(0, 1, 2, 3), POLICY, knobs=ALL_KNOBS)
    for number in (0, 1):
        for name, rates in (("stream", STREAM), ("mixed", MIXED)):
            cpus = {2 * number, 2 * number + 1}
            host.add(f"{name}{number}", rates, cpus=cpus, node=number)
    action = host.until(REARRANGE)
    assert len({c.guest_uuid for c in action.changes}) >= 2
    assert not any(host.share_a_cache(f"stream{number}", f"mixed{number}") for number in (0, 1))


def test_whose_memory_may_not_come_back_yet_keeps_nobody_elses_away():
    host = Host(nodes_of(0, 1), POLICY, knobs=ALL_KNOBS)
    bound = frozenset({0, 1})
    for name in ("stays", "comes"):
        host.add(name, MIXED, cpus={0, 1}, node=1, allowed_cpus=bound)
    host.tick()
    left = ((frozenset({0}), host.now_s),)
    vp = host.state.vps[uuid_of("stays")]._replace(left_nodes=left)
    host.state = replace(host.state, vps={**host.state.vps, vp.guest_uuid: vp})
    host.until(REARRANGE)
    assert (host.nodes("stays"), host.nodes("comes")) == ({1}, {0})
