# SPDX-License-Identifier: Apache-2.0
"""Modelled CPUs and memory controllers under real guests: who gets how much, as a table.

    python -m tests.bench.modelled_cpus [--part cpus|controller] [--json]

Three guests on a private libvirtd whose host shows two nodes of four CPUs, more than are real.
Each row is repeated while the worst guest's debt exceeds five hundredths: then it says more about
the machine than about the model.
"""

import argparse
import json
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testbed.lab import settings
from testbed.lab.lag_meter import MAX_RATIO
from tests.bench.paced_guests import PacedHost

VPMU = settings.ROOT / "testbed" / "vpmu" / "vpmu"
CELLS = "0-3/4-7"
CPUS = 8
WORKS = {"one": "compute", "two": "compute", "pair": "compute+compute"}
WRITERS = {"reader": "stream", "writer-1": "write", "writer-2": "write"}
SETTLE_S = 1.0
SPAN_S = 5.0
ATTEMPTS = 5
PERIOD_US = 100_000
NARROW = {"bandwidth": "60", "write_bandwidth": "24"}
"""Lines per thousand modelled cycles: two writers want more than the write buffers can."""
# capacity_lines_per_s, (window), total_lines, (state), write_capacity_lines_per_s, (window),
# total_written_lines
_CONTROLLER = struct.Struct("<16xQ16xQ8xQ8xQ")
NEUTRAL = {"cpu_shares": 1024, "vcpu_quota": -1, "global_quota": -1}


@dataclass(frozen=True, slots=True)
class Row:
    """One guest (one vCPU of it) in one arrangement; ratios of the time that passed."""

    arrangement: str
    vcpu: str
    mips: float
    of_solo_ratio: float
    granted_ratio: float
    run_delay_ratio: float
    throttled_ratio: float
    write_mpki: float
    debt_ratio: float


@dataclass(frozen=True, slots=True)
class Controller:
    """A memory controller in one arrangement; million lines per second."""

    arrangement: str
    node: int
    moved: float
    limit: float
    written: float
    write_limit: float


class Trial:
    def __init__(self, host: PacedHost) -> None:
        self._host = host
        self.rows: list[Row] = []
        self.controllers: list[Controller] = []
        self.solo_mips: dict[str, float] = {}

    def taskset(self, name: str, cpus: str) -> None:
        """As an operator does, on each vCPU thread."""
        for tid in self._host.guests[name].tids:
            self._host.shimmed("taskset", "-cp", cpus, str(tid))

    def home(self, name: str, node: int) -> None:
        """All of its memory lies on that node from now on."""
        domain = self._host.guests[name].domain.name()
        argv = [VPMU, "--dir", self._host.counters, "set", domain, "home", str(node)]
        subprocess.run(argv, check=True)

    def measure_controller(self, arrangement: str, node: int, *names: str) -> None:
        self.measure(arrangement, *names)
        before, began_s = self._controller(node), time.monotonic()
        time.sleep(SPAN_S)
        after, span_s = self._controller(node), time.monotonic() - began_s
        found = Controller(
            arrangement,
            node,
            moved=(after[1] - before[1]) / span_s / 1e6,
            limit=after[0] / 1e6,
            written=(after[3] - before[3]) / span_s / 1e6,
            write_limit=after[2] / 1e6,
        )
        self.controllers.append(found)
        print(
            f"{'':44} node {node}: {found.moved:.2f} M lines/s moved of {found.limit:.2f}, "
            f"{found.written:.2f} written of {found.write_limit:.2f}",
            flush=True,
        )

    def _controller(self, node: int) -> tuple[int, ...]:
        with (self._host.counters / f"mc.{node}").open("rb") as file:
            return _CONTROLLER.unpack(file.read(_CONTROLLER.size))

    def vcpupin(self, name: str, cpu: int) -> None:
        domain = self._host.guests[name].domain
        domain.pinVcpu(0, tuple(one == cpu for one in range(CPUS)))

    def tune(self, name: str, **parameters: int) -> None:
        self._host.guests[name].domain.setSchedulerParameters({**NEUTRAL, **parameters})

    def run(self, *names: str) -> None:
        for name, guest in self._host.guests.items():
            is_wanted = name in names
            if is_wanted != (guest.domain.state()[0] == 1):
                (guest.domain.resume if is_wanted else guest.domain.suspend)()

    def measure(self, arrangement: str, *names: str, is_solo: bool = False) -> list[Row]:
        """Repeated until the debt is small; the last attempt is kept, as it is."""
        self.run(*names)
        for _ in range(ATTEMPTS):
            time.sleep(SETTLE_S)
            found = [self._row(arrangement, row, is_solo) for row in self._watch(names)]
            if max(row.debt_ratio for row in found) <= MAX_RATIO:
                break
        self.rows += found
        for row in found:
            print(as_line(row), flush=True)
        return found

    def _watch(self, names: tuple[str, ...]) -> list[dict[str, Any]]:
        guests = [self._host.guests[name] for name in names]
        return self._host.watch([guest.domain.name() for guest in guests], SPAN_S, lambda: None)

    def _row(self, arrangement: str, found: Mapping[str, Any], is_solo: bool) -> Row:
        names = {guest.domain.name(): name for name, guest in self._host.guests.items()}
        vcpu = f"{names[found['vm']]}/{found['vcpu']}"
        if is_solo:
            self.solo_mips[vcpu] = found["mips"]
        return Row(
            arrangement=arrangement,
            vcpu=vcpu,
            mips=found["mips"],
            of_solo_ratio=found["mips"] / (self.solo_mips.get(vcpu) or float("nan")),
            granted_ratio=found["granted_ratio"],
            run_delay_ratio=found["run_delay_ratio"],
            throttled_ratio=found["throttled_ratio"],
            write_mpki=found["write_mpki"] or 0.0,
            debt_ratio=found["debt_ratio"],
        )


HEAD = (
    f"{'':44} {'vCPU':10} {'MIPS':>6} {'solo%':>6} {'run%':>6} {'wait%':>6} {'thr%':>6} "
    f"{'WMPKI':>6} {'debt%':>6}"
)


def as_line(row: Row) -> str:
    ratios = (row.of_solo_ratio, row.granted_ratio, row.run_delay_ratio, row.throttled_ratio)
    numbers = " ".join(f"{100 * ratio:6.1f}" for ratio in ratios)
    return (
        f"{row.arrangement:44} {row.vcpu:10} {row.mips:6.1f} {numbers} {row.write_mpki:6.1f} "
        f"{100 * row.debt_ratio:6.1f}"
    )


@contextmanager
def a_host(works: Mapping[str, str], options: Mapping[str, str]) -> Iterator[PacedHost]:
    with tempfile.TemporaryDirectory(prefix="modelled-cpus-", dir="/dev/shm") as folder:
        host = PacedHost(Path(folder), CELLS, options, modelled_cpus=CPUS)
        try:
            host.start(works)
            yield host
        finally:
            host.stop()


def share_cpus(trial: Trial) -> None:
    trial.taskset("one", "6")
    trial.taskset("two", "7")
    trial.measure("alone on CPU 6, and on CPU 7", "one", "two", is_solo=True)
    trial.taskset("two", "6")
    trial.measure("taskset of both to CPU 6", "one", "two")
    trial.tune("one", cpu_shares=2048)
    trial.measure("weights 2:1 on CPU 6", "one", "two")
    trial.tune("one", vcpu_quota=30_000, vcpu_period=PERIOD_US)
    trial.measure("a quota of 30 % beside another on CPU 6", "one", "two")
    trial.vcpupin("two", 7)
    trial.measure("a quota of 30 %, alone on its CPU", "one", "two")
    trial.tune("one")
    trial.measure("no quota, libvirt's pin to CPU 7", "one", "two")
    trial.taskset("two", "6")
    trial.measure("together again, the other is suspended", "one")


def share_among_vcpus(trial: Trial) -> None:
    trial.taskset("pair", "0-1")
    trial.measure("two vCPUs on CPUs 0-1", "pair", is_solo=True)
    trial.tune("pair", global_quota=60_000, global_period=PERIOD_US)
    trial.measure("a quota of 60 % of the whole VM", "pair")
    trial.tune("pair")
    trial.taskset("pair", "6")
    trial.taskset("one", "6")
    trial.measure("a VM of two vCPUs and one of one on CPU 6", "pair", "one")


def share_a_controller(trial: Trial) -> None:
    """The reader has the other LLC, so that it evicts nobody's written lines."""
    for name, cpus in (("reader", "0-3"), ("writer-1", "4-7"), ("writer-2", "4-7")):
        trial.taskset(name, cpus)
        trial.home(name, 0 if name == "reader" else 1)
        trial.measure("alone", name, is_solo=True)
    writers = ("writer-1", "writer-2")
    trial.measure_controller("two writers at one controller", 1, *writers)
    trial.measure_controller("a reader at the other one", 1, "reader", *writers)
    trial.home("reader", 1)
    trial.measure_controller("all three at one", 1, "reader", *writers)


@dataclass(frozen=True, slots=True)
class Part:
    works: Mapping[str, str]
    options: Mapping[str, str]
    steps: tuple[Callable[[Trial], None], ...]


PARTS = {
    "cpus": Part(WORKS, {}, (share_cpus, share_among_vcpus)),
    "controller": Part(WRITERS, NARROW, (share_a_controller,)),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print all rows as JSON at the end")
    parser.add_argument("--part", choices=PARTS, action="append", help="only that part")
    arguments = parser.parse_args()
    rows: list[Row] = []
    controllers: list[Controller] = []
    print(HEAD)
    for part in (PARTS[name] for name in arguments.part or PARTS):
        with a_host(part.works, part.options) as host:
            trial = Trial(host)
            for step in part.steps:
                step(trial)
            rows += trial.rows
            controllers += trial.controllers
    if arguments.json:
        found = {"vcpus": rows, "controllers": controllers}
        print(json.dumps({name: [asdict(row) for row in some] for name, some in found.items()}))
    return 0 if all(row.debt_ratio <= MAX_RATIO for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
