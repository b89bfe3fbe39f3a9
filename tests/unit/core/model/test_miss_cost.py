# SPDX-License-Identifier: Apache-2.0
"""What a miss costs a VP is learned from its own samples; until then the default holds."""

import json
from dataclasses import replace
from random import Random

import pytest

from nova_vp.core.model.miss_cost import faded, learned, miss_cycles
from nova_vp.core.types.sample import NO_MISS_COST, MissCost, Sample
from nova_vp.core.types.state import CoreState
from nova_vp.recording.codec import codec_of
from tests.policies import a_policy
from tests.unit.core.build import Host, Rates, nodes_of, uuid_of
from tests.unit.core.wishful import NOBODY
from tests.unit.sim.solo import guests, speeds

POLICY = a_policy()
DEFAULT = POLICY.miss_penalty_cycles
BASE = Rates(mips=50, l2_mpki=30.0, mpki=5.0, cpi=2.0)
CYCLES = 60.0


def seen(mpki: float, noise: float = 0.0, random: Random | None = None, **about) -> Sample:
    """Of a VP whose misses cost `CYCLES` each."""
    off = random.uniform(1 - noise, 1 + noise) if random else 1.0
    values = {"l2_mpki": 30.0, "cpi": 1.7 + CYCLES * mpki / 1000, **about}
    return Sample(
        at_s=0.0,
        span_s=1.0,
        instructions_per_s=1e9,
        cpi=values["cpi"] * off,
        l2_mpki=values["l2_mpki"] * off,
        mpki=mpki * off,
        memory_factor=mpki / 30,
        misses_per_s=1e6 * mpki,
        references_per_s=3e7,
        remote_ratio=0.0,
        cpu_cores=1.0,
        busiest_cores=1.0,
        running_ratio=1.0,
    )


def after(*samples: Sample) -> MissCost:
    known = NO_MISS_COST
    for sample in samples:
        known = learned(known, sample, POLICY)
    return known


VARIED = (5.0, 6.0, 10.0, 12.0, 20.0, 11.0, 5.0, 25.0)


def test_the_slope_of_cycles_over_misses_is_the_cost():
    assert miss_cycles(after(*map(seen, VARIED)), POLICY) == pytest.approx(CYCLES, rel=0.02)


@pytest.mark.parametrize(
    "samples",
    [(), tuple(map(seen, VARIED[:4])), tuple(seen(20.0) for _ in range(50))],
    ids=["none", "few", "alike"],
)
def test_while_nothing_is_certain_the_default_holds(samples):
    assert miss_cycles(after(*samples), POLICY) == DEFAULT


def test_noise_of_the_counters_is_no_variation():
    """It moves both figures, since both are per instruction: they seem to belong together."""
    random = Random(3)
    noisy = [seen(20.0, 0.15, random) for _ in range(100)]
    assert miss_cycles(after(*noisy), POLICY) == DEFAULT


def test_the_less_certain_the_more_the_default_counts():
    pairs = [(mpki, off) for mpki in VARIED for off in (-0.9, 0.9)]
    scattered = [seen(mpki, cpi=1.7 + CYCLES * mpki / 1000 + off) for mpki, off in pairs]
    assert CYCLES * 1.1 < miss_cycles(after(*scattered), POLICY) < DEFAULT


def test_other_work_begins_anew():
    known = after(*map(seen, VARIED), seen(20.0, l2_mpki=60.0))
    assert known.weight == 1
    assert miss_cycles(known, POLICY) == DEFAULT


@pytest.mark.parametrize(("sign", "times"), [(-1, 0.25), (40, 4.0)])
def test_what_cannot_be_is_bounded(sign, times):
    odd = [seen(mpki, cpi=3.0 + sign * CYCLES * (mpki - 5) / 1000) for mpki in VARIED]
    assert miss_cycles(after(*odd), POLICY) == DEFAULT * times


def noisy(name: str, neighbours: int, random: Random) -> tuple[float, float, float]:
    """(L2 misses, LLC misses, cycles) per 1000 instructions and cycle, as counters see them."""
    speed = speeds(guests(name, 0), *[guests("lbm", 0)] * neighbours)[0]
    instructions, *counts = (
        value * random.gauss(1, 0.03)
        for value in (
            speed.instructions_per_s,
            speed.references_per_s,
            speed.misses_per_s,
            speed.cycles_per_s,
        )
    )
    references, misses, cycles = (count / instructions for count in counts)
    return 1000 * references, 1000 * misses, cycles


@pytest.mark.parametrize("name", ["mcf", "matrix-mult"])
def test_the_learned_cost_foretells_a_simulated_vp_better_than_the_default(name):
    """Beside none, one and three neighbours it learns; what two cost it is foretold."""
    random = Random(7)
    known = NO_MISS_COST
    for neighbours in [0] * 20 + [1] * 20 + [3] * 20:
        l2_mpki, mpki, cpi = noisy(name, neighbours, random)
        known = learned(known, seen(mpki, l2_mpki=l2_mpki, cpi=cpi), POLICY)
    alone, beside = (speeds(guests(name, 0), *[guests("lbm", 0)] * n)[0] for n in (0, 2))
    extra_mpki = beside.mpki - alone.mpki

    def error(cycles: float) -> float:
        return abs(alone.cpi + cycles * extra_mpki / 1000 - beside.cpi)

    assert error(miss_cycles(known, POLICY)) < 0.5 * error(DEFAULT)


def a_learner(**about) -> Host:
    host = Host(nodes_of(0, 1), NOBODY)
    host.add("vp", BASE, cpus={0, 1}, **{"node": 0, **about})
    return host


def runs_of(host: Host) -> MissCost:
    for mpki in VARIED * 2:
        host.run("vp", replace(BASE, mpki=mpki, cpi=1.7 + CYCLES * mpki / 1000))
        host.tick()
    return host.state.vps[uuid_of("vp")].miss_cost


def test_every_vp_learns_while_its_memory_is_near_and_idle():
    host = a_learner()
    assert miss_cycles(runs_of(host), POLICY) == pytest.approx(CYCLES, rel=0.05)


def test_nobody_learns_from_the_wait_that_others_cause():
    host = a_learner()
    for number in range(3):
        host.add(f"other{number}", replace(BASE, l2_mpki=40.0, mpki=35.0), cpus={0, 1}, node=0)
    assert runs_of(host) == NO_MISS_COST


def test_nobody_learns_from_memory_that_is_far_away():
    assert runs_of(a_learner(node=1)) == NO_MISS_COST


def test_what_was_learned_before_the_start_is_where_a_vp_goes_on_from():
    known = runs_of(a_learner())
    again = a_learner()
    again.state = CoreState(miss_costs={uuid_of("vp"): known})
    again.ticks(3)
    cost = again.state.vps[uuid_of("vp")].miss_cost
    assert cost.weight > known.weight
    assert miss_cycles(cost, POLICY) == pytest.approx(CYCLES, rel=0.05)


def test_what_faded_says_the_same_less_firmly():
    known = after(*map(seen, VARIED * 3))
    off = [abs(miss_cycles(faded(known, share), POLICY) - CYCLES) for share in (1.0, 0.5, 0.25)]
    assert off == sorted(off)
    assert miss_cycles(faded(known, 0.001), POLICY) == DEFAULT
    goes_on = learned(faded(known, 0.5), seen(7.0), POLICY)
    assert goes_on.mpki == pytest.approx(known.mpki, abs=1.0)


def test_what_was_learned_is_recorded_with_the_state():
    host = a_learner()
    known = runs_of(host)
    codec = codec_of(CoreState)
    again = codec.decode(json.loads(json.dumps(codec.encode(host.state))))
    assert again.vps[uuid_of("vp")].miss_cost == known
