# SPDX-License-Identifier: Apache-2.0
"""Watcher's API, decision engine and applier, unmodified, from an environment of their own in
.cache/, on the lab's RabbitMQ, MariaDB and keystone.
"""

import hashlib
import shutil
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
from keystoneauth1.exceptions import ClientException
from openstack.connection import Connection

from testbed.lab import cloud, settings
from tests.bench.harness import progress

PINS = Path(__file__).with_name("constraints.txt")
FOLDER = settings.CACHE / "watcher"
PORT = 9322
URL = f"http://{settings.CONTROLLER_IP}:{PORT}"
# As published (17.0.0), the strategy hands its data source an argument too many, so that it never
# gets a number, and names its destination by a UUID, which Nova does not know.
MENDED_ENGINE = """
import sys
sys.argv = ["watcher-decision-engine", "--config-file", sys.argv[1]]
from watcher.cmd.eventlet.decisionengine import main
from watcher.decision_engine.datasources.gnocchi import GnocchiHelper as source
from watcher.decision_engine.strategy.strategies.noisy_neighbor import NoisyNeighbor as strategy
ask = source.get_instance_l3_cache_usage
source.get_instance_l3_cache_usage = lambda self, server, meter, *rest, **more: ask(
    self, server, *rest, **more
)
decide = strategy.do_execute
def decide_and_name(self, audit=None):
    decide(self, audit)
    for action in self.solution.actions:
        given = action["input_parameters"]
        for node in ("source_node", "destination_node"):
            given[node] = self.compute_model.get_node_by_uuid(given[node]).hostname
strategy.do_execute = decide_and_name
sys.exit(main())
"""
# Its own script needs eventlet.
SERVE_API = """
import sys
host, port, conf = sys.argv[1:]
sys.argv = ["watcher-api", "--config-file", conf]
from watcher.wsgi.api import application
from waitress import serve
serve(application, host=host, port=int(port))
"""
START_DEADLINE_S = 120

ACCESS = f"""
auth_url = {settings.KEYSTONE_URL}
auth_type = password
username = admin
password = {settings.PASSWORD}
project_name = admin
user_domain_id = default
project_domain_id = default
region_name = {settings.REGION}
"""
CONF = f"""
[DEFAULT]
transport_url = {settings.RABBIT_URL}
use_stderr = true
[database]
connection = {settings.database_url("watcher")}
[api]
host = {settings.CONTROLLER_IP}
port = {PORT}
workers = 1
[keystone_authtoken]
www_authenticate_uri = {settings.KEYSTONE_URL}
interface = public
{ACCESS}
[watcher_clients_auth]
{ACCESS}
[nova]
valid_interfaces = public
{ACCESS}
[gnocchi_client]
endpoint_type = public
region_name = {settings.REGION}
[watcher_datasources]
datasources = gnocchi
query_max_retries = 2
[collector]
collector_plugins = compute
# Watcher's own defaults, an hour and 5 s, would add to its time without need.
[watcher_cluster_data_model_collectors.compute]
period = 10
[watcher_decision_engine]
metric_map_path =
[oslo_concurrency]
lock_path = @FOLDER@/lock
"""


class Watcher:
    """Running from construction to `close`."""

    def __init__(self, gnocchi_url: str, *, is_mended: bool) -> None:
        self._run = settings.RUN / "watcher"
        self._run.mkdir(parents=True, exist_ok=True)
        self._conf = self._run / "watcher.conf"
        self._conf.write_text(CONF.replace("@FOLDER@", str(self._run)))
        self._admin = cloud.connect()
        _put_endpoint(self._admin, "gnocchi", "metric", gnocchi_url)
        with closing(pymysql.connect(host=settings.DATABASE_IP, port=settings.DATABASE_PORT)) as db:
            # The audits of another run would go on.
            db.cursor().execute("DROP DATABASE IF EXISTS watcher")
            db.cursor().execute("CREATE DATABASE watcher")
        self._call("watcher-db-manage", "upgrade")
        serve = ("python", "-c", SERVE_API, settings.CONTROLLER_IP, str(PORT), str(self._conf))
        engine = ("watcher-decision-engine", "--config-file", str(self._conf))
        if is_mended:
            engine = ("python", "-c", MENDED_ENGINE, str(self._conf))
        applier = ("watcher-applier", "--config-file", str(self._conf))
        self._processes = [
            self._start("watcher-api", *serve),
            self._start("watcher-decision-engine", *engine),
            self._start("watcher-applier", *applier),
        ]
        self._wait_for_strategies()

    def audit(self, strategy: str, every_s: int, parameters: dict[str, Any]) -> None:
        """A continuous one; what it finds is done at once."""
        wanted = {
            "name": f"{strategy}-bench",
            "audit_type": "CONTINUOUS",
            "goal": strategy,
            "strategy": strategy,
            "interval": str(every_s),
            "auto_trigger": True,
            "parameters": parameters,
        }
        answer = self._admin.session.post(f"{URL}/v1/audits", json=wanted, raise_exc=False)
        if answer.status_code != 201:
            raise cloud.LabError(f"Watcher refused the audit: {answer.status_code} {answer.text}")

    def actions(self) -> list[dict[str, Any]]:
        found = self._admin.session.get(f"{URL}/v1/actions/detail").json()["actions"]
        return [action for action in found if action["action_type"] == "migrate"]

    def close(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _wait_for_strategies(self) -> None:
        def listed() -> bool:
            try:
                found = self._admin.session.get(f"{URL}/v1/strategies").json()["strategies"]
            except ClientException:
                return False
            return any(one["name"] == "noisy_neighbor" for one in found)

        cloud.wait_for(listed, "Watcher's API", deadline_s=START_DEADLINE_S, interval_s=1)

    def _start(self, name: str, program: str, *argv: str) -> subprocess.Popen[bytes]:
        with (settings.LOG / "controller" / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [FOLDER / "bin" / program, *argv],
                stdout=log,
                stderr=log,
                env=_environment(),
            )

    def _call(self, name: str, *argv: str) -> None:
        done = subprocess.run(
            [FOLDER / "bin" / name, "--config-file", self._conf, *argv],
            capture_output=True,
            text=True,
            env=_environment(),
        )
        if done.returncode:
            raise cloud.LabError(f"{name} {argv}: {done.stderr[-2000:]}")


def _environment() -> dict[str, str]:
    path = f"{FOLDER}/bin:/usr/bin:/bin"
    return {"PATH": path, "LANG": "C.UTF-8", "HOME": str(settings.RUN)}


def install() -> None:
    pins = PINS.read_bytes()
    stamp, wanted = FOLDER / ".complete", hashlib.sha256(pins).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    progress("installing Watcher into .cache/watcher")
    shutil.rmtree(FOLDER, ignore_errors=True)
    subprocess.run(["/usr/bin/python3.11", "-m", "venv", str(FOLDER)], check=True)
    into = ("--compile-bytecode", "--python", f"{FOLDER}/bin/python")
    uv = str(settings.VENV / "bin" / "uv")
    subprocess.run([uv, "pip", "install", "-q", *into, "-r", str(PINS)], check=True)
    stamp.write_text(wanted)


def _put_endpoint(admin: Connection, name: str, kind: str, url: str) -> None:
    for service in admin.identity.services(type=kind):
        admin.identity.delete_service(service)
    service = admin.identity.create_service(name=name, type=kind)
    for interface in ("public", "internal"):
        admin.identity.create_endpoint(
            service_id=service.id, interface=interface, region_id=settings.REGION, url=url
        )
