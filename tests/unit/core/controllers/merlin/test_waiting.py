# SPDX-License-Identifier: Apache-2.0
"""Guests that have all their vCPUs, and wait for CPU: what a real host shows of a shortage."""

from dataclasses import replace

import pytest

from nova_vp.core.controllers.merlin.declaration import MORE_CPU
from nova_vp.core.types.cpu_time import CpuTimes
from nova_vp.core.types.reason import Rung
from tests.unit.core.build import ALL_KNOBS, Host, Rates, nodes_of
from tests.unit.core.controllers.merlin.hosts import POLICY, WORKER

WORK = replace(WORKER, cores=2.0)
MILD = Rates(mips=40, l2_mpki=5.0, mpki=2.5, cpi=2.0)
"""State 4: it must not leave its memory, although the model sees no great loss."""


def crowded(
    *nodes: int, rates: Rates = WORK, waits: float = 0.4, others: int = 1, **worker: object
) -> Host:
    """Guests of two vCPUs float over the first domain, which has CPUs for all but one of them, and
    wait while the worker is there; the other domains are empty."""
    host = Host(nodes_of(*nodes, cpus=2 * others), POLICY, knobs=ALL_KNOBS)
    here = set(range(2 * others))
    host.add("worker", rates, cpus=here, vcpus=2, node=0, **worker)
    for number in range(others):
        host.add(f"other-{number}", rates, cpus=here, vcpus=2, node=0, refuses_help=True)
    times = dict.fromkeys(("worker", *(f"other-{number}" for number in range(others))), (0, 0))

    def run(host: Host) -> None:
        is_shared = bool(host.placement("worker") & here)
        waited = waits if is_shared else 0.0
        for name in times:
            ran_ns, run_delay_ns = times[name]
            cores = rates.cores * (1 - waited)
            ran_ns += int(cores * 1e9)
            run_delay_ns += int(rates.cores * waited * 1e9)
            times[name] = (ran_ns, run_delay_ns)
            host.change(name, cpu_times=CpuTimes(ran_ns, run_delay_ns, 0, "1"))
            host.run(name, replace(rates, cores=cores))

    host.rule = run
    return host


def test_who_has_all_its_vcpus_and_waits_asks_and_is_given():
    host = crowded(0, 0, 1)
    action = host.until(MORE_CPU)
    assert (action.rung, host.placement("worker")) == (Rung.LOCAL_CPU, {2, 3})
    assert host.nodes("worker") == {0}
    assert not any(d.actions or d.escalations for d in host.ticks(60))


def test_without_room_at_home_its_vcpus_go_to_another_node():
    host = crowded(0, 1)
    action = host.until(MORE_CPU)
    assert (action.rung, host.placement("worker")) == (Rung.REMOTE_CPU, {2, 3})
    assert host.nodes("worker") == {0}, "its memory stays: it does not mind"


def test_who_minds_where_its_memory_is_takes_it_along():
    """It weighs so little that any distribution is fair."""
    host = crowded(0, 1, rates=replace(MILD, cores=2.0), priority=0.01)
    action = host.until(MORE_CPU)
    assert action.rung is Rung.MOVE_WITH_MEMORY
    assert host.nodes("worker") == {1}


def test_a_move_with_memory_that_brings_little_is_not_made():
    """It waits for eight per cent of its CPU, which copying its memory is not worth."""
    decisions = crowded(0, 1, rates=replace(MILD, l2_mpki=2.6, cores=0.9), waits=0.08).ticks(20)
    assert not any(d.actions for d in decisions)


@pytest.mark.parametrize(
    ("cores", "waits", "gain"),
    [
        pytest.param(2.0, 1 / 3, 1 / 3, id="six cores are wanted of four CPUs"),
        pytest.param(1.3, 0.1, 0.1 / 0.9, id="all fit, and wait all the same"),
    ],
)
def test_who_waits_is_foretold_the_cpu_that_it_lacks_once(cores, waits, gain):
    """By the model where it sees why, else by what was measured, never by both."""
    host = crowded(0, 1, rates=replace(WORKER, cores=cores), waits=waits, others=2)
    action = host.until(MORE_CPU)
    assert action.rung is Rung.REMOTE_CPU
    assert action.evidence["predicted_gain_ratio"] == pytest.approx(gain, abs=0.01)


@pytest.mark.parametrize(("waits", "asks"), [(0.04, False), (0.06, True)])
def test_waiting_counts_from_five_per_cent(waits, asks):
    """Less is no shortage: it uses nearly all of two CPUs, and has them."""
    decisions = crowded(0, 1, rates=replace(WORK, cores=1.9), waits=waits).ticks(30)
    assert any(a.reason is MORE_CPU for d in decisions for a in d.actions) is asks


def test_a_crowded_host_without_another_place_asks_for_nothing():
    """Nothing could be gained on it: who waits there is detected, and told, as degraded."""
    decisions = crowded(0).ticks(90)
    assert not any(d.actions or d.escalations for d in decisions)
