# SPDX-License-Identifier: Apache-2.0
"""A cloud's reports through real RabbitMQ and MariaDB into one vp-scheduler and one host view.

`python -m tests.bench.cluster --hosts 10000 --seconds 300 --json`. Every message's lag is the time
from before it is published until its report is committed and its digest would be placed by,
whichever is later. The simulated agents share this machine: their cost is among the numbers.
"""

import argparse
import bisect
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from oslo_config import cfg
from sqlalchemy import select
from sqlalchemy.engine import Engine

from nova_vp import wire
from nova_vp.cmd import manage
from nova_vp.db import schema
from nova_vp.db.bus_keys import BusKeyStore
from nova_vp.db.models import Host
from nova_vp.signing.keyring import public_text, read_private_key
from nova_vp.signing.senders import Process, Sender
from tests.bench.cluster_sizes import stored_sizes, traffic
from tests.bench.harness import Benchmark, Numbers, fixed, progress, run, scaled
from tests.bench.usage import cpu_s, held_mib, peak_mib
from tests.identities import write_keys
from tests.mariadb import MariaDB
from tests.rabbitmq import RabbitMQ
from tests.waiting import wait_until

WARM_UP_S = 180.0
"""All hosts have spoken, and the backlog that 200 000 unknown servers make in a minute is gone:
every later message meets a database that knows the host."""
SETTLE_S = 30.0
HOSTS, SECONDS = 10_000, 300.0
CHURN = 0.1
"""Material changes of a host per minute."""
DURABLE = (
    "--innodb-buffer-pool-size=1G",
    "--innodb-log-file-size=512M",
    "--innodb-flush-log-at-trx-commit=1",
)
"""As a production server has it: a commit is on disk when it returns."""
CONFIG = """
[DEFAULT]
use_stderr = true
[bus]
transport_url = {broker}
keys_directory = {keys}
[database]
connection = {database}
"""
SEQUENCES = select(Host.host, Host.sequence)
Log = dict[str, list[tuple[int, float]]]
"""Per host: sequence number and moment, both rising."""


@dataclass(frozen=True, slots=True)
class Scene:
    folder: Path
    broker: RabbitMQ
    database: MariaDB
    config: Path
    service: "subprocess.Popen[bytes]"
    view: "subprocess.Popen[bytes]"
    agents: "subprocess.Popen[bytes]"

    @property
    def pids(self) -> dict[str, int]:
        return {
            "": self.service.pid,
            "broker_": self.broker.pid,
            "database_": self.database.pid,
            "view_": self.view.pid,
            "load_generator_": self.agents.pid,
        }

    def used_s(self) -> dict[str, float]:
        return {f"{name}cores": cpu_s(pid) for name, pid in self.pids.items()}

    def held_mib(self) -> dict[str, float]:
        return {
            f"{name}held_mib": held_mib(pid)
            for name, pid in self.pids.items()
            if name != "load_generator_"
        }


def measure(hosts: int = HOSTS, seconds: float = SECONDS, churn: float = CHURN) -> Numbers:
    with ExitStack() as stack:
        scene = a_scene(stack, hosts, churn)
        watch(scene, WARM_UP_S, "warm-up")
        first, first_s = scene.used_s(), time.monotonic()
        traffic_first = traffic(scene.broker.port)
        watch(scene, seconds, "measured")
        last, last_s = scene.used_s(), time.monotonic()
        traffic_last = traffic(scene.broker.port)
        held_mib = scene.held_mib()
        end(scene.agents)
        progress("the agents are silent; what is under way arrives")
        published = read_log(scene.folder / "agents.log")
        wait_until_all(scene, published)
        memory = peak_mib(scene.service.pid)
        for process in (scene.service, scene.view):
            end(process)
        lags = lags_s(scene.folder, published, first_s, last_s)
        return {
            "lag_p99_s": percentile(lags, 0.99),
            "lag_p50_s": percentile(lags, 0.5),
            "lag_max_s": lags[-1],
            **{name: (last[name] - first[name]) / (last_s - first_s) for name in first},
            "rss_mib": memory,
            **held_mib,
            "lost": lost(scene, published),
            "hosts": hosts,
            "seconds": last_s - first_s,
            "messages_per_s": len(lags) / (last_s - first_s),
            **traffic_last.per_s(traffic_first, last_s - first_s),
            **stored_sizes(engine(scene)),
        }


def a_scene(stack: ExitStack, hosts: int, churn: float) -> Scene:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vp-bench-")))
    for name in ("rabbitmq", "mariadb"):
        (folder / name).mkdir()
    broker = RabbitMQ(folder / "rabbitmq", scale=1)
    stack.callback(broker.close)
    broker.start()
    database = MariaDB(folder / "mariadb", DURABLE)
    stack.callback(database.stop)
    database.start()
    config = folder / "nova-vp.conf"
    url = database.make_database("cluster")
    keys = write_keys(folder / "keys", [Sender(Process.SCHEDULER, socket.gethostname())])
    config.write_text(CONFIG.format(broker=broker.url, database=url.replace("$", "$$"), keys=keys))
    manage.main(["--config-file", str(config), "db", "sync"])
    register(config, hosts)

    def start(name: str, *argv: str) -> "subprocess.Popen[bytes]":
        with (folder / f"{name}.err").open("w") as err:
            process = subprocess.Popen([sys.executable, "-W", "ignore", "-m", *argv], stderr=err)
        stack.callback(process.kill)
        return process

    side = "tests.bench.cluster_side"
    service = start("service", side, "service", str(config), str(folder / "service.log"))
    view = start("view", side, "view", str(config), str(folder / "view.log"))
    wait_until(lambda: has_queue(broker) or service.poll(), "the service to listen", 60)
    generator = [
        "--url",
        broker.url,
        "--keys",
        str(keys),
        "--hosts",
        str(hosts),
        "--churn",
        str(churn),
    ]
    log = ["--log", str(folder / "agents.log")]
    agents = start("agents", "tests.bench.simulated_hosts", *generator, *log)
    return Scene(folder, broker, database, config, service, view, agents)


def register(config: Path, hosts: int) -> None:
    """All hosts have one key: signatures cost as much as with keys of their own."""
    conf = cfg.ConfigOpts()
    conf(["--config-file", str(config)], project="nova-vp")
    key = read_private_key(config.parent / "keys" / f"{Process.AGENT}.pem")
    text = public_text(key.public_key())
    senders = [Sender(Process.AGENT, f"compute-{number:05d}") for number in range(hosts)]
    BusKeyStore(conf).add([(sender, text) for sender in senders], datetime.now(UTC))


def has_queue(broker: RabbitMQ) -> bool:
    try:
        return broker.waiting(wire.REPORT_TOPIC) >= 0
    except Exception:  # whatever the broker says of a queue that is not there yet
        return False


def watch(scene: Scene, seconds: float, what: str) -> None:
    """Tells every ten seconds what waits, and fails when a process has died."""
    end_s = time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0:
        for name in ("service", "view", "agents"):
            if getattr(scene, name).poll() is not None:
                raise RuntimeError((scene.folder / f"{name}.err").read_text()[-4000:])
        waiting = scene.broker.waiting(wire.REPORT_TOPIC)
        progress(f"{what}: {left_s:.0f} s left, {waiting} reports wait in the broker")
        time.sleep(min(10.0, left_s))


def end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)


def wait_until_all(scene: Scene, published: Log) -> None:
    def is_quiet() -> bool:
        return scene.broker.waiting(wire.REPORT_TOPIC) == 0 and not missing(scene, published)

    end_s = time.monotonic() + SETTLE_S
    while time.monotonic() < end_s and not is_quiet():
        time.sleep(0.5)


def stored(scene: Scene) -> dict[str, int]:
    """The sequence number that each host has in the database."""
    with engine(scene).connect() as connection:
        return {host: sequence for host, sequence in connection.execute(SEQUENCES)}


@cache
def engine(scene: Scene) -> Engine:
    conf = cfg.ConfigOpts()
    conf(["--config-file", str(scene.config)], project="nova-vp")
    return schema.open_engine(conf)


def missing(scene: Scene, published: Log) -> set[str]:
    """Hosts whose last report is not in the database."""
    found = stored(scene)
    return {host for host, sent in published.items() if found.get(host, 0) < sent[-1][0]}


def lost(scene: Scene, published: Log) -> int:
    """Hosts whose last report or last digest has not arrived."""
    seen = read_log(scene.folder / "view.log")
    unseen = {h for h, sent in published.items() if not seen[h] or seen[h][-1][0] < sent[-1][0]}
    return len(unseen) + len(missing(scene, published))


def lags_s(folder: Path, published: Log, from_s: float, to_s: float) -> list[float]:
    """Ascending. A message that a newer one of its host overtook has arrived with that one."""
    committed, seen = read_log(folder / "service.log"), read_log(folder / "view.log")
    found = []
    for host, sent in published.items():
        for sequence, at_s in sent:
            if from_s <= at_s < to_s:
                arrived_s = max(arrival_s(log[host], sequence) for log in (committed, seen))
                found.append(arrived_s - at_s)
    return sorted(found)


def arrival_s(log: list[tuple[int, float]], sequence: int) -> float:
    place = bisect.bisect_left(log, (sequence, 0.0))
    return log[place][1] if place < len(log) else float("inf")


def read_log(path: Path) -> Log:
    found: Log = defaultdict(list)
    for at_s, host, sequence in map(str.split, path.read_text().splitlines()):
        found[host].append((int(sequence), float(at_s)))
    return found


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


BENCHMARK = Benchmark(
    name="cluster",
    about="the reports of a cloud into one vp-scheduler, through RabbitMQ and MariaDB",
    budgets={"lag_p99_s": scaled(1.0), "cores": scaled(1.0), "lost": fixed(0)},
    measure=measure,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=BENCHMARK.about)
    parser.add_argument("--hosts", type=int, default=HOSTS, help="of 20 VPs each (default 10000)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="measured (default 300)")
    parser.add_argument(
        "--churn", type=float, default=CHURN, help="changes per host and minute (default 0.1)"
    )
    parser.add_argument("--json", action="store_true", help="the numbers alone, as JSON")
    given = parser.parse_args()
    asked = replace(BENCHMARK, measure=lambda: measure(given.hosts, given.seconds, given.churn))
    return run(asked, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
