# SPDX-License-Identifier: Apache-2.0
"""The discrete-event model of applications, as it is without any coordination."""

from random import Random

import pytest
import simpy

from vp_sim.overlay import setups, uncoordinated
from vp_sim.overlay.applications import Parallel
from vp_sim.overlay.figures import LastCpu, Players
from vp_sim.overlay.scheduler import Cpus, Vm

FITS = [uncoordinated._of_barrier, uncoordinated._of_players, uncoordinated._of_parsec]


def busy(cpus, vm, threads=None):
    def loop():
        while True:
            yield cpus.compute(vm, 0.5)

    for _ in range(threads or vm.vcpus):
        cpus.env.process(loop())
    return vm


def cores(*vms, cpus, seconds=50):
    cpus.env.run(cpus.env.now + seconds)
    for vm in vms:
        vm.count(cpus.env.now)
    return [vm.ran_s / seconds for vm in vms]


def test_servers_share_cpus_by_weight_and_what_one_leaves_goes_to_the_other():
    cpus = Cpus(simpy.Environment(), range(2))
    heavy = busy(cpus, cpus.add(Vm("heavy", 2, frozenset({0, 1}), weight=300)))
    light = busy(cpus, cpus.add(Vm("light", 2, frozenset({0, 1}))))
    single = busy(cpus, cpus.add(Vm("single", 2, frozenset({1}), weight=1)), threads=1)
    assert cores(heavy, light, single, cpus=cpus) == pytest.approx([1.5, 0.5, 0.0], abs=0.05)


def test_a_quota_throttles_and_throttled_time_is_no_waiting():
    cpus = Cpus(simpy.Environment(), range(4))
    vm = cpus.add(Vm("capped", 4, frozenset(range(4))))
    cpus.change(vm, quota_cores=0.25)
    busy(cpus, vm)
    assert cores(vm, cpus=cpus) == pytest.approx([1.0], abs=0.03)
    assert vm.throttled_s == pytest.approx(150, rel=0.1)
    assert vm.waited_s == pytest.approx(0, abs=0.1)


def test_two_threads_share_a_cpu_until_another_one_is_idle():
    cpus = Cpus(simpy.Environment(), range(3))
    vm = cpus.add(Vm("vm", 4, frozenset(range(3))))
    cpus.env.run(cpus.env.all_of([cpus.compute(vm, 1.0) for _ in range(4)]))
    assert cpus.env.now == pytest.approx(1.5, abs=0.04)


def test_who_is_runnable_without_a_cpu_waits():
    cpus = Cpus(simpy.Environment(), range(1))
    pair = [busy(cpus, cpus.add(Vm(name, 1, frozenset({0})))) for name in "ab"]
    cores(*pair, cpus=cpus)
    assert [vm.waited_s for vm in pair] == pytest.approx([25, 25], abs=0.5)


def test_who_slept_has_no_more_than_a_slice_in_hand():
    cpus = Cpus(simpy.Environment(), range(1))
    first, late = (cpus.add(Vm(name, 1, frozenset({0}))) for name in ("first", "late"))
    busy(cpus, first)
    cpus.env.run(20)
    first.count(20)
    before = first.ran_s
    busy(cpus, late)
    cpus.env.run(40)
    first.count(40)
    assert first.ran_s - before == pytest.approx(10, abs=0.5)


def test_a_thread_stays_on_its_cpu_and_takes_longer_away_from_its_memory():
    for near, ends_s in ((frozenset({0}), 2.0), (frozenset({1}), 3.0)):
        cpus = Cpus(simpy.Environment(), range(2))
        vm = Vm("vm", 1, frozenset({0, 1}), near=near, remote_slowdown_ratio=1.5)
        cpus.env.run(cpus.compute(cpus.add(vm), 2.0))
        assert cpus.env.now == pytest.approx(ends_s, abs=0.01)
        assert vm.ran_s == pytest.approx(ends_s, abs=0.01)


@pytest.mark.parametrize("spins", [True, False])
def test_at_a_barrier_a_thread_that_spins_uses_its_cpu_until_the_last_one_is_there(spins):
    cpus = Cpus(simpy.Environment(), range(2))
    quick, slow = (cpus.add(Vm(f"vm-{cpu}", 1, frozenset({cpu}))) for cpu in range(2))
    ranks = Parallel(cpus, Random(1), (quick, slow), 1.0, 0.0, phases=2, spins=spins)
    busy(cpus, cpus.add(Vm("other", 1, frozenset({1}))))
    ranks.begin()
    cpus.env.run(ranks.is_over)
    assert cpus.env.now == pytest.approx(4.0, abs=0.1)
    quick.count(cpus.env.now)
    assert quick.ran_s == pytest.approx(4.0 if spins else 2.0, abs=0.2)


@pytest.mark.parametrize("fits", FITS)
def test_the_model_was_fitted_to_what_is_printed_without_coordination(fits):
    for fit in fits(seed=1):
        assert fit.modelled == pytest.approx(fit.printed, rel=0.05), fit.what


def test_in_figure_6_neither_player_keeps_its_rate():
    setup = setups.two_streams(Players(), seed=1)
    setup.run_until(60)
    slow, fast = (setup.players[name].decoded / 60 for name in ("slow", "fast"))
    assert slow == pytest.approx(0.95 * Players().slow_fps, rel=0.01)
    assert fast == pytest.approx(0.95 * Players().fast_fps, rel=0.01)


def test_answers_that_come_too_late_are_lost():
    figures = LastCpu(timeout_s=0.05)
    setup = setups.last_cpu(figures, seed=1)
    setup.run_until(5)
    assert len(setup.web.served_at_s) < 0.5 * 5 * 800


def test_a_web_server_that_turns_clients_away_serves_less_than_it_could():
    offered = (uncoordinated.KNEE_PER_S, LastCpu().requests_per_s)
    knee, overloaded = (uncoordinated.web_per_s(1, one) for one in offered)
    assert knee == pytest.approx(1500, rel=0.02)
    assert 0.4 * knee < overloaded < 0.9 * knee
