# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.bench [NAME ...]` (`make bench`): all benchmarks, or those of these names, each
beside its budget."""

import argparse
import sys

from tests.bench import (
    agent,
    anymix,
    best_effort,
    best_effort_validation,
    calibration,
    ceiling,
    guest_calibration,
    mix,
    onset,
    overlay,
    overlay_sim,
    permits,
    permits_cleared,
    scheduler,
    step,
    stream_receiver,
    validation,
    whatif,
)
from tests.bench.harness import run

BENCHMARKS = (
    agent.BENCHMARK,
    anymix.BENCHMARK,
    best_effort.BENCHMARK,
    best_effort_validation.BENCHMARK,
    calibration.BENCHMARK,
    ceiling.BENCHMARK,
    guest_calibration.BENCHMARK,
    mix.BENCHMARK,
    onset.BENCHMARK,
    overlay.BENCHMARK,
    overlay_sim.BENCHMARK,
    permits.BENCHMARK,
    permits_cleared.BENCHMARK,
    step.BENCHMARK,
    scheduler.BENCHMARK,
    stream_receiver.BENCHMARK,
    validation.BENCHMARK,
    whatif.BENCHMARK,
)


def main() -> int:
    by_name = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(by_name))
    names = parser.parse_args().names
    if unknown := [name for name in names if name not in by_name]:
        parser.error(f"no benchmark {', '.join(unknown)}: give some of {', '.join(by_name)}")
    return max(run(by_name[name]) for name in names or by_name)


if __name__ == "__main__":
    sys.exit(main())
