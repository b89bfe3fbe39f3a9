# SPDX-License-Identifier: Apache-2.0
"""How long an operator waits for `vp-sim compare` of three policies over 40 start orders, and what
the time goes to.

The whole command is timed as it is typed, start-up included. Single runs are then taken apart into
the model (the host runs for a second) and the policy (it looks, decides and acts).
"""

import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.bench.harness import Benchmark, Numbers, command_line, progress, scaled
from vp_sim.mixes import MIXES
from vp_sim.policies import Create, Policy, find
from vp_sim.run import simulate, world_of
from vp_sim.sim_drivers import SimDrivers

MIX = "stream-spec"
POLICIES = ("baseline", "llc", "vp")
RUNS = 40
TAKEN_APART = 5


def measure() -> Numbers:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began_s = time.perf_counter()
    subprocess.run(
        [str(Path(sys.executable).with_name("vp-sim")), "compare", "--json", "--mix", MIX]
        + ["--policies", ",".join(POLICIES), "--runs", str(RUNS)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    numbers = {"compare_s": time.perf_counter() - began_s}
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    numbers["compare_cpu_s"] = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    progress(f"compare: {numbers['compare_s']:.1f} s")
    for name, create in find(POLICIES).items():
        numbers |= _taken_apart(name, create)
    return {key: round(value, 4) for key, value in numbers.items()}


def _taken_apart(name: str, create: Create) -> dict[str, float]:
    """CPU seconds of one run: in the model, and in the policy."""
    world = world_of(MIXES[MIX])
    clock = _Clock(create)
    began_s = time.process_time()
    for seed in range(TAKEN_APART):
        simulate(world, clock, seed)
    whole_s = time.process_time() - began_s
    progress(f"{name}: {whole_s / TAKEN_APART:.2f} s of CPU a run")
    return {
        f"{name}_model_cpu_s": (whole_s - clock.policy_s) / TAKEN_APART,
        f"{name}_policy_cpu_s": clock.policy_s / TAKEN_APART,
    }


@dataclass(slots=True)
class _Clock:
    """Creates a policy and notes how long it takes."""

    create: Create
    policy_s: float = 0.0
    _policy: Policy | None = None

    def __call__(self, drivers: SimDrivers, random: Random) -> "_Clock":
        self._policy = self.create(drivers, random)
        return self

    def tick(self, now_s: float) -> None:
        assert self._policy is not None
        began_s = time.process_time()
        self._policy.tick(now_s)
        self.policy_s += time.process_time() - began_s


BENCHMARK = Benchmark(
    name="whatif",
    about=f"vp-sim compare of {len(POLICIES)} policies over {RUNS} start orders, {MIX}",
    budgets={"compare_s": scaled(15.0)},
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(command_line(BENCHMARK))
