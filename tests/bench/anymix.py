# SPDX-License-Identifier: Apache-2.0
"""Random mixes on random machines, one start order each: does a policy ever make a host worse, and
does it find what there is to gain?

`--mixes`, `--policies`, `--seconds` bound it; `--worst N` says on stderr what went wrong in the N
worst mixes. Look at one again with `vp-sim run --mix random:SEED --seed SEED`.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from random import Random
from statistics import median, quantiles
from typing import NamedTuple

from nova_vp.core.types.action import Action
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Policy as CorePolicy
from tests.bench.harness import Benchmark, Budget, Numbers, fixed, progress, run
from tests.bench.placements import Measure, best_static
from vp_sim.host import SimHost
from vp_sim.measure import efficiency
from vp_sim.mixes import Mix
from vp_sim.policies import BASELINE, Create, Policy, find
from vp_sim.random_mix import PREFIX, any_mix
from vp_sim.replay_log import value_text
from vp_sim.run import Run, World, simulate, start, world_of
from vp_sim.sim_drivers import SimDrivers
from vp_sim.timeline import names_of

MIXES = 1000
SECONDS = 240.0
POLICIES = ("vp", "merlin")
PE_LOSS = 0.02
POINTS = 5.0
GAP = 0.05
CLOSED = 0.5
"""They settle a guest where it was to be: no hold binds them."""
PROGRESS_EVERY = 25


@dataclass(slots=True)
class Witness:
    """Creates a policy and notes what it does."""

    create: Create
    actions: list[Action] = field(default_factory=list)
    host: SimHost | None = None
    _policy: Policy | None = None

    def __call__(self, drivers: SimDrivers, random: Random) -> "Witness":
        self._policy = self.create(drivers, random)
        self.host = drivers.guests.host
        return self

    def tick(self, now_s: float) -> None:
        assert self._policy is not None
        self._policy.tick(now_s)
        decision = getattr(self._policy, "decision", None)
        if decision is not None:
            self.actions += decision.actions


class Found(NamedTuple):
    """One policy on one mix, against the same start without management."""

    policy: str
    pe_ratio: float
    points: Mapping[str, float]
    """By application: how much longer its job took, in percent of the time without."""
    moved_twice: int
    closed_ratio: float | None
    """Of the gap between the start and the best static placement; None: no gap, or not searched."""
    actions: tuple[str, ...]

    @property
    def worst(self) -> tuple[str, float]:
        return max(self.points.items(), key=lambda item: item[1])


class Trial(NamedTuple):
    seed: int
    about: str
    is_elastic: bool
    """Its guests start with CPUs of their own: more CPU costs efficiency where memory is short."""
    is_searched: bool
    found: tuple[Found, ...]


def trial(seed: int, policies: Sequence[str], search: bool = True) -> Trial:
    mix = any_mix(seed)
    world = world_of(mix)
    create = find((BASELINE, *policies))
    baseline = simulate(world, create[BASELINE], seed)
    measure = Measure(world)
    initial = start(world, seed)
    best = best_static(world, initial, measure) if search else None
    at_start = measure.of_host(initial)
    found = []
    for name in policies:
        witness = Witness(create[name])
        run = simulate(world, witness, seed)
        closed = _closed(measure, witness, at_start, best)
        found.append(_found(name, run, baseline, witness, world, closed))
    return Trial(seed, _about(mix), _is_elastic(mix), best is not None, tuple(found))


def _closed(
    measure: Measure, witness: Witness, at_start: float, best: float | None
) -> float | None:
    if best is None or best < at_start * (1 + GAP):
        return None
    assert witness.host is not None
    return (measure.of_host(witness.host) - at_start) / (best - at_start)


def _found(
    name: str, run: Run, baseline: Run, witness: Witness, world: World, closed: float | None
) -> Found:
    cores = len(world.machine.topology.cpus)
    pe, was = (efficiency(one, baseline.seconds, cores) for one in (run, baseline))
    host = witness.host
    assert host is not None
    return Found(
        policy=name,
        pe_ratio=pe / was,
        points={n: 100 * (took / baseline.seconds[n] - 1) for n, took in run.seconds.items()},
        moved_twice=moved_twice(witness.actions),
        closed_ratio=closed,
        actions=tuple(_line(action, names_of(host)) for action in witness.actions),
    )


def moved_twice(actions: Sequence[Action]) -> int:
    """How often a guest was moved again, vCPUs or memory, within the hold time."""
    hold_s = CorePolicy().move_hold_s
    last: dict[str, float] = {}
    again = 0
    for action in actions:
        moving = (c for c in action.changes if c.knob in (Knob.PLACEMENT, Knob.MEMORY))
        moved = {change.guest_uuid for change in moving}
        if action.reason.takes_away and not action.is_undo:
            again += sum(action.decided_s - last[uuid] < hold_s for uuid in moved & last.keys())
        last |= dict.fromkeys(moved, action.decided_s)
    return again


def _is_elastic(mix: Mix) -> bool:
    return any(member.initial_cores for member in mix.members)


def _about(mix: Mix) -> str:
    shape, guests = mix.shape, sum(m.row.guests for m in mix.members)
    vcpus = sum((m.initial_cores or m.row.vcpus) * m.row.guests for m in mix.members)
    cpus = len(shape.topology().cpus)
    elastic = ", elastic" if _is_elastic(mix) else ""
    kind = "SMP" if shape.private.value == "l1" else "NUMA"
    return (
        f"{kind} {shape.nodes}x{shape.domains_per_node}x{shape.cores_per_domain}, {guests} VMs of "
        f"{len(mix.members)}, {vcpus}/{cpus} CPUs, {mix.fill.value}, memory {mix.memory.value}"
        f"{elastic}"
    )


def _line(action: Action, names: Mapping[str, str]) -> str:
    what = ", ".join(
        f"{names[c.guest_uuid]} {c.knob.value}>{value_text(c.to)}" for c in action.changes
    )
    victim = f" for {names[action.victim_uuid]}" if action.victim_uuid else ""
    return f"{action.decided_s:.0f}s {action.reason.code}{victim} [{what}]"


def trials(mixes: int, policies: Sequence[str], seconds: float) -> list[Trial]:
    """On all CPUs, seed by seed, until they are done or the time is over."""
    until_s = time.monotonic() + seconds
    done: list[Trial] = []
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), fresh) as pool:
        futures = [pool.submit(_trial_in_time, s, tuple(policies), until_s) for s in range(mixes)]
        for future in as_completed(futures):
            one = future.result()
            if one is not None:
                done.append(one)
                if len(done) % PROGRESS_EVERY == 0:
                    progress(f"{len(done)} mixes")
    return sorted(done)


def _trial_in_time(seed: int, policies: tuple[str, ...], until_s: float) -> Trial | None:
    return trial(seed, policies) if time.monotonic() < until_s else None


def numbers_of(done: Sequence[Trial], policies: Sequence[str]) -> dict[str, float]:
    numbers: dict[str, float] = {
        "mixes": float(len(done)),
        "mixes_elastic": float(sum(one.is_elastic for one in done)),
        "mixes_searched": float(sum(one.is_searched for one in done)),
    }
    for number, name in enumerate(policies):
        numbers |= {f"{name}_{key}": n for key, n in _of([o.found[number] for o in done]).items()}
        elastic = [one.found[number] for one in done if one.is_elastic]
        numbers[f"{name}_pe_below_elastic"] = float(_pe_below(elastic))
        numbers[f"{name}_mixes_with_loss_elastic"] = float(_with_loss(elastic))
    return numbers


def _of(found: Sequence[Found]) -> dict[str, float]:
    ratios = [one.pe_ratio for one in found]
    losses = [one.worst[1] for one in found]
    closed = [one.closed_ratio for one in found if one.closed_ratio is not None]
    missed = sum(part < CLOSED for part in closed)
    numbers = {
        "pe_worst": min(ratios),
        "pe_p1": quantiles(ratios, n=100, method="inclusive")[0] if len(ratios) > 1 else ratios[0],
        "pe_median": median(ratios),
        "pe_below": float(_pe_below(found)),
        "largest_loss_points": max(losses),
        "mixes_with_loss": float(_with_loss(found)),
        "moved_twice": float(sum(one.moved_twice for one in found)),
        "gaps": float(len(closed)),
        "gaps_missed_ratio": missed / len(closed) if closed else 0.0,
    }
    return {key: round(value, 4) for key, value in numbers.items()}


def _pe_below(found: Sequence[Found]) -> int:
    return sum(one.pe_ratio < 1 - PE_LOSS for one in found)


def _with_loss(found: Sequence[Found]) -> int:
    return sum(one.worst[1] > POINTS for one in found)


def tell_worst(done: Sequence[Trial], number: int) -> None:
    """By how far each is beyond what is asked: efficiency, somebody's loss, a gap left open."""
    cases = [(_badness(found), one, found) for one in done for found in one.found]
    cases.sort(key=lambda case: -case[0])
    for badness, one, found in cases[:number]:
        label, points = found.worst
        gap = "" if found.closed_ratio is None else f", gap closed {found.closed_ratio:.0%}"
        progress(
            f"{PREFIX}{one.seed} {found.policy} ({badness:.1f}): {one.about}: PE "
            f"{found.pe_ratio:.3f}, {label} loses {points:.1f} points{gap}: "
            f"{'; '.join(found.actions) or 'no action'}"
        )


def _badness(found: Found) -> float:
    pe = (1 - PE_LOSS - found.pe_ratio) / PE_LOSS
    loss = (found.worst[1] - POINTS) / POINTS
    return max(pe, loss) + 100 * found.moved_twice


def tell_missed(done: Sequence[Trial], number: int) -> None:
    cases = [
        (found.closed_ratio, one, found)
        for one in done
        for found in one.found
        if found.closed_ratio is not None and found.closed_ratio < CLOSED
    ]
    cases.sort(key=lambda case: case[0])
    for closed, one, found in cases[:number]:
        progress(
            f"{PREFIX}{one.seed} {found.policy}: {one.about}: gap closed {closed:.0%}, PE "
            f"{found.pe_ratio:.3f}: {'; '.join(found.actions) or 'no action'}"
        )


def _budgets(policies: Sequence[str]) -> dict[str, Budget]:
    asked = {
        "pe_below": fixed(0),
        "mixes_with_loss": fixed(0),
        "moved_twice": fixed(0),
        "gaps_missed_ratio": fixed(0.2),
    }
    return {f"{name}_{key}": limit for name in policies for key, limit in asked.items()}


def _benchmark(mixes: int, policies: Sequence[str], seconds: float, worst: int) -> Benchmark:
    def measure() -> Numbers:
        began_s = time.monotonic()
        done = trials(mixes, policies, seconds)
        tell_worst(done, worst)
        tell_missed(done, worst)
        return {**numbers_of(done, policies), "seconds": round(time.monotonic() - began_s, 1)}

    return Benchmark(
        name="anymix",
        about=f"random mixes against no management, at most {seconds:.0f} s",
        budgets=_budgets(policies),
        measure=measure,
    )


BENCHMARK = _benchmark(MIXES, POLICIES, SECONDS, worst=0)


def main() -> int:
    parser = argparse.ArgumentParser(description=BENCHMARK.about)
    parser.add_argument("--json", action="store_true", help="the numbers alone, as JSON")
    parser.add_argument("--mixes", type=int, default=MIXES, help="seeds 0 and up (%(default)s)")
    parser.add_argument("--policies", default=",".join(POLICIES), help="by commas (%(default)s)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="at most (%(default)s)")
    parser.add_argument("--worst", type=int, default=0, help="tell so many of the worst mixes")
    asked = parser.parse_args()
    policies = tuple(asked.policies.split(","))
    benchmark = _benchmark(asked.mixes, policies, asked.seconds, asked.worst)
    return run(benchmark, as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())
