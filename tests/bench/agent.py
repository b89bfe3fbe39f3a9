# SPDX-License-Identifier: Apache-2.0
"""What the agent costs a host of 100 VMs with 4 vCPUs each, 20 of which are hurt at once.

The real `vp-agent run`, in mode enforce, on a libvirtd, QEMU processes and a RabbitMQ of its own.
Measured while nothing happens, and from the moment five guests start to stream beside twenty whose
working set just fits.
"""

import argparse
import functools
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from oslo_config import cfg

from nova_vp import conf as options
from nova_vp.conf import database
from nova_vp.db import schema
from nova_vp.db.report_store import ReportStore
from tests.bench import latency_load
from tests.bench.harness import (
    Benchmark,
    CannotMeasure,
    Numbers,
    fixed,
    progress,
    run,
    scaled,
)
from tests.bench.live_counters import LiveCounters, LiveGuest, Work
from tests.bench.usage import children, cpu_s, peak_mib
from tests.domain_xml import a_domain, write_halting
from tests.identities import keys_directory, scheduler
from tests.libvirt_host import LibvirtHost, missing_for_libvirt
from tests.rabbitmq import RabbitMQ
from vp_agent.drivers.vcpu_threads import read_tids
from vp_scheduler.ingest.service import Service

VMS, VCPUS, VICTIMS, AGGRESSORS = 100, 4, 20, 5
ALONE_S, SETTLE_S, STEADY_S, ONSET_S = 20.0, 20.0, 60.0, 60.0
COUNT_EVERY_S = 0.25
AGENT_LOG = "agent.log"
EARLIER_LOGS = ("rabbitmq/server.log", "libvirt/log/libvirtd.log")
LAST_LINES = 20
HOMED_WITHIN_S = 60.0
CONFIG = """\
[agent]
host = bench
mode = enforce
counters = vpmu
state_directory = {folder}/state
run_directory = {folder}/agent-run
vpmu_directory = {folder}/vpmu
[bus]
transport_url = {broker}
keys_directory = {keys}
"""


@dataclass(frozen=True, slots=True)
class Mark:
    """What was spent up to a moment."""

    at_s: float
    agent_cpu_s: float
    libvirtd_cpu_s: float


@dataclass(slots=True)
class Scene:
    """The host that the agent runs on."""

    folder: Path
    host: LibvirtHost
    broker: RabbitMQ
    counters: LiveCounters
    with_classes: bool
    """Half of the servers have one, the controller `latency` is on, and applications report."""
    agent: "subprocess.Popen[bytes] | None" = None
    """Once it is started."""

    def pass_time(self, span_s: float) -> None:
        end_s = time.monotonic() + span_s
        self.pass_time_until(lambda: time.monotonic() >= end_s, "the end of a span", span_s + 1)

    def pass_time_until(self, holds: Callable[[], bool], what: str, within_s: float) -> float:
        """The guests run until then. How long it took."""
        began_s = time.monotonic()
        while not holds():
            if time.monotonic() - began_s > within_s:
                raise TimeoutError(f"waited {within_s:.0f} s for {what}")
            self.require_agent()
            self.counters.run_until(time.monotonic())
            time.sleep(COUNT_EVERY_S)
        return time.monotonic() - began_s

    def require_agent(self) -> None:
        if self.agent is not None and self.agent.poll() is not None:
            raise RuntimeError(f"the agent ended by itself, with status {self.agent.returncode}")

    def mark(self) -> Mark:
        return Mark(
            at_s=time.monotonic(),
            agent_cpu_s=cpu_s(self.agent.pid) if self.agent else 0.0,
            libvirtd_cpu_s=cpu_s(self.host.libvirtd_pid()),
        )


def measure(*, with_classes: bool = False) -> Numbers:
    missing = missing_for_libvirt()
    if missing:
        raise CannotMeasure(missing)
    with a_scene(with_classes) as scene:
        progress(f"{ALONE_S:.0f} s of libvirtd without the agent")
        alone = (scene.mark(), scene.pass_time(ALONE_S), scene.mark())
        agent = scene.agent = start_agent(scene)
        with ExitStack() as stack:
            stack.callback(agent.wait)
            stack.callback(agent.kill)
            if with_classes:
                numbers = list(filter(latency_load.is_critical, range(1, VMS + 1)))
                reporting = latency_load.Applications(scene.broker.url, "bench", numbers)
                stack.callback(reporting.close)
                reporting.start()
            return measure_agent(scene, agent, libvirtd_share(alone[0], alone[2]))


@contextmanager
def a_scene(with_classes: bool) -> Iterator[Scene]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vp-bench-")))
        stack.enter_context(with_logs(folder))
        for name in ("libvirt", "rabbitmq", "vpmu"):
            (folder / name).mkdir()
        broker = RabbitMQ(folder / "rabbitmq")
        stack.callback(broker.close)
        broker.start()
        stack.callback(start_service(folder, broker).stop)
        host = LibvirtHost(folder / "libvirt", cells="0/1")
        stack.callback(host.stop)
        host.start()
        counters = LiveCounters()
        stack.callback(counters.close)
        scene = Scene(folder, host, broker, counters, with_classes)
        boot_guests(scene)
        yield scene


@contextmanager
def with_logs(folder: Path) -> Iterator[None]:
    """A failure carries the last lines of the agent's log, since the folder is about to go. Before
    the agent is started, the logs of what it needs take their place."""
    try:
        yield
    except Exception as exc:
        for name in (AGENT_LOG,) if (folder / AGENT_LOG).exists() else EARLIER_LOGS:
            path = folder / name
            lines = path.read_text(errors="replace").splitlines() if path.exists() else []
            exc.add_note("\n".join([f"the last lines of {name}:", *lines[-LAST_LINES:]]))
        raise


def start_service(folder: Path, broker: RabbitMQ) -> Service:
    """Somebody must want the reports, or none is sent."""
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    database.register_opts(conf)
    conf([], default_config_files=[])
    conf.set_override("transport_url", broker.url, group="bus")
    conf.set_override("connection", f"sqlite:///{folder}/store.sqlite", group="database")
    schema.upgrade(schema.open_engine(conf))
    service = Service(scheduler(conf), ReportStore(conf))
    service.start()
    return service


def boot_guests(scene: Scene) -> None:
    firmware = write_halting(scene.folder / "halting.bin")
    for number in range(1, VMS + 1):
        name = f"instance-{number:08x}"
        metadata = latency_load.metadata_of(number) if scene.with_classes else None
        uuid = latency_load.uuid_of(number)
        xml = a_domain(name, uuid=uuid, vcpus=VCPUS, firmware=firmware, metadata=metadata)
        pid = scene.host.pid_of(scene.host.boot(xml, is_persistent=True))
        work = Work.MIXED if number % 3 == 0 else Work.COMPUTE
        path = scene.folder / "vpmu" / f"vm.{name}"
        scene.counters.guests.append(LiveGuest(path, read_tids(pid), work))
        if number % 20 == 0:
            progress(f"{number} of {VMS} guests run")


def start_agent(scene: Scene) -> "subprocess.Popen[bytes]":
    """Where it sees what libvirtd sees. nsenter executes it: the pid is the agent's."""
    config = scene.folder / "nova-vp.conf"
    keys = latency_load.keys_in(scene.folder) if scene.with_classes else keys_directory()
    text = CONFIG.format(folder=scene.folder, broker=scene.broker.url, keys=keys)
    config.write_text(text + (latency_load.configuration() if scene.with_classes else ""))
    timed = [sys.executable, "-m", "tests.bench.timed_agent", str(scene.folder / "times")]
    with (scene.folder / AGENT_LOG).open("w") as log:
        return subprocess.Popen(
            [*scene.host.inside(), *timed, "--config-file", str(config), "run"],
            stdout=log,
            stderr=log,
        )


def measure_agent(
    scene: Scene, agent: "subprocess.Popen[bytes]", libvirtd_alone_share: float
) -> Numbers:
    guests = scene.counters.guests
    homed_s = scene.pass_time_until(
        lambda: all(len(guest.placement()) == 1 for guest in guests),
        "the agent to home every guest",
        HOMED_WITHIN_S,
    )
    progress(f"all guests homed after {homed_s:.1f} s; {STEADY_S:.0f} s in which nothing happens")
    here = [guest for guest in guests if guest.placement() == {0} and guest.work is Work.COMPUTE]
    victims, aggressors = here[:VICTIMS], here[VICTIMS : VICTIMS + AGGRESSORS]
    for victim in victims:
        victim.work = Work.CHASE
    scene.pass_time(SETTLE_S)
    steady = scene.mark()
    scene.pass_time(STEADY_S)
    onset = scene.mark()
    progress(f"{len(victims)} are hurt; {ONSET_S:.0f} s in which the agent acts")
    for aggressor in aggressors:
        aggressor.work = Work.STREAM
    action_s = scene.pass_time_until(
        lambda: any(g.placement() != {0} for g in aggressors),
        "the agent to move an aggressor",
        ONSET_S,
    )
    scene.pass_time(ONSET_S - action_s)
    end = scene.mark()
    moved = sum(guest.placement() != {0} for guest in aggressors)
    memory = {
        "rss_mib": peak_mib(agent.pid),
        "privsep_rss_mib": sum(map(peak_mib, children(agent.pid)), 0.0),
    }
    stop_agent(scene, agent)
    return {
        "core_share": agent_share(steady, end),
        **memory,
        **step_numbers(scene.folder / "times", steady.at_s, end.at_s),
        "libvirtd_core_share": libvirtd_share(steady, end) - libvirtd_alone_share,
        "core_share_steady": agent_share(steady, onset),
        "core_share_onset": agent_share(onset, end),
        "seconds_to_first_action": action_s,
        "aggressors_moved": moved,
    }


def stop_agent(scene: Scene, agent: "subprocess.Popen[bytes]") -> None:
    agent.send_signal(signal.SIGTERM)
    status = agent.wait(timeout=60)
    bound = frozenset(range(os.cpu_count() or 1)) & {0, 1}
    left = [guest for guest in scene.counters.guests if guest.placement() != bound]
    if status or left:
        raise RuntimeError(
            f"the agent was told to stop: status {status}, {len(left)} guests not given back"
        )


def agent_share(first: Mark, last: Mark) -> float:
    return (last.agent_cpu_s - first.agent_cpu_s) / (last.at_s - first.at_s)


def libvirtd_share(first: Mark, last: Mark) -> float:
    return (last.libvirtd_cpu_s - first.libvirtd_cpu_s) / (last.at_s - first.at_s)


def step_numbers(times: Path, from_s: float, to_s: float) -> Numbers:
    """By the thread's own CPU time: other work on this machine must not count."""
    rows = [tuple(map(float, line.split())) for line in times.read_text().splitlines()]
    rows = [row for row in rows if from_s <= row[0] <= to_s]
    cpu_ms = sorted(row[1] / 1e6 for row in rows)
    wall_ms = sorted(row[2] / 1e6 for row in rows)
    return {
        "step_mean_ms": statistics.fmean(cpu_ms),
        "step_p99_ms": percentile(cpu_ms, 0.99),
        "step_max_ms": cpu_ms[-1],
        "step_wall_mean_ms": statistics.fmean(wall_ms),
        "step_wall_p99_ms": percentile(wall_ms, 0.99),
        "ticks": len(rows),
    }


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


BENCHMARK = Benchmark(
    name="agent",
    about=f"the agent on a host of {VMS} VMs x {VCPUS} vCPUs, {VICTIMS} hurt at once",
    budgets={
        "core_share": scaled(0.01),
        "rss_mib": fixed(110.0),
        "step_mean_ms": scaled(2.0),
        "step_p99_ms": scaled(5.0),
    },
    measure=measure,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=BENCHMARK.about)
    parser.add_argument("--json", action="store_true", help="the numbers alone, as JSON")
    parser.add_argument(
        "--latency",
        action="store_true",
        help="half of the servers with a class, the controller latency on, and reports every 2 s",
    )
    arguments = parser.parse_args()
    asked = BENCHMARK
    if arguments.latency:
        asked = replace(BENCHMARK, measure=functools.partial(measure, with_classes=True))
    return run(asked, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
