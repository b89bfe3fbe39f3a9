# SPDX-License-Identifier: Apache-2.0
"""Guests in islands on modelled CPUs, the applications in them, and the calls of these.

What a guest computes is told to it by its client, which is this process: an application here is
jobs that follow each other, with a rest between them.
"""

import os
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from nova_vp.core.types.overlay import Overlay
from nova_vp.cpuset import format_cpus
from nova_vp.overlay_message import overlays_text
from testbed.lab.waiting import wait_for
from tests.bench.harness import CannotMeasure
from tests.bench.overlay import Monitor
from tests.bench.paced_agent import PRODUCT, agent_report, an_agent
from tests.bench.paced_counters import PacedCounters
from tests.bench.paced_guests import Interface, PacedHost
from tests.domain_xml import PROJECT_ID
from tests.libvirt_host import missing_for_libvirt
from vp_agent.cli.status import BorrowedCpus, borrowed_cpus

MHZ = 40
"""Of the modelled clock: the fewer, the more guests this machine can run."""
ROUNDS_PER_CORE_S = MHZ * 1_000_000 / 0.6 / 7
"""Seven instructions each, six cycles for ten of them."""
JOB_DEADLINE_S = 120.0
LOOK_EVERY_S = 0.25
LOANS_EVERY_S = 1.0
WINDOW_S = 2.0
PERIOD_US = 100_000
FLOOR: Mapping[str, str] = MappingProxyType({"vp:cpu_floor": "10"})
"""A server without one is never limited."""
CONFIG = """\
{monitors}
[policy]
controllers = overlays
[islands]
layout = {layout}
host_cap_cores = {cap_cores}
"""


class Client:
    """Hands out the jobs of one guest."""

    def __init__(self, host: PacedHost, name: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(str(host.guests[name].jobs))
        self._socket.settimeout(JOB_DEADLINE_S)

    def begin(self, core_s: float) -> None:
        """So much for each vCPU."""
        self._socket.sendall(f"{round(core_s * ROUNDS_PER_CORE_S)}\n".encode())

    def wait(self) -> None:
        """Until all vCPUs have done their part."""
        text = b""
        while b"\n" not in text:
            text += self._socket.recv(64)

    def close(self) -> None:
        self._socket.close()


@contextmanager
def a_host(
    works: Mapping[str, str],
    islands: Mapping[str, Sequence[int]],
    homes: Mapping[str, str],
    interfaces: Mapping[str, Interface] = MappingProxyType({}),
) -> Iterator[PacedHost]:
    """All guests run, each on the CPUs of its island. One LLC for each island."""
    if missing := missing_for_libvirt():
        raise CannotMeasure(missing)
    cpus = sum(len(one) for one in islands.values())
    llcs = {cpu: number for number, one in enumerate(islands.values()) for cpu in one}
    pmu = {
        "cpumap": ";".join(f"{cpu}:{llc}" for cpu, llc in llcs.items()),
        "nodemap": ";".join(f"{llc}:0" for llc in range(len(islands))),
        "mhz": str(MHZ),
        "shadow": "0",
    }
    cells = "+".join(format_cpus(frozenset(one)) for one in islands.values())
    specs = dict.fromkeys(works, FLOOR)
    with tempfile.TemporaryDirectory(prefix="vp-overlay-", dir="/dev/shm") as folder:
        host = PacedHost(Path(folder), cells, pmu, specs, modelled_cpus=cpus)
        try:
            host.start(works, interfaces)
            for name, island in homes.items():
                place(host, name, islands[island])
                host.guests[name].domain.resume()
            yield host
        finally:
            host.stop()


def place(host: PacedHost, name: str, cpus: Iterable[int]) -> None:
    for tid in host.guests[name].tids:
        host.shimmed("taskset", "-cp", ",".join(map(str, cpus)), str(tid))


def uuid_of(host: PacedHost, name: str) -> str:
    return str(host.guests[name].domain.UUIDString())


@dataclass(frozen=True, slots=True)
class Told:
    """An overlay, and who calls for it."""

    overlay: Overlay
    monitor: Monitor

    def call(self, verb: str, server: str | None = None, **about: object) -> str:
        """Why it is refused; empty: it is granted."""
        self.send(verb, server, **about)
        return self.answer()

    def send(self, verb: str, server: str | None = None, **about: object) -> None:
        self.monitor.send(overlay_id=self.overlay.id, verb=verb, server_id=server, **about)

    def answer(self) -> str:
        told = self.monitor.answer()
        if "error" in told:
            raise RuntimeError(f"the agent does not understand a call: {told['error']}")
        return str(told["nack"] or "")


@contextmanager
def an_agent_of(
    host: PacedHost,
    overlays: Sequence[Overlay],
    layout: str,
    cap_cores: float = 0.0,
    monitors: Sequence[str] = (),
    more: str = "",
) -> Iterator[list[Told]]:
    """Of the servers in the overlays it has journalled the originals. `monitors`: lines of
    `[agent] monitors`; `more`: further lines of the configuration."""
    state = host.folder / "state"
    state.mkdir(exist_ok=True)
    (state / "overlays.json").write_text(overlays_text(1, overlays))
    lines = "\n".join(f"monitors = {line}" for line in monitors)
    config = CONFIG.format(layout=layout, cap_cores=cap_cores, monitors=lines)
    with an_agent(host, PRODUCT, mode="enforce", more=config + more):
        path = host.folder / "agent-run" / "overlay.sock"
        members = set().union(*(one.members for one in overlays))
        domains = [one.domain for one in host.guests.values()]
        wanted = [one for one in domains if one.UUIDString() in members]
        wait_for(
            lambda: (
                path.exists()
                and agent_report(host)
                and all("reserved" in one.XMLDesc() for one in wanted)
            ),
            "the agent to journal the originals",
            deadline_s=30.0,
        )
        yield [Told(one, Monitor(path)) for one in overlays]


def an_overlay(number: int, name: str, members: Iterable[str], **about: object) -> Overlay:
    overlay_id = f"00000000-0000-4000-8000-{number:012x}"
    return Overlay(overlay_id, name, PROJECT_ID, frozenset(members), **about)  # type: ignore[arg-type]


@dataclass
class Meter:
    """CPU that guests were granted, read all the time on a thread of its own."""

    host: PacedHost
    names: Sequence[str]
    looks: list[tuple[float, dict[str, float], float]] = field(default_factory=list)
    """Moment, core-seconds so far by guest, core-seconds that this machine owes all of them."""

    @contextmanager
    def running(self) -> Iterator["Meter"]:
        counters = PacedCounters(self.host)

        def look() -> None:
            found = {name: counters.total(name, "granted_ns", "debt_ns") for name in self.names}
            granted = {name: ns / 1e9 for name, (ns, _) in found.items()}
            owed_s = sum(ns for _, ns in found.values()) / 1e9
            self.looks.append((time.monotonic(), granted, owed_s))

        with repeated(look, LOOK_EVERY_S):
            yield self

    def cores(self, name: str) -> float:
        """In the mean."""
        (first_s, first, _), (last_s, last, _) = self.looks[0], self.looks[-1]
        return (last[name] - first[name]) / (last_s - first_s)

    @property
    def most_cores(self) -> float:
        """Of all guests together, as a mean over two seconds."""
        most, sums = 0.0, [(at_s, sum(one.values())) for at_s, one, _ in self.looks]
        for began_s, before in sums:
            later = [(at_s, now) for at_s, now in sums if at_s - began_s >= WINDOW_S]
            if later:
                most = max(most, (later[0][1] - before) / (later[0][0] - began_s))
        return most

    @property
    def debt_ratio(self) -> float:
        """Of what was granted, that this machine could not run."""
        (_, first, owed_first), (_, last, owed_last) = self.looks[0], self.looks[-1]
        return (owed_last - owed_first) / max(sum(last.values()) - sum(first.values()), 1e-9)


@dataclass
class Loans:
    """CPUs that are borrowed, in the mean, by whose doing: as the agent says, in each second."""

    host: PacedHost
    looks: list[BorrowedCpus] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator["Loans"]:
        def look() -> None:
            if report := agent_report(self.host):
                self.looks.append(borrowed_cpus(report))

        with repeated(look, LOANS_EVERY_S):
            yield self

    @property
    def by_calls(self) -> float:
        return statistics.fmean(one.by_calls for one in self.looks) if self.looks else 0.0

    @property
    def for_the_cap(self) -> float:
        return statistics.fmean(one.for_the_cap for one in self.looks) if self.looks else 0.0


@contextmanager
def repeated(look: Callable[[], None], every_s: float) -> Iterator[None]:
    """On a thread of its own."""
    stop = threading.Event()

    def run() -> None:
        look()
        while not stop.wait(every_s):
            look()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@dataclass(frozen=True, slots=True)
class Application:
    """Jobs with a rest between them; each begins by what it asks for, and gives it back."""

    name: str
    wait_s: float
    """Until the first job."""
    core_s: float
    """Of each vCPU in each job."""
    jobs: int
    rest_s: float

    def run(
        self, client: Client, before: Callable[[], object], after: Callable[[], object]
    ) -> float:
        """Seconds in which it was done."""
        began_s = time.monotonic()
        time.sleep(self.wait_s)
        for number in range(self.jobs):
            if number:
                time.sleep(self.rest_s)
            before()
            client.begin(self.core_s)
            client.wait()
            after()
        return time.monotonic() - began_s - self.wait_s


def in_parallel(*tasks: Callable[[], float]) -> list[float]:
    found = [0.0] * len(tasks)
    failed: list[BaseException] = []

    def run(number: int, task: Callable[[], float]) -> None:
        try:
            found[number] = task()
        except BaseException as exc:
            failed.append(exc)

    threads = [threading.Thread(target=run, args=one) for one in enumerate(tasks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return found


def limit(host: PacedHost, name: str, cores: float | None) -> None:
    """As an operator does, for good; None: without a limit."""
    guest = host.guests[name]
    quota = -1 if cores is None else round(cores / guest.vcpus * PERIOD_US)
    guest.domain.setSchedulerParameters({"vcpu_quota": quota, "vcpu_period": PERIOD_US})


def weigh(host: PacedHost, name: str, times: float) -> None:
    host.guests[name].domain.setSchedulerParameters({"cpu_shares": round(1024 * times)})


def mean_and_deviation(times: Sequence[float]) -> tuple[float, float]:
    """The deviation as a share of the mean."""
    mean_s = statistics.mean(times)
    return mean_s, statistics.stdev(times) / mean_s if len(times) > 1 else 0.0


def layout_of(islands: Mapping[str, Sequence[int]], cap_cores: float | None = None) -> str:
    kind = "fair" if cap_cores is None else f"capped {cap_cores}"
    return "; ".join(f"{n}: {format_cpus(frozenset(one))} {kind}" for n, one in islands.items())


def load_average() -> float:
    return os.getloadavg()[0]
