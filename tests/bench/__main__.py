# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.bench` (`make bench`): all benchmarks, each beside its budget."""

import sys

from tests.bench import agent, anymix, ceiling, mix, onset, scheduler, step, whatif
from tests.bench.harness import show

BENCHMARKS = (
    agent.BENCHMARK,
    anymix.BENCHMARK,
    ceiling.BENCHMARK,
    mix.BENCHMARK,
    onset.BENCHMARK,
    step.BENCHMARK,
    scheduler.BENCHMARK,
    whatif.BENCHMARK,
)


def main() -> int:
    missed = 0
    for benchmark in BENCHMARKS:
        numbers = benchmark.measure()
        show(benchmark, numbers)
        missed += len(benchmark.missed(numbers))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
