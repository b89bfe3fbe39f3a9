# SPDX-License-Identifier: Apache-2.0
"""How soon a call of an overlay holds in the kernel, on a host of 100 VMs in 20 overlays.

The real `vp-agent run` in mode enforce, on a libvirtd, QEMU processes and a RabbitMQ of its own;
overlays are made by vp-api, which runs without keystone. Applied means that this process, which is
neither of them, reads the value from the kernel's file of the server's cgroup. Then 1000 calls are
made in each second by the agent's socket, and its ticks and CPU are compared with those before.
"""

import argparse
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
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import requests

from nova_vp.signing.senders import Process, Sender
from tests.bench.agent import AGENT_LOG, VMS, Scene, a_scene, percentile
from tests.bench.harness import (
    Benchmark,
    CannotMeasure,
    Numbers,
    fixed,
    progress,
    run,
    scaled,
)
from tests.bench.usage import cpu_s
from tests.domain_xml import PROJECT_ID
from tests.identities import keys_directory, trust
from tests.libvirt_host import missing_for_libvirt
from tests.rabbitmq import free_port
from vp_agent.drivers.cgroups import cpu_group
from vp_agent.drivers.vcpu_threads import read_tids

OVERLAYS, API_DOWNS, DOWNS, NULLS = 20, 2, 3, 1000
LOOK_EVERY_S = 0.0001
"""Whoever looks without a pause takes the agent's turn on a machine of few CPUs."""
FLOOD_S, FLOOD_CALLS_PER_S, CONNECTIONS = 10.0, 1000, 15
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
API_CONFIG = """\
[api]
overlays_per_project = {overlays}
overlay_requests_per_s = 10000
[database]
connection = sqlite:///{folder}/store.sqlite
[bus]
transport_url = {broker}
keys_directory = {keys}
"""
NOBODYS = "00000000-0000-4000-8000-000000000999"
LATEST = {"OpenStack-API-Version": "performance-isolation latest"}


@dataclass(frozen=True, slots=True)
class Server:
    uuid: str
    overlay_id: str
    weight_file: int
    """Of the kernel, open."""

    def weight(self) -> bytes:
        return os.pread(self.weight_file, 32, 0)


class Caller(Protocol):
    def send(self, **call: Any) -> None: ...

    def has_answered(self) -> bool: ...

    def answer(self) -> dict[str, Any]:
        """Waits for it."""


class Api:
    """An application that keeps its connection to vp-api; it waits on a thread of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = requests.Session()
        self._session.headers.update(LATEST)
        self._pool = ThreadPoolExecutor(1)
        self._asked: Future[dict[str, Any]] | None = None

    def knows(self, uuid: str) -> bool:
        return self._session.get(f"{self._url}/v1/vps/{uuid}", timeout=30).ok

    def create(self, name: str, members: list[str]) -> str:
        told = {"name": name, "servers": members}
        made = self._session.post(f"{self._url}/v1/overlays", json=told, timeout=30)
        made.raise_for_status()
        return str(made.json()["overlay"]["id"])

    def send(self, *, overlay_id: str, **call: Any) -> None:
        self._asked = self._pool.submit(self._call, overlay_id, call)

    def _call(self, overlay_id: str, call: dict[str, Any]) -> dict[str, Any]:
        url = f"{self._url}/v1/overlays/{overlay_id}/calls"
        answered = self._session.post(url, json=call, timeout=30)
        answered.raise_for_status()
        [answer] = answered.json()["call"]["answers"]
        return dict(answer)

    def has_answered(self) -> bool:
        return self._asked is not None and self._asked.done()

    def answer(self) -> dict[str, Any]:
        assert self._asked is not None
        return self._asked.result(30)


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
    with (
        a_scene(with_classes=False) as scene,
        an_api(scene) as api,
        an_agent(scene) as (agent, port),
    ):
        servers = servers_of(scene, api)
        sock = scene.folder / "agent-run" / "overlay.sock"
        wait_until_ready(scene, sock, servers)
        monitor = Monitor(sock)
        api_ms, api_refused = tune_each(api, servers, API_DOWNS)
        local_ms, refused = tune_each(monitor, servers, DOWNS)
        told = ", ".join(f"{percentile(one, 0.95):.1f} ms" for one in (api_ms, local_ms))
        progress(f"95 of 100 calls hold within (by vp-api, by the socket) {told}")
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
            "api_p95_ms": percentile(api_ms, 0.95),
            "api_median_ms": percentile(api_ms, 0.5),
            "api_calls": len(api_ms),
            "api_refused": api_refused,
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
def an_api(scene: Scene) -> Iterator[Api]:
    trust(Sender(Process.API, "ctl1"), Sender(Process.AGENT, "bench"))
    config = scene.folder / "api.conf"
    told = {"broker": scene.broker.url, "keys": keys_directory(), "folder": scene.folder}
    config.write_text(API_CONFIG.format(overlays=OVERLAYS, **told))
    command = [sys.executable, "-m", "tests.bench.overlay_api", str(config), PROJECT_ID]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        yield Api(one.stdout.readline().strip())


@contextmanager
def an_agent(scene: Scene) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    port = free_port()
    told = {"folder": scene.folder, "broker": scene.broker.url, "keys": keys_directory()}
    config = scene.folder / "nova-vp.conf"
    config.write_text(CONFIG.format(port=port, **told))
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


def servers_of(scene: Scene, api: Api) -> list[Server]:
    """In overlays, once vp-scheduler knows the servers."""
    domains = {one.UUIDString(): one for one in scene.host.connect().listAllDomains()}
    uuids, each = sorted(domains), VMS // OVERLAYS
    until_s = time.monotonic() + READY_WITHIN_S
    while not all(map(api.knows, uuids)):
        scene.require_agent()
        if time.monotonic() > until_s:
            raise TimeoutError("vp-api does not know the servers")
        time.sleep(0.5)
    of = {
        uuid: overlay_id
        for n in range(OVERLAYS)
        for members in (uuids[n * each :][:each],)
        for overlay_id in (api.create(f"overlay-{n}", members),)
        for uuid in members
    }
    return [Server(uuid, of[uuid], weight_file_of(scene, domains[uuid])) for uuid in uuids]


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


def tune_each(caller: Caller, servers: list[Server], times: int) -> tuple[list[float], int]:
    """How long each granted call took until its value was read from the kernel, in milliseconds."""
    spans: list[float] = []
    refused = 0
    for _ in range(times):
        for server in servers:
            before, begun_s = server.weight(), time.perf_counter()
            of, uuid = server.overlay_id, server.uuid
            caller.send(overlay_id=of, verb="tune", server_id=uuid, direction="down")
            while server.weight() == before and not caller.has_answered():
                time.sleep(LOOK_EVERY_S)
            now_s = time.perf_counter()
            if caller.answer()["nack"] is not None:
                refused += 1
            elif server.weight() == before:
                raise RuntimeError(f"a granted call for {server.uuid} did not reach the kernel")
            else:
                spans.append(1000 * (now_s - begun_s))
    return sorted(spans), refused


def span_ms(monitor: Monitor) -> float:
    """Of a call that needs nobody: its overlay is unknown."""
    begun_s = time.perf_counter()
    monitor.call(overlay_id=NOBODYS, verb="release")
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
                overlay_id=server.overlay_id, verb="tune", server_id=server.uuid, direction=way
            )
            own[told["nack"] or "granted"] += 1
        with lock:
            answers.update(own)

    threads = [
        threading.Thread(target=calls, args=(n * VMS // CONNECTIONS,)) for n in range(CONNECTIONS)
    ]
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
    budgets={
        "local_p95_ms": scaled(5.0),
        "api_p95_ms": scaled(100.0),
        "flood_core_share": fixed(1.0),
    },
    measure=measure,
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.overlay", description=__doc__)
    parser.add_argument("--json", action="store_true", help="the numbers alone, as JSON")
    parser.add_argument("--lab", action="store_true", help="real guests instead; 15 minutes")
    parser.add_argument("--part", action="append", help="only this one of the lab; may be repeated")
    asked = parser.parse_args()
    if not asked.lab:
        return run(BENCHMARK, as_json=asked.json)
    from tests.bench import overlay_lab  # Here: it needs this module.

    parts = asked.part or tuple(overlay_lab.PARTS)
    if unknown := [one for one in parts if one not in overlay_lab.PARTS]:
        parser.error(f"no part {', '.join(unknown)}: give some of {', '.join(overlay_lab.PARTS)}")
    return run(overlay_lab.benchmark(parts), as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())
