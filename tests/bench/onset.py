# SPDX-License-Identifier: Apache-2.0
"""How long harm lasts: from a guest's switch to `stream` to the changed affinity in the kernel.

Five fresh onsets on the real cloud in mode enforce, each with a neighbour that nobody has met
before. Both moments are read from outside: the guest's console and the kernel.
"""

import subprocess
import sys
from typing import Any

from testbed.lab import cloud, settings
from testbed.lab.lag_meter import LagMeter
from testbed.lab.monitor import LabMonitor
from tests.bench.harness import Benchmark, Numbers, command_line, fixed, progress
from tests.lab.hosts import set_mode, wait_until_homed, wait_until_measured

HOST = "vp1"
ONSETS = 5
SWITCH_AT_UPTIME_S = 25


def measure() -> Numbers:
    was_up = bool(cloud.hosts())
    lab = str(settings.LAB / "lab")
    subprocess.run([lab, "up"], check=True, stdout=sys.stderr)
    try:
        return measure_on(cloud.connect())
    finally:
        if not was_up:
            subprocess.run([lab, "down"], check=True, stdout=sys.stderr)


def measure_on(admin: Any) -> Numbers:
    cloud.delete(admin, *admin.compute.servers())
    set_mode(HOST, "enforce")
    watch, debt = LabMonitor(HOST), LagMeter(HOST)
    try:
        for name, flavor, work in (
            ("filler", "vp.small", "compute"),
            ("victim", "vp.tiny", "chase"),
        ):
            server = cloud.boot(admin, f"bench-{name}", flavor, f"work={work}", host=HOST)
            wait_until_homed(HOST, server.id)
        spans = [one_onset(admin, watch, server.id, number) for number in range(1, ONSETS + 1)]
        debt_ratio = debt.recent_ratio(60.0)
    finally:
        watch.close()
        debt.close()
        set_mode(HOST, "observe")
        cloud.delete(admin, *admin.compute.servers())
    each = {f"onset_{number}_s": span_s for number, span_s in enumerate(spans, 1)}
    return {"seconds_to_action": max(spans), **each, "debt_ratio": debt_ratio}


def one_onset(admin: Any, watch: LabMonitor, victim_id: str, number: int) -> float:
    work = f"work=compute@until={SWITCH_AT_UPTIME_S},stream:8192"
    server = cloud.boot(admin, f"bench-neighbour-{number}", "vp.tiny", work, host=HOST)
    if wait_until_homed(HOST, server.id) != wait_until_homed(HOST, victim_id):
        raise cloud.LabError("the neighbour was not homed beside the victim: is the host empty?")
    wait_until_measured(HOST, victim_id, state=0)
    neighbour = watch.add("neighbour", server.id)
    moves = len(neighbour.moves)
    cloud.wait_for(lambda: neighbour.console.switches, "the switch", deadline_s=90)
    cloud.wait_for(lambda: len(neighbour.moves) > moves, "the action", deadline_s=30)
    span_s = neighbour.moves[-1][0] - neighbour.console.switches[-1].at
    progress(f"onset {number}: {span_s:.2f} s")
    cloud.delete(admin, server)
    return round(span_s, 2)


BENCHMARK = Benchmark(
    name="onset",
    about=f"seconds from a guest's switch to the changed affinity, worst of {ONSETS}",
    budgets={"seconds_to_action": fixed(3.0)},  # Ticks of a second each, on any machine.
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(command_line(BENCHMARK))
