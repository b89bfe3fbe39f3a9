# SPDX-License-Identifier: Apache-2.0
"""Who is degraded beyond the cache: at a memory controller, at a link, or by distance."""

from dataclasses import replace

import pytest

from nova_vp.core.types.detection import Kind
from nova_vp.core.types.sample import State
from nova_vp.core.types.topology import Limits, LoadCurve, LoadPoint
from tests.unit.core.build import ALL_KNOBS, COMPUTE, Host, Rates, nodes_of, uuid_of
from tests.unit.core.hosts import LIMITS, SENSITIVE, STORM, a_node, break_out, kinds
from tests.unit.core.wishful import NOBODY, enabled

STORE = Rates(mips=40, l2_mpki=40.0, mpki=14.0, cpi=2.0, cores=0.5)


def test_the_suspect_is_who_loads_the_node_most():
    host = a_node(0, 0)
    host.add("murmur", COMPUTE, cpus={2, 3}, node=0)
    break_out(host, murmur=replace(STORM, mips=6.5))
    detection = next(d for d in host.ticks(20) if d.detections).detections[0]
    assert [s.guest_uuid for s in detection.suspects] == [uuid_of("storm")]


def test_until_somebody_measures_a_limit_the_thesiss_threshold_tells_a_hot_node():
    host = a_node(0, 0, 1, limits=Limits())
    host.rule = None
    host.run("storm", replace(STORM, mpki=79.0, l2_mpki=80.0))
    assert not host.tick().nodes[0].is_hot
    host.run("storm", replace(STORM, mpki=81.0, l2_mpki=82.0))
    assert host.tick().nodes[0].is_hot
    host.limits = Limits(node_misses_per_s=9e9)
    assert not host.tick().nodes[0].is_hot


def test_a_node_that_writers_fill_is_hot_before_the_limit_of_readers():
    """Reads alone bear 3.5 million lines; with one written per two read, 3.6 million of both."""
    curves = (
        LoadCurve(0, 0, 0.0, (LoadPoint(0.0, 100.0), LoadPoint(3.5e6, 300.0))),
        LoadCurve(0, 0, 0.5, (LoadPoint(0.0, 100.0), LoadPoint(3.6e6, 300.0))),
        LoadCurve(0, 1, 0.5, (LoadPoint(0.0, 100.0), LoadPoint(0.1e6, 300.0))),
    )
    host = a_node(0, 0, 1, limits=Limits(node_misses_per_s=0.7 * 3.5e6, curves=curves))
    host.rule = None
    assert host.tick().nodes[0].limit_misses_per_s == pytest.approx(0.7 * 2.4e6)
    host.run("storm", replace(STORM, mips=15))
    assert host.tick().nodes[0].is_hot


@pytest.mark.parametrize("limits", [Limits(), Limits(node_misses_per_s=9e9)])
def test_the_thesiss_threshold_needs_no_measured_limit(limits):
    by_mpki = enabled(hot_node_by_mpki=True, hot_node_mpki=70.0)
    host = a_node(0, 0, 1, limits=limits, policy=by_mpki)
    assert not host.tick().nodes[0].is_hot
    break_out(host)
    assert kinds(host.ticks(20)) == {Kind.CONTROLLER}
    assert host.tick().nodes[0].is_hot


def test_who_is_slow_while_nothing_is_loaded_is_not_hurt():
    host = a_node(0, 0, 1)
    host.rule = None
    host.run("victim", replace(SENSITIVE, mips=25, cpi=4.0))
    assert kinds(host.ticks(20)) == set()


@pytest.mark.parametrize(
    ("was_hurt", "share", "is_hurt"),
    [(True, 0.95, True), (True, 0.85, False), (False, 0.95, False)],
)
def test_who_is_hurt_stays_so_until_the_load_is_well_below_the_limit(was_hurt, share, is_hurt):
    host = a_node(0, 0)
    if was_hurt:
        break_out(host)
    host.ticks(10)
    slow = replace(SENSITIVE, mips=25, cpi=4.0)
    load = share * LIMITS.node_misses_per_s - slow.mips * slow.mpki * 1000
    host.rule = None
    host.run("victim", slow)
    host.run("storm", replace(STORM, mips=load / STORM.mpki / 1000))
    decisions = host.ticks(20)
    assert not decisions[-1].nodes[0].is_hot
    assert bool(decisions[-1].detections) == is_hurt


def test_a_suspect_that_left_while_its_victim_could_not_be_seen_is_none():
    host = a_node(0, 0, cap_floor_ratio=0.5)
    break_out(host)
    host.ticks(3)
    host.rule = None
    host.run("victim", replace(SENSITIVE, mips=0.01))
    host.leave("storm")
    assert [d.suspects[0].guest_uuid for d in host.tick().detections] == [uuid_of("storm")]


def test_who_runs_on_no_cpu_that_is_known_is_not_far_from_its_memory():
    """A CPU came online after the topology was read; where its memory lies was not read."""
    host = Host(nodes_of(0, 1), NOBODY, limits=LIMITS)
    host.add("stray", SENSITIVE, cpus={9})
    decisions = host.ticks(6)
    assert decisions[-1].vps[0].undisturbed.memory_ratio == 1.0


@pytest.mark.parametrize(("cpi", "is_degraded"), [(2.3, False), (2.6, True)])
def test_after_a_change_of_places_a_few_noisy_samples_are_no_degradation(cpi, is_degraded):
    """15 % of noise in two samples: they are off by more than the tenth that counts."""
    host = a_node(0, 0)
    host.rule = None
    host.run("storm", STORM)
    host.state = replace(host.state, placed_at_s=host.now_s)
    host.run("victim", replace(SENSITIVE, cpi=cpi))
    seen = kinds(host.ticks(4))
    host.run("victim", SENSITIVE)
    assert bool(seen | kinds(host.ticks(20))) is is_degraded


@pytest.mark.parametrize(("mpki", "state"), [(60.0, 8), (28.0, 5)])
def test_a_phase_that_misses_more_by_itself_is_not_the_controllers_doing(mpki, state):
    """More of what it asks the cache for, or the same part of more."""
    host = Host(nodes_of(0, 0), NOBODY, limits=Limits(node_misses_per_s=5e5))
    host.add("vm", STORE, cpus={0, 1}, node=0)
    host.ticks(6)
    host.run("vm", Rates(mips=20, l2_mpki=80.0, mpki=mpki, cpi=4.0))
    decisions = host.ticks(20)
    assert all(d.detections == () for d in decisions)
    assert decisions[-1].nodes[0].is_hot
    assert host.view("vm", decisions[-1]).undisturbed.state == State.from_number(state)


def test_links_are_loaded_by_those_alone_who_run():
    host = Host(nodes_of(0, 1), NOBODY, knobs=ALL_KNOBS, limits=Limits(link_misses_per_s=1e6))
    host.add("vm", STORE, cpus={0, 1}, node=1)
    host.add("idle", Rates(mips=0.1), cpus={0, 1}, node=1)
    host.ticks(6)
    host.run("vm", replace(STORE, mips=80, cpi=3.0))
    detections = [x for d in host.ticks(15) for x in d.detections]
    assert detections[0].kind is Kind.LINK
    assert detections[0].suspects == ()


def test_what_is_not_believed_of_a_guest_loads_neither_node_nor_link():
    """Counters that had a third of the time say anything."""
    limits = Limits(node_misses_per_s=1e6, link_misses_per_s=1e6)
    host = Host(nodes_of(0, 1), NOBODY, knobs=ALL_KNOBS, limits=limits)
    host.add("vm", STORE, cpus={0, 1}, node=1)
    host.add("odd", replace(STORM, mips=600), cpus={0, 1}, node=1)
    host.counts[uuid_of("odd")] = host.counts[uuid_of("odd")]._replace(running_ratio=0.3)
    host.ticks(6)
    host.run("vm", replace(STORE, cpi=3.0))
    decisions = host.ticks(15)
    assert decisions[-1].nodes[1].misses_per_s == pytest.approx(STORE.mips * STORE.mpki * 1000)
    assert Kind.LINK not in kinds(decisions)
    assert Kind.CONTROLLER not in kinds(decisions)
