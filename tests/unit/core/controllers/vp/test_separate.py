# SPDX-License-Identifier: Apache-2.0
"""Who needs memory to itself, or near, from the first second: nobody's state changes.

All with default settings, and uncalibrated where no limit is given.
"""

from dataclasses import replace

import pytest

from nova_vp.core.controllers.vp.declaration import BRING_HOME, SEPARATE
from nova_vp.core.controllers.vp.separate import LOOK_S, Separation
from nova_vp.core.model.arrangement import Rank
from nova_vp.core.model.holds import signature
from nova_vp.core.model.host import build_host
from nova_vp.core.model.location import location_of
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.topology import Limits, LoadCurve, LoadPoint
from tests.unit.core.build import ALL_KNOBS, Host, Rates, nodes_of, uuid_of
from tests.unit.core.controllers.vp.hosts import POLICY

STREAM_VM = Rates(mips=60, l2_mpki=65.0, mpki=63.0, cpi=6.0, cores=0.9)
MILC = Rates(mips=30, l2_mpki=33.0, mpki=31.0, cpi=3.7, cores=0.5)
LBM = Rates(mips=50, l2_mpki=16.0, mpki=12.5, cpi=2.5, cores=0.9)
MCF = Rates(mips=50, l2_mpki=38.0, mpki=6.0, cpi=3.0, cores=0.9)
GIB4_KIB = 4 << 20
VOLDEMORT = Rates(mips=50, l2_mpki=42.0, mpki=22.0, cpi=3.0, cores=0.5)


def actions(host: Host, seconds: int):
    return [action for decision in host.ticks(seconds) for action in decision.actions]


def streams(host: Host, **about) -> Host:
    """Two that start on one node: a seventh slower than apart, and never seen to be faster."""
    for name in ("stream1", "stream2"):
        host.add(name, STREAM_VM, cpus={0, 1}, **{"node": 0, "memory_kib": GIB4_KIB, **about})

    def share(host: Host) -> None:
        together = host.nodes("stream1") & host.nodes("stream2")
        for name in ("stream1", "stream2"):
            host.run(name, replace(STREAM_VM, cpi=7.0) if together else STREAM_VM)

    host.rule = share
    return host


def a_host(*nodes: int, limits: Limits | None = None) -> Host:
    return Host(nodes_of(*nodes), POLICY, knobs=ALL_KNOBS, limits=limits or Limits())


def assert_apart(host: Host) -> None:
    assert not host.share_a_cache("stream1", "stream2")
    for name in ("stream1", "stream2"):
        [domain] = host.domains(name)
        assert host.nodes(name) == {domain}


def test_state_8_vps_that_start_on_one_node_are_separated_without_calibration():
    host = streams(a_host(0, 1, 2))
    action = host.until(SEPARATE)
    assert {c.knob for c in action.changes} == {Knob.PLACEMENT, Knob.MEMORY}
    assert_apart(host)
    assert actions(host, 60) == []


def test_state_8_vps_are_separated_by_what_their_memory_serves():
    """They run apart: the memory of both is on one node, and nothing says that it is hot but the
    sum of their misses."""
    host = streams(a_host(0, 1, 2))
    host.change("stream2", placement=frozenset({2, 3}))
    assert host.tick().nodes[0].is_hot is False
    assert host.tick().nodes[0].is_hot
    host.until(SEPARATE)
    assert_apart(host)


def test_memory_of_state_8_comes_home_whatever_that_costs():
    host = streams(a_host(0, 1, 2))
    host.change("stream2", placement=frozenset({2, 3}), memory_kib=100 * GIB4_KIB)
    host.change("stream2", memory_by_node=((0, 100 * GIB4_KIB),))
    host.until(SEPARATE)
    assert_apart(host)


def test_a_busy_controller_waits_until_everybody_is_known_and_can_be_separated():
    """One is degraded at its controller, and may be moved, while a newcomer elsewhere is not known
    yet: what is done is the separation, of which both STREAMs are a part."""
    host = a_host(0, 1, 2)
    host.add("stream1", STREAM_VM, cpus={0, 1}, node=0)
    assert actions(host, 20) == []
    host.add("stream2", STREAM_VM, cpus={0, 1}, node=0)

    def share(host: Host) -> None:
        together = host.nodes("stream1") & host.nodes("stream2")
        for name in ("stream1", "stream2"):
            host.run(name, replace(STREAM_VM, cpi=9.0) if together else STREAM_VM)

    host.rule = share
    decisions = host.ticks(6)
    host.add("late", MCF, cpus={2, 3}, node=1)
    decisions += host.ticks(60)
    seen = [host.view("stream1", one).detection for one in decisions]
    assert Kind.CONTROLLER in {detection.kind for detection in seen if detection}
    assert [action.reason for one in decisions for action in one.actions] == [SEPARATE]
    assert_apart(host)


def test_below_the_threshold_state_8_vps_stay_together():
    """Three times 31 misses per 1000 instructions are not 100."""
    host = a_host(0, 1, 2)
    for name in ("milc1", "milc2", "milc3"):
        host.add(name, MILC, cpus={0, 1}, node=0)
    assert SEPARATE not in {action.reason for action in actions(host, 60)}


def test_writers_are_separated_below_the_limit_of_readers():
    """Two STREAMs at 91 % of what a controller bears with their write-backs: they make 7.6 million
    misses, where it bears 8.2 million of reads before they queue."""
    curves = (
        LoadCurve(0, 0, 0.0, (LoadPoint(0.0, 100.0), LoadPoint(11.7e6, 300.0))),
        LoadCurve(0, 0, 0.5, (LoadPoint(0.0, 100.0), LoadPoint(12.5e6, 300.0))),
    )
    host = streams(a_host(0, 1, 2, limits=Limits(0.7 * 11.7e6, curves=curves)))
    host.until(SEPARATE)
    assert_apart(host)


def test_memory_that_is_far_loads_the_node_that_it_belongs_to():
    """No controller is hot while it lies elsewhere; at home it would be one that is."""
    host = streams(a_host(0, 1, 2), node=1)
    memory = host.guest("stream2").memory_kib
    host.change("stream2", memory_by_node=((2, memory),))
    host.until(SEPARATE)
    assert_apart(host)


def beside_lbm_and_mcf(lbm: float) -> Host:
    """Two CPUs a node: STREAM and STREAM, lbm and lbm, which count for so much, mcf and mcf."""
    host = streams(a_host(0, 1, 2))
    for name, rates, node, priority in (
        ("lbm1", LBM, 1, lbm),
        ("lbm2", LBM, 1, lbm),
        ("mcf1", MCF, 2, 0.1),
        ("mcf2", MCF, 2, 0.1),
    ):
        host.add(name, rates, cpus={2 * node, 2 * node + 1}, node=node, priority=priority)
    return host


def test_a_state_8_vp_shares_its_cache_with_lbm_rather_than_with_mcf():
    host = beside_lbm_and_mcf(lbm=2.0)
    host.until(SEPARATE)
    assert host.domains("stream1") | host.domains("stream2") == {0, 1}
    assert host.domains("mcf1") == host.domains("mcf2") == {2}


def test_of_two_arrangements_that_one_is_better_in_which_mcf_keeps_its_cache():
    host = beside_lbm_and_mcf(lbm=1.0)
    host.tick()
    seen = build_host(host.picture(), host.state.vps, host.state.undisturbed)
    heats = dict.fromkeys(map(uuid_of, ("stream1", "stream2")), 1.0)
    at = {uuid: location_of(seen, uuid) for uuid in seen.guests}
    separation = Separation(seen, at, heats, [uuid_of("mcf1"), uuid_of("mcf2")])

    def swapped(partner: str) -> Rank:
        one, other = uuid_of("stream2"), uuid_of(partner)
        return separation.rank({one: at[other], other: at[one]})

    assert swapped("lbm1") < swapped("mcf1") < separation.rank({})


def test_nobody_is_separated_at_a_cost_to_others_that_is_more_than_it_brings():
    host = beside_lbm_and_mcf(lbm=10.0)
    assert SEPARATE not in {action.reason for action in actions(host, 60)}


def test_whose_memory_is_far_from_the_first_second_gets_it_local():
    """Voldemort, in state 5: no sample of it was ever better."""
    host = a_host(0, 1)
    host.add("voldemort", VOLDEMORT, cpus={0, 1}, node=1, allowed_cpus=frozenset({0, 1}))
    host.until(BRING_HOME)
    assert host.nodes("voldemort") == {0}


def test_who_has_the_higher_memory_factor_gets_its_memory_first():
    """Matrix-mult loses more, as it is predicted, but misses little of what it references."""
    matrix_mult = Rates(mips=30, l2_mpki=100.0, mpki=35.0, cpi=4.0, cores=0.5)
    host = a_host(0, 1)
    for name, rates in (("matrix-mult", matrix_mult), ("voldemort", VOLDEMORT)):
        host.add(name, rates, cpus={0, 1}, node=1, allowed_cpus=frozenset({0, 1}))
    assert host.until(BRING_HOME).guest_uuid == uuid_of("voldemort")


def test_who_got_its_memory_local_is_judged_by_itself():
    """Others are noisier than what it gains."""
    host = a_host(0, 1, 2)
    host.add("voldemort", VOLDEMORT, cpus={0, 1}, node=1, allowed_cpus=frozenset({0, 1}))
    host.add("other", MCF, cpus={4, 5}, node=2)

    def noisy(host: Host) -> None:
        is_near = host.nodes("voldemort") == {0}
        host.run("voldemort", replace(VOLDEMORT, cpi=2.8 if is_near else 3.0))
        host.run("other", replace(MCF, cpi=3.5 if is_near else 3.0))

    host.rule = noisy
    host.until(BRING_HOME)
    assert actions(host, 60) == []
    assert host.nodes("voldemort") == {0}


@pytest.mark.parametrize(("cpi", "node"), [(3.0, 0), (3.4, 1)])
def test_memory_that_was_brought_home_goes_back_only_if_that_did_harm(cpi, node):
    """The rule asked for it, and copying it back costs as much again."""
    host = a_host(0, 1)
    host.add("voldemort", VOLDEMORT, cpus={0, 1}, node=1, allowed_cpus=frozenset({0, 1}))

    def slower(host: Host) -> None:
        is_near = host.nodes("voldemort") == {0}
        host.run("voldemort", replace(VOLDEMORT, cpi=cpi if is_near else 3.0))

    host.rule = slower
    host.until(BRING_HOME)
    host.ticks(60)
    assert host.nodes("voldemort") == {node}


@pytest.mark.parametrize(
    ("rates", "about"),
    [(MCF, {}), (VOLDEMORT, {"refuses_help": True}), (VOLDEMORT, {"memory_obstacle": "locked"})],
)
def test_memory_stays_of_who_is_not_sensitive_refuses_help_or_cannot(rates, about):
    host = a_host(0, 1)
    host.add("vm", rates, cpus={0, 1}, node=1, allowed_cpus=frozenset({0, 1}), **about)
    assert actions(host, 90) == []


def test_a_separation_that_failed_lately_is_not_made_again():
    made = signature(streams(a_host(0, 1, 2)).until(SEPARATE).changes)
    host = streams(a_host(0, 1, 2))
    host.state = replace(host.state, failed_actions={("somebody", made): 1e9})
    assert signature(host.until(SEPARATE).changes) != made


def test_after_a_look_that_found_nothing_it_looks_again_later():
    host = a_host(0, 1, 2)
    host.add("stream1", STREAM_VM, cpus={0, 1}, node=0)
    host.ticks(POLICY.settle_samples + 1)
    host.add("stream2", STREAM_VM, cpus={0, 1}, node=0)
    assert actions(host, int(LOOK_S) - 1) == []
    host.until(SEPARATE, seconds=3)
