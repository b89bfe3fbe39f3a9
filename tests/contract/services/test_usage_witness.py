# SPDX-License-Identifier: Apache-2.0
"""What is billed is what servers did: a witness beside the agents counts it too.

Agents and vp-schedulers are processes, RabbitMQ and the database are real, Nova and keystone are
the second implementation over HTTP. Agents are killed, one vp-scheduler dies between its commit and
its acknowledgement, the database goes away for five minutes of the server's time, and the server is
migrated.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import pytest
from oslo_config import cfg

from nova_vp import conf as options
from nova_vp import wire
from nova_vp.cmd import manage
from nova_vp.service import failpoints
from nova_vp.signing.senders import Process, Sender
from tests import identities
from tests.connections import collect_sockets
from tests.escalations import World
from tests.mariadb import MariaDB
from tests.messages import VICTIM
from tests.rabbitmq import RabbitMQ
from tests.unit.api.client import Api, Persona
from vp_api.services import Stored

ROOT = Path(__file__).parents[3]
PROJECT = "p1"
EVERY = 10
"""Seconds of the server after which an agent has written: as by default."""
DEADLINE_S = 60.0
MOST_LOST = 0.01
ADMIN = Persona("admin")


class Witness:
    """Says what the server does, and keeps account of it."""

    def __init__(self) -> None:
        self._dice = random.Random(7)
        self.seconds = 0
        self.misses = 0
        # An hour that is not over, and hours before it.
        self._from_s = int(time.time()) // wire.HOUR_S * wire.HOUR_S - wire.HOUR_S - 1800

    def second(self) -> str:
        self.seconds += 1
        misses = self._dice.randrange(0, 4_000_000)
        self.misses += misses
        return json.dumps([1000.0 + self.seconds, self._from_s + self.seconds, misses])


class MeteredAgent:
    """One run of `tests.metered_agent`."""

    def __init__(self, file: Path, host: str, folder: Path) -> None:
        arguments = [str(file), host, str(folder), VICTIM, PROJECT]
        with (file.parent / f"{host}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.metered_agent", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                text=True,
            )
        assert self._answer() == "ready"

    def run(self, witness: Witness, seconds: int) -> None:
        """By every tenth second all is written that was counted before."""
        for number in range(1, seconds + 1):
            self._say(witness.second())
            if number % EVERY == 0:
                self._say('"saved"')

    def lose_server(self) -> None:
        self._say('"leave"')

    def kill(self) -> None:
        self._process.kill()
        self._end()

    def close(self) -> None:
        """As systemd would."""
        if self._process.poll() is None:
            self._in.close()
            self._end()

    def _say(self, line: str) -> None:
        print(line, file=self._in, flush=True)
        assert self._answer() == "done"

    @property
    def _in(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def _end(self) -> None:
        self._process.wait(timeout=DEADLINE_S)
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._in.close()
        self._process.stdout.close()


class Cloud:
    def __init__(self, folder: Path, url: str, rabbitmq: RabbitMQ, world: World) -> None:
        self.nova = world.nova
        self._folder, self._file = folder, folder / "nova-vp.conf"
        self._file.write_text(
            f"[database]\nconnection = {url}\n[bus]\ntransport_url = {rabbitmq.url}\n"
            f"keys_directory = {identities.keys_directory()}\n{world.configuration()}"
        )
        manage.main(["--config-file", str(self._file), "db", "sync"])
        self.conf = cfg.ConfigOpts()
        options.register_all(self.conf)
        self.conf(["--config-file", str(self._file)])
        for host in ("vp1", "vp2"):
            identities.register(self.conf, Sender(Process.AGENT, host))
        self._schedulers: list[subprocess.Popen[bytes]] = []
        self._agents: list[MeteredAgent] = []

    def start_scheduler(self, fail_at: str = "") -> "subprocess.Popen[bytes]":
        program = Path(sys.executable).with_name("vp-scheduler")
        with (self._folder / "vp-scheduler.log").open("ab") as log:
            process = subprocess.Popen(
                [program, "--config-file", self._file],
                env=os.environ | ({failpoints.VARIABLE: fail_at} if fail_at else {}),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._schedulers.append(process)
        return process

    def start_agent(self, host: str = "vp1") -> MeteredAgent:
        agent = MeteredAgent(self._file, host, self._folder / host)
        self._agents.append(agent)
        return agent

    def usage(self) -> dict[str, Any]:
        """As the API tells it."""
        api = Api(stored=Stored.open(self.conf))
        [told] = api.latest(ADMIN, "/v1/usage").json["usage"] or [{}]
        return dict(told)

    def end(self) -> None:
        for agent in self._agents:
            agent.close()
        for process in self._schedulers:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that can be: agents are killed, and the power stays on."""
    shared = Path("/dev/shm")
    with TemporaryDirectory(dir=shared if shared.exists() else None) as path:
        yield Path(path)


@pytest.fixture
def cloud(folder: Path, database_url: str, rabbitmq: RabbitMQ, world: World) -> Iterator[Cloud]:
    cloud = Cloud(folder, database_url, rabbitmq, world)
    try:
        yield cloud
    finally:
        cloud.end()
        collect_sockets()


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_what_is_billed_is_what_the_server_did(cloud: Cloud, mariadb: MariaDB) -> None:
    witness = Witness()
    dying = cloud.start_scheduler(fail_at="after-usage-commit")
    agent = cloud.start_agent()
    agent.run(witness, 707)
    assert dying.wait(DEADLINE_S) == failpoints.EXIT_STATUS
    cloud.start_scheduler()
    agent.kill()
    agent = cloud.start_agent()
    agent.run(witness, 505)
    mariadb.stop()
    agent.run(witness, 155)
    agent.kill()
    agent = cloud.start_agent()
    agent.run(witness, 150)
    mariadb.start()
    cloud.nova.servers[VICTIM].host = "vp2"
    agent.lose_server()
    other = cloud.start_agent("vp2")
    other.run(witness, 703)
    other.kill()
    other = cloud.start_agent("vp2")
    other.run(witness, 400)
    agent.close()
    other.close()
    billed = cloud.usage()
    assert billed["hosts"] == ["vp1", "vp2"]
    for told, did in (
        (billed["booked_s"], witness.seconds),
        (billed["pollution_misses"], witness.misses),
        (billed["attributed_misses"]["plain"], witness.misses),
        (billed["permit_misses"], 900_000 * witness.seconds),
    ):
        assert (1 - MOST_LOST) * did <= told <= did
