# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.bench` (`make bench`): all benchmarks, each beside its budget."""

import sys

from tests.bench import agent, anymix, ceiling, mix, onset, scheduler, step, whatif
from tests.bench.harness import run

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
    return max([run(benchmark) for benchmark in BENCHMARKS])


if __name__ == "__main__":
    sys.exit(main())
