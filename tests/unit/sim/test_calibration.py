# SPDX-License-Identifier: Apache-2.0
"""What policies learn of a modelled host's memory: what a calibration measures, nothing else."""

from random import Random

import pytest

from nova_vp.core.types.topology import NO_LIMITS, Limits
from tests.bench.calibration import NoNoise, calibrated, errors
from vp_agent.calibration.capacity import KNEE_RATIO
from vp_sim.calibration import Calibrator, ModelledMemory
from vp_sim.machine import LINE_BYTES, Machine, Shape, machine_of
from vp_sim.mixes import MIXES
from vp_sim.policies import find
from vp_sim.run import simulate, world_of

MIX = MIXES["stream-spec"]
SEEDS = range(8)
EXACT = 1e-4
"""Whoever is nearer than this was handed the figure."""


def truth(machine: Machine) -> Limits:
    """What nobody but the model may know."""
    costs = machine.costs
    return Limits(
        node_misses_per_s=costs.node_gbps * 1e9 / LINE_BYTES * KNEE_RATIO,
        link_misses_per_s=costs.link_gbps * 1e9 / LINE_BYTES * KNEE_RATIO,
        remote_penalty_ratio=costs.remote_ns / costs.local_ns,
    )


def figures(limits: Limits) -> tuple[float, float, float]:
    assert limits.node_misses_per_s
    assert limits.link_misses_per_s
    return limits.node_misses_per_s, limits.link_misses_per_s, limits.remote_penalty_ratio


class Ended(Exception):
    """A run need not go on."""


def limits_of_a_policy(world, seed: int) -> Limits:
    """As the core has them in its first picture."""
    create = find(("vp",))["vp"]
    seen: list[Limits] = []

    class Watched:
        def __init__(self, drivers, random):
            self._policy = create(drivers, random)

        def tick(self, now_s):
            self._policy.tick(now_s)
            seen.append(self._policy._picture(now_s).limits)
            raise Ended

    with pytest.raises(Ended):
        simulate(world, Watched, seed)
    return seen[0]


def test_no_policy_ever_sees_the_models_own_figures():
    world = world_of(MIX)
    true = figures(truth(world.machine))
    for seed in SEEDS:
        found = figures(limits_of_a_policy(world, seed))
        off = [abs(one / exact - 1) for one, exact in zip(found, true, strict=True)]
        assert min(off) > EXACT, f"seed {seed}: {found} of {true}"


def test_a_policy_has_what_the_calibration_found():
    world = world_of(MIX)
    assert limits_of_a_policy(world, 3) == world.calibrator.limits(3)
    assert limits_of_a_policy(world, 3).curves


def test_noise_differs_by_seed_and_is_the_same_for_the_same_seed():
    machine = machine_of()
    found = [figures(Calibrator(machine).limits(seed)) for seed in SEEDS]
    for column in zip(*found, strict=True):
        assert len(set(column)) == len(SEEDS)
    assert figures(Calibrator(machine).limits(0)) == found[0]


def test_the_noise_is_what_one_measurement_may_be_off():
    """Two standard deviations of a rate, and of the ratio of two latencies."""
    machine = machine_of()
    model = ModelledMemory(machine)
    without = calibrated(model, machine, NoNoise())
    for seed in SEEDS:
        off = errors(calibrated(model, machine, Random(f"some-{seed}")), without, machine)
        assert abs(off.node_noise) <= 0.07
        assert abs(off.link_noise) <= 0.07
        assert abs(off.remote_penalty) <= 0.14


def test_without_noise_latency_rises_with_the_load_from_the_idle_one():
    machine = machine_of()
    limits = calibrated(ModelledMemory(machine), machine, NoNoise())
    assert len(limits.curves) == 2 * len(machine.topology.nodes) ** 2
    for curve in limits.curves:
        latencies = [point.latency_ns for point in curve.points]
        is_local = curve.cpu_node == curve.memory_node
        idle_ns = machine.costs.local_ns if is_local else machine.costs.remote_ns
        assert latencies[0] == pytest.approx(idle_ns, rel=0.1)
        assert latencies == sorted(latencies)
        assert latencies[-1] > 1.2 * latencies[0]


def test_a_machine_with_half_the_bandwidth_is_found_to_have_half():
    machine = machine_of()
    slow = machine._replace(
        costs=machine.costs._replace(
            node_gbps=machine.costs.node_gbps / 2, link_gbps=machine.costs.link_gbps / 2
        )
    )
    node, link, _ = figures(calibrated(ModelledMemory(machine), machine, NoNoise()))
    half_node, half_link, _ = figures(calibrated(ModelledMemory(slow), slow, NoNoise()))
    assert half_node / node == pytest.approx(0.5, rel=0.15)
    assert half_link / link == pytest.approx(0.5, rel=0.15)


def test_nobody_knows_the_limits_of_a_node_of_one_cpu():
    machine = machine_of(Shape(nodes=2, domains_per_node=1, cores_per_domain=1))
    assert Calibrator(machine).limits(0) == NO_LIMITS
