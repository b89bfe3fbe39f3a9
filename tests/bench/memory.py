# SPDX-License-Identifier: Apache-2.0
"""What moving memory costs: time per 4 KiB page, of small and of transparent huge pages.

By the mover's own hands, back and forth between the two farthest nodes, under a process that writes
all of it. The thesis that the cost model's default comes from says 430 ns (Tembey, 2013, section
3.2). It needs two NUMA nodes: on a machine with one, `testbed/numa/numa-lab run` has four, whose
emulated CPUs are many times slower.
"""

import sys
import time

from nova_vp.core.types.guest import MemoryMove
from nova_vp.core.types.knob import Held, Knob
from tests.bench.harness import (
    Benchmark,
    CannotMeasure,
    Numbers,
    command_line,
    progress,
    scaled,
)
from tests.memory_subjects import a_writer
from vp_agent.drivers import guest_pages
from vp_agent.drivers.guest_pages import PAGE_KIB
from vp_agent.drivers.memory_pages import Mover
from vp_agent.drivers.numa_nodes import Nodes
from vp_agent.drivers.numa_residency import Ram

MIB = 256
ROUNDS = 4
GUEST = "bench"


def measure() -> Numbers:
    nodes = Nodes()
    if len(nodes.ids) < 2:
        raise CannotMeasure(
            "moving memory needs two NUMA nodes: `testbed/numa/numa-lab run -- …` has four"
        )
    found: dict[str, float] = {}
    for kind in ("small", "huge"):
        progress(f"{MIB} MiB of {kind} pages, {ROUNDS} times from node to node")
        found |= {f"{kind}_{name}": value for name, value in measure_pages(nodes, kind).items()}
    return found


def measure_pages(nodes: Nodes, kind: str) -> Numbers:
    with a_writer(MIB, kind) as writer:
        mover = Mover(lambda _: Ram(writer.process, MIB * 1024), nodes, guest_pages)
        move_to(mover, nodes.ids[0])
        writer.ask()
        moves, began_s, began_cpu_s = [], time.monotonic(), time.process_time()
        for turn in range(ROUNDS):
            moves.append(move_to(mover, nodes.ids[-1 if turn % 2 == 0 else 0]))
        cpu_s, span_s = time.process_time() - began_cpu_s, time.monotonic() - began_s
        said = writer.ask()
    if said.bad_pages:
        raise RuntimeError(f"{said.bad_pages} pages do not hold what was written")
    pages = sum(move.moved_kib for move in moves) / PAGE_KIB
    copying_s = sum(move.moved_kib / move.kib_per_s for move in moves)
    return {
        "ns_per_page": copying_s / pages * 1e9,
        "ns_per_page_with_all": span_s / pages * 1e9,
        "cpu_ns_per_page": cpu_s / pages * 1e9,
        "mib_per_s": pages * PAGE_KIB / 1024 / span_s,
        "longest_pause_ms": said.longest_pause_us / 1000,
        "pages_moved": pages,
    }


def move_to(mover: Mover, node: int) -> MemoryMove:
    shares = ((node, 1.0),)
    mover.restore(GUEST, Held(Knob.MEMORY, shares, shares, "", ""))
    return mover.moves()[GUEST]


BENCHMARK = Benchmark(
    name="memory",
    about="time per 4 KiB page that the agent moves between NUMA nodes",
    budgets={
        "small_longest_pause_ms": scaled(2000.0),
        "huge_longest_pause_ms": scaled(2000.0),
    },
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(command_line(BENCHMARK))
