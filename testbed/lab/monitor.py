# SPDX-License-Identifier: Apache-2.0
"""Looking at a running story from outside: what guests print, where the kernel lets them run, what
the agent of a host says. Read-only; nothing here tells anybody anything.
"""

import os
import re
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from testbed.lab import cloud, settings
from vp_agent.loop.control_socket import NoAgent, RunFolder, ask

POLL_S = 0.1
STATUS_EVERY_S = 1.0
_RATE = re.compile(r"^RATE (\S+) t=(\S+) epoch=(\S+) ops=(\d+)")
_SWITCH = re.compile(r"^SWITCH (\S+) uptime=(\S+) epoch=(\S+)")


@dataclass(frozen=True, slots=True)
class Rate:
    """One line of a guest, with the moment it reached the host."""

    at: float
    kind: str
    ops: int
    uptime_s: float
    """The guest's own clock, by which the operations are counted."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A guest changed its work, by the host's clock."""

    at: float
    kind: str


class Console:
    """Reads what one guest prints, as it comes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = ""
        self._clock_offset_s: float | None = None
        self._switches: list[tuple[float, str]] = []
        self.rates: list[Rate] = []

    def read(self) -> None:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                fresh = file.read()
        except FileNotFoundError:
            return
        now = time.time()
        self._offset += len(fresh)
        *lines, self._rest = (self._rest + fresh.decode(errors="replace")).split("\n")
        for line in lines:
            self._take(line.strip("\r"), now)

    def _take(self, line: str, now: float) -> None:
        if found := _RATE.match(line):
            lag_s = now - float(found[3])
            known = self._clock_offset_s
            self._clock_offset_s = lag_s if known is None else min(known, lag_s)
            self.rates.append(Rate(now, found[1], int(found[4]), float(found[2])))
        elif found := _SWITCH.match(line):
            self._switches.append((float(found[3]), found[1]))

    @property
    def switches(self) -> list[Switch]:
        """Corrected for the guest's clock, which is wrong by a constant."""
        offset_s = self._clock_offset_s or 0.0
        return [Switch(epoch + offset_s, kind) for epoch, kind in self._switches]

    def median_ops(self, begin: float, end: float) -> float:
        """Over the whole seconds reported within the window."""
        inside = [r.ops for r in self.rates if begin + 1 <= r.at <= end]
        if not inside:
            raise cloud.LabError(f"no rate line in {self._path} within the window")
        return median(inside)


def _console_log(server_id: str) -> Path:
    return settings.RUN / "instances" / server_id / "console.log"


def qemu_pid(server_id: str, among: Iterable[int] | None = None) -> int | None:
    """The emulator process of one server: of the whole machine's processes, or of those named."""
    mark = b"\0-uuid\0" + server_id.encode() + b"\0"
    if among is None:
        among = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    for pid in among:
        try:
            if mark in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
        except OSError:
            continue
    return None


def vcpu_threads(pid: int) -> dict[int, int]:
    """Thread id of each vCPU."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            if name := re.match(r"CPU (\d+)/", (task / "comm").read_text()):
                found[int(name[1])] = int(task.name)
        except FileNotFoundError:
            continue
    return found


def vcpu_cpus(pid: int) -> frozenset[int]:
    """Where the kernel lets the vCPUs of one server run, all of them together."""
    return frozenset().union(*(os.sched_getaffinity(t) for t in vcpu_threads(pid).values()))


def agent_status(host: str) -> Mapping[str, Any]:
    """What the agent of a host reports now. Raises NoAgent."""
    folder = Path(f"/proc/{cloud.host_pid(host)}/root/run/nova-vp")
    return ask(RunFolder(str(folder)), "status")


def vp_of(status: Mapping[str, Any], server_id: str) -> Mapping[str, Any] | None:
    return next((vp for vp in status.get("vps", ()) if vp["uuid"] == server_id), None)


@dataclass(frozen=True, slots=True)
class Sighting:
    """One server at one moment, as its host's agent sees it."""

    at: float
    memory_factor: float | None
    state: int | None
    is_hurt: bool
    remote_ratio: float | None
    """Of its misses, those that another node's memory serves."""


@dataclass
class Watched:
    name: str
    server_id: str
    pid: int
    console: Console
    sightings: list[Sighting] = field(default_factory=list)
    moves: list[tuple[float, frozenset[int]]] = field(default_factory=list)


class LabMonitor:
    """Follows some servers of one host on a thread of its own, until closed."""

    def __init__(self, host: str) -> None:
        self._host = host
        self.servers: dict[str, Watched] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def add(self, name: str, server_id: str) -> Watched:
        pid = cloud.wait_for(lambda: qemu_pid(server_id), f"{name}'s emulator", deadline_s=60)
        watched = Watched(name, server_id, pid, Console(_console_log(server_id)))
        watched.moves.append((time.time(), vcpu_cpus(pid)))
        self.servers = {**self.servers, name: watched}
        return watched

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        status_due = 0.0
        while not self._stop.wait(POLL_S):
            for watched in self.servers.values():
                watched.console.read()
                self._see_move(watched)
            if time.monotonic() >= status_due:
                status_due = time.monotonic() + STATUS_EVERY_S
                self._see_states(self.servers.values())

    def _see_move(self, watched: Watched) -> None:
        try:
            cpus = vcpu_cpus(watched.pid)
        except (FileNotFoundError, ProcessLookupError):
            return
        if cpus and cpus != watched.moves[-1][1]:
            watched.moves.append((time.time(), cpus))

    def _see_states(self, servers: Iterable[Watched]) -> None:
        try:
            status = agent_status(self._host)
        except (NoAgent, cloud.LabError):
            return
        for watched in servers:
            vp = vp_of(status, watched.server_id)
            if vp is None:
                continue
            metrics = vp["metrics"]
            watched.sightings.append(
                Sighting(
                    time.time(),
                    metrics and metrics["memory_factor"],
                    vp["state"],
                    vp["interference"] is not None,
                    metrics and metrics["remote_ratio"],
                )
            )
