# SPDX-License-Identifier: Apache-2.0
"""One controller and one compute host whose programs are of either release, one at a time each.

RabbitMQ, MariaDB, keystone, libvirtd and a server are of no release. Database, accounts and keys
are made by the former one, as an operator who upgrades has them.
"""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import requests

from tests.domain_xml import PROJECT_ID, a_domain, nova_metadata, write_halting
from tests.keystone import keystone_process
from tests.libvirt_host import LibvirtHost
from tests.mariadb import MariaDB
from tests.rabbitmq import RabbitMQ, free_port
from tests.upgrade.releases import Release
from tests.waiting import answers_on, wait_until

PLACING = Path(__file__).with_name("placing.py")
HOST = "vp1"
CONTROLLER = socket.gethostname()
START_WITHIN_S, STOP_WITHIN_S = 120.0, 60.0
OPERATOR, TENANT = "admin.admin", f"member.{PROJECT_ID}"
"""Tokens of `tests.keystone`."""
KNOWN_TO_BOTH = {"OpenStack-API-Version": "performance-isolation 1.3"}
CONTROLLER_CONF = """
[DEFAULT]
use_stderr = true
[bus]
keys_directory = {keys}
[database]
connection = {database}
[keystone_authtoken]
auth_type = password
auth_url = {keystone}
www_authenticate_uri = {keystone}
username = service
password = secret
project_name = service
user_domain_name = Default
project_domain_name = Default
"""
NOVA_SCHEDULER_CONF = """
{account}
keys_directory = {keys}
[vp_scheduler]
stale_hosts = refuse
stale_after_s = 5
[policy]
strict_max_hurt_ratio = 0.5
"""
"""A host of which nothing is heard takes no strict server; one of which something is heard does,
though nobody knows what the server and its neighbour do."""
AGENT_CONF = """
[DEFAULT]
use_stderr = true
[agent]
host = {host}
interval_s = 0.5
vpmu_directory = {folder}/none
state_directory = {folder}/state
run_directory = {folder}/run
[bus]
keys_directory = {keys}
refresh_interval_s = 2
[policy]
controllers = vp,overlays
"""


class Program:
    """A program of either release, which goes on where the other one's has ended."""

    def __init__(self, log: Path, words: Sequence[str], inside: Sequence[str] = ()) -> None:
        """`words`: its command; the first one is the program's name. `inside`: how to begin it."""
        self.log = log
        self._name, *self._words = words
        self._inside = inside
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, release: Release, environment: Mapping[str, str] | None = None) -> None:
        assert self.process is None, f"{self._name} runs"
        with self.log.open("a") as log:
            print(f"--- {release.name}", file=log, flush=True)
            self.process = subprocess.Popen(
                [*self._inside, release.program(self._name), *self._words],
                cwd=release.root,
                env={**os.environ, "PYTHONWARNINGS": "ignore", **(environment or {})},
                stdout=log,
                stderr=log,
            )

    def require(self) -> None:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()[-4000:]

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(by)
        status, self.process = self.process.wait(STOP_WITHIN_S), None
        return status

    def close(self) -> None:
        """As after a crash."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


class Site:
    def __init__(self, stack: ExitStack, folder: Path, former: Release) -> None:
        self._former = former
        for name in ("rabbitmq", "mariadb", "libvirt", "host", "controller"):
            (folder / name).mkdir()
        self.rabbitmq = RabbitMQ(folder / "rabbitmq", scale=1)
        stack.callback(self.rabbitmq.close)
        self.rabbitmq.start()
        self.mariadb = MariaDB(folder / "mariadb")
        stack.callback(self.mariadb.stop)
        self.mariadb.start()
        keystone = stack.enter_context(keystone_process())
        self.libvirt = LibvirtHost(folder / "libvirt", cells="0/1", migration_port=49600)
        stack.callback(self.libvirt.stop)
        self.libvirt.start()
        self.database = self.mariadb.make_database("nova_vp")
        self._made = folder / "credentials"
        self._etc = folder / "controller"
        self._write_controller(keystone.url)
        self.server = self._boot(folder)
        self.agent_folder = folder / "host"
        (self.agent_folder / "state").mkdir()
        self._agent_conf = self._write_agent(self.agent_folder)
        ours = ("--config-file", str(self._etc / "nova-vp.conf"))
        account = ("--config-file", str(self._etc / "vp-scheduler.conf"))
        self.scheduler = Program(folder / "vp-scheduler.log", ("vp-scheduler", *ours, *account))
        self.port = free_port()
        serve = ("python", "-m", "testbed.lab.serve", "vp_api.wsgi", "127.0.0.1", str(self.port))
        self.api = Program(folder / "vp-api.log", (*serve, "8"))
        agent = ("vp-agent", *self._files(self._agent_conf), "run")
        self.agent = Program(folder / "vp-agent.log", agent, self.libvirt.inside())
        self.nova_schedulers = [self._nova_scheduler(folder, number) for number in (0, 1)]
        for program in (self.scheduler, self.api, self.agent, *self.nova_schedulers):
            stack.callback(program.close)

    def _write_controller(self, keystone: str) -> None:
        """Database, accounts, keys."""
        conf = self._etc / "nova-vp.conf"
        keys = self._made / CONTROLLER / "keys"
        conf.write_text(
            CONTROLLER_CONF.format(
                keys=keys, database=self.database.replace("$", "$$"), keystone=keystone
            )
        )
        self.manage(self._former, "db", "sync")
        names = (f"--host={HOST}", f"--controller={CONTROLLER}")
        make = ("credentials", "create", self._broker, f"--directory={self._made}", *names)
        self.manage(self._former, *make)
        self.rabbitmq.import_definitions(self._made / "rabbitmq.json")
        for process in ("vp-scheduler", "vp-api"):
            account = (self._made / CONTROLLER / f"{process}.conf").read_text()
            (self._etc / f"{process}.conf").write_text(account)

    def _write_agent(self, folder: Path) -> Path:
        conf = folder / "nova-vp.conf"
        keys = self._made / HOST / "keys"
        account = (self._made / HOST / "vp-agent.conf").read_text()
        conf.write_text(AGENT_CONF.format(host=HOST, folder=folder, keys=keys))
        (folder / "vp-agent.conf").write_text(account)
        return conf

    def _files(self, conf: Path) -> tuple[str, ...]:
        both = (conf, conf.with_name("vp-agent.conf"))
        return tuple(word for one in both for word in ("--config-file", str(one)))

    def _boot(self, folder: Path) -> str:
        """A server that stands still."""
        metadata = nova_metadata(extra_specs={"vp:cpu_floor": "10"})
        firmware = write_halting(folder / "halting.bin")
        xml = a_domain(vcpus=1, metadata=metadata, firmware=firmware)
        return str(self.libvirt.boot(xml, is_persistent=True).UUIDString())

    def _nova_scheduler(self, folder: Path, number: int) -> Program:
        """Of one release or the other: both run at a time."""
        conf = folder / "nova-scheduler.conf"
        account = (self._made / CONTROLLER / "nova-scheduler.conf").read_text()
        keys = self._made / CONTROLLER / "keys"
        conf.write_text(NOVA_SCHEDULER_CONF.format(account=account, keys=keys))
        words = ("python", "-W", "ignore", str(PLACING), str(conf), HOST)
        return Program(folder / f"nova-scheduler-{number}.log", words)

    def manage(self, release: Release, *words: str) -> str:
        """`vp-manage`. What it prints."""
        conf = ("--config-file", str(self._etc / "nova-vp.conf"))
        argv = [release.program("vp-manage"), *conf, *words]
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    @property
    def _broker(self) -> str:
        return f"--broker=rabbit://127.0.0.1:{self.rabbitmq.port}/"

    def grant_rights(self, release: Release) -> None:
        """Of this release, to the accounts that there are."""
        rights = self._etc / "rights.json"
        rights.write_text(self.manage(release, "credentials", "rights", self._broker))
        self.rabbitmq.import_definitions(rights)

    def check_upgrade(self, release: Release) -> subprocess.CompletedProcess[str]:
        names = ("nova-vp.conf", "vp-scheduler.conf")
        files = [word for one in names for word in ("--config-file", str(self._etc / one))]
        argv = [release.program("vp-status"), *files, "upgrade", "check"]
        return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)

    def start_api(self, release: Release) -> None:
        self.api.start(release, {"OS_NOVA_VP_CONFIG_DIR": str(self._etc)})
        wait_until(lambda: self.api.require() or answers_on(self.port), "vp-api", START_WITHIN_S)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        token: str = OPERATOR,
        version: Mapping[str, str] = KNOWN_TO_BOTH,
    ) -> requests.Response:
        return requests.request(
            method,
            f"http://127.0.0.1:{self.port}/v1{path}",
            json=body,
            headers={"X-Auth-Token": token, **version},
            timeout=60,
        )

    def told(self, method: str, path: str, body: Any = None, token: str = OPERATOR) -> Any:
        """The answer of one that is granted."""
        answer = self.ask(method, path, body, token)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def places(self) -> list[str]:
        """Whether nova-scheduler of each release would give the host a strict server: `passed` or
        `refused`, or `---` while it starts."""
        return [_last_answer(program) for program in self.nova_schedulers]

    def host(self) -> Mapping[str, Any] | None:
        """As vp-api shows it; None: no report is stored yet."""
        answer = self.ask("GET", f"/hosts/{HOST}")
        assert answer.status_code in (200, 404), answer.text
        return answer.json()["host"] if answer.status_code == 200 else None

    def status(self, release: Release) -> Mapping[str, Any]:
        """What the agent says, which is of this release; empty before it has looked at its host."""
        self.agent.require()
        words = (*self._files(self._agent_conf), "status", "--json")
        argv = [release.program("vp-agent"), *words]
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        return json.loads(ran.stdout) if ran.returncode == 0 and ran.stdout else {}


def _last_answer(program: Program) -> str:
    program.require()
    words = [line.partition(" ")[0] for line in program.log.read_text().splitlines()]
    return [one for one in words if one in ("---", "passed", "refused")][-1]


@contextmanager
def a_site(folder: Path, former: Release) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(stack, folder, former)
