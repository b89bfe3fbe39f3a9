# SPDX-License-Identifier: Apache-2.0
"""How soon a call of an overlay holds in the kernel, on a host of 100 VMs in 20 overlays.

The real `vp-agent run` in mode enforce, on a libvirtd and QEMU processes of its own. Applied means
that this process, which is not the agent, reads the value from the kernel's file of the server's
cgroup. Then 1000 calls are made in each second, and the agent's ticks and CPU are compared with
those before.
"""

import itertools
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nova_vp.core.types.overlay import Overlay
from nova_vp.overlay_message import overlays_text
from tests.bench.agent import AGENT_LOG, VMS, Scene, a_scene, percentile
from tests.bench.harness import (
    Benchmark,
    CannotMeasure,
    Numbers,
    command_line,
    fixed,
    progress,
    scaled,
)
from tests.bench.usage import cpu_s
from tests.domain_xml import PROJECT_ID
from tests.identities import keys_directory
from tests.libvirt_host import missing_for_libvirt
from tests.rabbitmq import free_port
from vp_agent.drivers.cgroups import cpu_group
from vp_agent.drivers.vcpu_threads import read_tids

OVERLAYS, DOWNS, NULLS = 20, 3, 1000
FLOOD_S, FLOOD_CALLS_PER_S, CONNECTIONS = 10.0, 1000, 8
READY_WITHIN_S = 120.0
CONFIG = """\
[agent]
host = bench
mode = enforce
counters = vpmu
state_directory = {folder}/state
run_directory = {folder}/agent-run
vpmu_directory = {folder}/vpmu
metrics_port = {port}
[policy]
controllers = overlays
[bus]
transport_url = {broker}
keys_directory = {keys}
"""


@dataclass(frozen=True, slots=True)
class Server:
    uuid: str
    overlay_id: str
    weight_file: int
    """Of the kernel, open."""

    def weight(self) -> bytes:
        return os.pread(self.weight_file, 32, 0)


class Monitor:
    """One connection to the agent's socket, as a monitor of the operator has it."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(str(path))
        self._file = self._socket.makefile("rb")

    def send(self, **call: Any) -> None:
        self._socket.sendall(json.dumps(call).encode() + b"\n")

    def has_answered(self) -> bool:
        return bool(select.select([self._socket], [], [], 0)[0])

    def answer(self) -> dict[str, Any]:
        return dict(json.loads(self._file.readline()))

    def call(self, **call: Any) -> dict[str, Any]:
        self.send(**call)
        return self.answer()


def measure() -> Numbers:
    missing = missing_for_libvirt()
    if missing:
        raise CannotMeasure(missing)
    with a_scene() as scene, an_agent(scene) as (agent, port):
        servers = servers_of(scene)
        sock = scene.folder / "agent-run" / "overlay.sock"
        wait_until_ready(scene, sock, servers)
        monitor = Monitor(sock)
        local_ms, refused = tune_each(monitor, servers)
        null_ms = sorted(span_ms(monitor) for _ in range(NULLS))
        progress(f"{FLOOD_S:.0f} s without a call, then {FLOOD_CALLS_PER_S} calls per second")
        quiet = spent(agent.pid, port)
        time.sleep(FLOOD_S)
        before = spent(agent.pid, port)
        answers = flood(sock, servers)
        after = spent(agent.pid, port)
        return {
            "local_p95_ms": percentile(local_ms, 0.95),
            "local_median_ms": percentile(local_ms, 0.5),
            "local_calls": len(local_ms),
            "local_refused": refused,
            "null_p95_ms": percentile(null_ms, 0.95),
            "calls_per_s": sum(answers.values()) / FLOOD_S,
            "flood_granted": answers["granted"],
            "flood_too_many": answers["too-many-calls"],
            "flood_otherwise_refused": answers.total()
            - answers["granted"]
            - answers["too-many-calls"],
            **between(quiet, before, "quiet"),
            **between(before, after, "flood"),
        }


@contextmanager
def an_agent(scene: Scene) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """With its overlays, as it would know them after a restart."""
    port = free_port()
    told = {"folder": scene.folder, "broker": scene.broker.url, "keys": keys_directory()}
    config = scene.folder / "nova-vp.conf"
    config.write_text(CONFIG.format(port=port, **told))
    state = scene.folder / "state"
    state.mkdir()
    (state / "overlays.json").write_text(overlays_text(1, overlays_of(scene)))
    command = [*scene.host.inside(), sys.executable, "-m", "vp_agent.cli.main"]
    with (scene.folder / AGENT_LOG).open("w") as log:
        agent = scene.agent = subprocess.Popen(
            [*command, "--config-file", str(config), "run"], stdout=log, stderr=log
        )
    try:
        yield agent, port
        agent.send_signal(signal.SIGTERM)
        if agent.wait(timeout=120):
            raise RuntimeError(f"the agent was told to stop: status {agent.returncode}")
    finally:
        agent.kill()
        agent.wait()


def overlay_id(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def overlays_of(scene: Scene) -> list[Overlay]:
    uuids = sorted(domain.UUIDString() for domain in scene.host.connect().listAllDomains())
    each = VMS // OVERLAYS
    return [
        Overlay(overlay_id(n), f"overlay-{n}", PROJECT_ID, frozenset(uuids[n * each :][:each]))
        for n in range(OVERLAYS)
    ]


def servers_of(scene: Scene) -> list[Server]:
    overlays = {uuid: one.id for one in overlays_of(scene) for uuid in one.members}
    return [
        Server(domain.UUIDString(), overlays[domain.UUIDString()], weight_file_of(scene, domain))
        for domain in scene.host.connect().listAllDomains()
    ]


def weight_file_of(scene: Scene, domain: Any) -> int:
    group = Path(cpu_group(read_tids(scene.host.pid_of(domain))[0]).path).parent
    names = ("cpu.weight", "cpu.shares")
    return os.open(next(group / name for name in names if (group / name).exists()), os.O_RDONLY)


def wait_until_ready(scene: Scene, sock: Path, servers: list[Server]) -> None:
    """It ticks, and has journalled the originals of all."""
    domains = scene.host.connect().listAllDomains()
    until_s = time.monotonic() + READY_WITHIN_S
    while not sock.exists() or not all("reserved" in one.XMLDesc() for one in domains):
        scene.require_agent()
        if time.monotonic() > until_s:
            raise TimeoutError("the agent does not get ready")
        time.sleep(0.5)
    progress(f"the agent has journalled the originals of {len(servers)} servers")


def tune_each(monitor: Monitor, servers: list[Server]) -> tuple[list[float], int]:
    """How long each granted call took until its value was read from the kernel, in milliseconds."""
    spans: list[float] = []
    refused = 0
    for _ in range(DOWNS):
        for server in servers:
            before, begun_s = server.weight(), time.perf_counter()
            of, uuid = server.overlay_id, server.uuid
            monitor.send(overlay=of, verb="tune", server=uuid, direction="down")
            while server.weight() == before and not monitor.has_answered():
                pass
            now_s = time.perf_counter()
            if monitor.answer()["nack"] is not None:
                refused += 1
            elif server.weight() == before:
                raise RuntimeError(f"a granted call for {server.uuid} did not reach the kernel")
            else:
                spans.append(1000 * (now_s - begun_s))
    return sorted(spans), refused


def span_ms(monitor: Monitor) -> float:
    """Of a call that needs nobody: its overlay is unknown."""
    begun_s = time.perf_counter()
    monitor.call(overlay=overlay_id(999), verb="release")
    return 1000 * (time.perf_counter() - begun_s)


def flood(sock: Path, servers: list[Server]) -> Counter[str]:
    """As many calls as that in each second, on several connections; what became of them."""
    answers: Counter[str] = Counter()
    lock = threading.Lock()

    def calls(first: int) -> None:
        monitor, own = Monitor(sock), Counter[str]()
        pause_s = CONNECTIONS / FLOOD_CALLS_PER_S
        begun_s = time.monotonic()
        for number, server in enumerate(itertools.cycle(servers[first:] + servers[:first])):
            due_s = begun_s + number * pause_s
            if due_s > begun_s + FLOOD_S or time.monotonic() > begun_s + FLOOD_S:
                break
            time.sleep(max(0.0, due_s - time.monotonic()))
            way = "down" if (number // len(servers)) % 2 else "up"
            told = monitor.call(
                overlay=server.overlay_id, verb="tune", server=server.uuid, direction=way
            )
            own[told["nack"] or "granted"] += 1
        with lock:
            answers.update(own)

    threads = [threading.Thread(target=calls, args=(n * 12,)) for n in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@dataclass(frozen=True, slots=True)
class Spent:
    at_s: float
    cpu_s: float
    ticks: float
    tick_s: float
    buckets: dict[float, float]
    """Ticks that took at most so long."""


def spent(pid: int, port: int) -> Spent:
    """By the agent's own metrics, and by the kernel."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()

    def value(name: str) -> float:
        [found] = re.findall(rf"^nova_vp_agent_tick_seconds_{name}{{[^}}]*}} (\S+)$", text, re.M)
        return float(found)

    buckets = re.findall(r'^nova_vp_agent_tick_seconds_bucket{.*le="(\S+)"} (\S+)$', text, re.M)
    return Spent(
        time.monotonic(),
        cpu_s(pid),
        value("count"),
        value("sum"),
        {float(limit): float(count) for limit, count in buckets},
    )


def between(first: Spent, last: Spent, name: str) -> Numbers:
    ticks = last.ticks - first.ticks
    slowest = min(
        limit for limit, count in last.buckets.items() if count - first.buckets[limit] >= ticks
    )
    return {
        f"{name}_core_share": (last.cpu_s - first.cpu_s) / (last.at_s - first.at_s),
        f"{name}_ticks": ticks,
        f"{name}_tick_mean_ms": 1000 * (last.tick_s - first.tick_s) / max(1.0, ticks),
        f"{name}_tick_at_most_ms": 1000 * slowest,
    }


BENCHMARK = Benchmark(
    name="overlay",
    about=f"calls of {OVERLAYS} overlays on a host of {VMS} VMs, until the kernel shows them",
    budgets={"local_p95_ms": scaled(5.0), "flood_core_share": fixed(1.0)},
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(command_line(BENCHMARK))
