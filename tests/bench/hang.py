# SPDX-License-Identifier: Apache-2.0
"""vp-api while a back end hangs: `python -m tests.bench.hang --json`.

Each in turn is stopped (SIGSTOP) for 10 s under 20 clients that ask one request after the other, of
a vp-api as our unit runs it: MariaDB, PostgreSQL, keystone, memcached, RabbitMQ. Clients ask for
what needs that back end: with a new token each time for keystone, and with an order to a host for
RabbitMQ.

`seconds_to_503` is how long the slowest client waited, after the stop, for its first error 503.
A vp-api that serves on without the back end (memcached) gives none: then it is how long the slowest
client waited for its first answer. `seconds_to_recover` is how long after the end of the stop the
slowest client had its last answer other than 200.
"""

import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import requests
from oslo_config import cfg

import vp_api  # noqa: F401  (first: it chooses threads before oslo.messaging is imported)
from nova_vp import conf as options
from nova_vp import rpctransport, wire
from nova_vp.cmd import manage
from nova_vp.db.report_store import NewReport, ReportStore
from nova_vp.rpcserver import BackgroundServer
from nova_vp.signing.senders import Process, Sender
from nova_vp.wire import version_of
from tests import identities
from tests.bench.harness import Benchmark, Numbers, command_line, fixed, progress
from tests.freezing import frozen
from tests.keystone import keystone_process
from tests.mariadb import MariaDB
from tests.memcached import memcached
from tests.postgresql import PostgreSQL
from tests.rabbitmq import RabbitMQ, free_port
from tests.unit.api import cloud
from tests.waiting import answers_on, wait_until
from vp_api.deploy import utc_now

CLIENTS = 20
THREADS = 8
"""Of our unit."""
WARM_UP_S, HANGS_S, RECOVERS_S = 3.0, 10.0, 8.0
PAUSE_S = 0.05
CLIENT_TIMEOUT_S = 60.0
LIMIT_S = 5.0
HOST = "lab-1"
MARIADB, POSTGRESQL = "mariadb", "postgresql"
KEYSTONE, MEMCACHED, RABBITMQ = "keystone", "memcached", "rabbitmq"
BACK_ENDS = (MARIADB, POSTGRESQL, KEYSTONE, MEMCACHED, RABBITMQ)
CONFIGURATION = """
[database]
connection = {database}
[bus]
transport_url = {bus}
keys_directory = {keys}
[keystone_authtoken]
auth_type = password
auth_url = {keystone}
www_authenticate_uri = {keystone}
username = service
password = secret
project_name = service
user_domain_name = Default
project_domain_name = Default
memcached_servers = {memcached}
"""

_numbers = itertools.count()


class Answer(NamedTuple):
    at_s: float
    status: int
    """0: none within CLIENT_TIMEOUT_S."""


@dataclass
class Client:
    """Asks one request after the other until it is told to stop."""

    url: str
    back_end: str
    answers: list[Answer] = field(default_factory=list)

    def run(self, stop: threading.Event) -> None:
        token = _new_token()
        with requests.Session() as session:
            while not stop.wait(PAUSE_S):
                if self.back_end == KEYSTONE:
                    token = _new_token()
                status = self._ask(session, token)
                self.answers.append(Answer(time.monotonic(), status))

    def _ask(self, session: requests.Session, token: str) -> int:
        method, order = (
            ("PATCH", {"mode": "observe"}) if self.back_end == RABBITMQ else ("GET", None)
        )
        url, headers = f"{self.url}/v1/hosts/{HOST}", {"X-Auth-Token": token}
        with contextlib.suppress(requests.RequestException):
            return session.request(
                method, url, json=order, headers=headers, timeout=CLIENT_TIMEOUT_S
            ).status_code
        return 0


def _new_token() -> str:
    return f"admin.project{next(_numbers)}"


class Agent:
    """The RPC endpoint of the host."""

    def set_mode(self, call: object, mode: str) -> None:
        """Obeys."""


class Services(NamedTuple):
    pids: dict[str, int]
    urls: dict[str, str]
    """Of the vp-api whose database that back end is; others are asked for at MariaDB's."""


def measure() -> Numbers:
    numbers: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder, _running(Path(folder)) as services:
        for name in BACK_ENDS:
            url = services.urls.get(name, services.urls[MARIADB])
            numbers |= _hang(name, services.pids[name], url)
            progress(f"{name} was stopped and is back")
    return numbers


def _hang(name: str, pid: int, url: str) -> dict[str, float]:
    clients = [Client(url, name) for _ in range(CLIENTS)]
    stop = threading.Event()
    threads = [threading.Thread(target=one.run, args=(stop,)) for one in clients]
    for thread in threads:
        thread.start()
    time.sleep(WARM_UP_S)
    with frozen(pid):
        stopped_s = time.monotonic()
        time.sleep(HANGS_S)
    back_s = time.monotonic()
    time.sleep(RECOVERS_S)
    stop.set()
    for thread in threads:
        thread.join()
    return {
        f"{name}_seconds_to_503": max(_to_503(one.answers, stopped_s, back_s) for one in clients),
        f"{name}_seconds_to_recover": max(_to_recover(one.answers, back_s) for one in clients),
    }


def _to_503(answers: list[Answer], stopped_s: float, back_s: float) -> float:
    since = [one for one in answers if one.at_s > stopped_s]
    refused = [one for one in since if one.status == 503 and one.at_s < back_s]
    return (refused or since)[0].at_s - stopped_s


def _to_recover(answers: list[Answer], back_s: float) -> float:
    """0: served all the time. Infinite if the last answer was still another than 200."""
    if answers[-1].status != 200:
        return float("inf")
    return max([0.0, *(one.at_s - back_s for one in answers if one.status != 200)])


@contextlib.contextmanager
def _running(folder: Path) -> Iterator[Services]:
    with ExitStack() as stack:
        (folder / MARIADB).mkdir()
        mariadb = MariaDB(folder / MARIADB)
        stack.callback(mariadb.stop)
        mariadb.start()
        postgresql = PostgreSQL()
        stack.callback(postgresql.stop)
        postgresql.start()
        (folder / RABBITMQ).mkdir()
        rabbitmq = RabbitMQ(folder / RABBITMQ)
        stack.callback(rabbitmq.close)
        rabbitmq.start()
        keystone = stack.enter_context(keystone_process())
        cache = stack.enter_context(memcached())
        progress("the back ends run")
        urls = {}
        for name, server in ((MARIADB, mariadb), (POSTGRESQL, postgresql)):
            written = CONFIGURATION.format(
                database=server.make_database("nova_vp"),
                bus=rabbitmq.url,
                keys=identities.keys_directory(),
                keystone=keystone.url,
                memcached=cache.address,
            )
            urls[name] = _serve(stack, folder / f"api-{name}", written)
        stack.enter_context(_agent(rabbitmq.url))
        servers = {MARIADB: mariadb, POSTGRESQL: postgresql, RABBITMQ: rabbitmq}
        processes = {KEYSTONE: keystone, MEMCACHED: cache}
        yield Services({name: one.pid for name, one in {**servers, **processes}.items()}, urls)


def _serve(stack: ExitStack, folder: Path, written: str) -> str:
    """A vp-api with that configuration; its URL."""
    folder.mkdir()
    file = folder / "nova-vp.conf"
    file.write_text(written)
    manage.main(["--config-file", str(file), "db", "sync"])
    _store_host(file)
    port = free_port()
    argv = [str(Path(sys.executable).with_name("waitress-serve")), f"--listen=127.0.0.1:{port}"]
    with (folder / "vp-api.log").open("wb") as log:
        process = subprocess.Popen(
            [*argv, f"--threads={THREADS}", "vp_api.wsgi:application"],
            env={**os.environ, "OS_NOVA_VP_CONFIG_DIR": str(folder), "PYTHONWARNINGS": "ignore"},
            stdout=log,
            stderr=log,
        )
    stack.callback(process.wait)
    stack.callback(process.kill)
    wait_until(lambda: answers_on(port), "vp-api", deadline_s=60)
    return f"http://127.0.0.1:{port}"


def _store_host(file: Path) -> None:
    conf = cfg.ConfigOpts()
    conf(["--config-file", str(file)])
    report = cloud.a_report(HOST, vps=[cloud.a_vp()])
    new = NewReport(HOST, version_of(report), report["mode"], utc_now(), json.dumps(report))
    ReportStore(conf).save_reports([new])
    identities.register(conf, Sender(Process.AGENT, HOST))


@contextlib.contextmanager
def _agent(bus_url: str) -> Iterator[None]:
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("transport_url", bus_url, group="bus")
    where = rpctransport.target(wire.AGENT_TOPIC, server=HOST)
    server = BackgroundServer(identities.agent(conf, HOST), where, [Agent()])
    server.start()
    wait_until(lambda: server.is_ready, "the agent to listen")
    try:
        yield
    finally:
        server.stop()


BENCHMARK = Benchmark(
    name="hang",
    about=f"vp-api under {CLIENTS} clients while a back end hangs for {HANGS_S:.0f} s",
    budgets={
        f"{name}_seconds_{what}": fixed(LIMIT_S)
        for name in BACK_ENDS
        for what in ("to_503", "to_recover")
    },
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(command_line(BENCHMARK))
