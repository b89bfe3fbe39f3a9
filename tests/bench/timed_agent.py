# SPDX-License-Identifier: Apache-2.0
"""`vp-agent` with a stopwatch around the decision alone, so that the product needs none.

`python -m tests.bench.timed_agent TIMES ARGUMENTS...`: TIMES gets one line per decision: when it
began (monotonic seconds), its CPU and its wall time (nanoseconds).
"""

import sys
import time
from typing import Any

from vp_agent.cli.main import main
from vp_agent.loop import tick

step = tick.step


def timed(times: list[str], *arguments: Any) -> Any:
    began_s, wall_ns, cpu_ns = time.monotonic(), time.perf_counter_ns(), time.thread_time_ns()
    result = step(*arguments)
    cpu_ns, wall_ns = time.thread_time_ns() - cpu_ns, time.perf_counter_ns() - wall_ns
    times.append(f"{began_s:.3f} {cpu_ns} {wall_ns}\n")
    return result


if __name__ == "__main__":
    kept: list[str] = []
    tick.step = lambda *arguments: timed(kept, *arguments)  # type: ignore[assignment]
    path = sys.argv.pop(1)
    status = main()
    with open(path, "w") as file:
        file.writelines(kept)
    sys.exit(status)
