# SPDX-License-Identifier: Apache-2.0
"""Real vp-schedulers that die at the worst moments: one escalation is one migration all the same.

RabbitMQ and the database are real, Nova and keystone are the second implementation over HTTP, the
agent is a server on the bus that keeps what it was told. `make faults` does all of it twenty times
on all databases.
"""

import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from nova_vp import conf as options
from nova_vp import rpcapi, rpcserver, rpctransport, wire
from nova_vp.answers import open_asking_bus
from nova_vp.cmd import manage
from nova_vp.db.escalations import Ledger
from nova_vp.db.records import Escalation
from nova_vp.escalation_status import Status
from nova_vp.service import failpoints
from tests import identities
from tests.connections import collect_sockets
from tests.escalations import FakeAgents, World, a_world
from tests.messages import VICTIM, a_candidate, an_escalation
from tests.rabbitmq import RabbitMQ
from tests.waiting import wait_until

ROUNDS = int(os.environ.get("NOVA_VP_FAULT_ROUNDS", "1"))
IS_LONG = ROUNDS > 1
DEADLINE_S = 60.0
POINTS = sorted(
    f"{when}-{what}"
    for when in ("before", "after")
    for what in ("ledger-commit", "acknowledgement", "nova-call", "completion")
)
DATABASES = ("sqlite", "mariadb", "postgresql")
PAIRS = [
    pytest.param(point, database, id=f"{point}-{database}")
    for number, point in enumerate(POINTS)
    for database in (DATABASES if IS_LONG else [DATABASES[number % len(DATABASES)]])
]
long = pytest.mark.skipif(not IS_LONG, reason="part of `make faults`")
OPTIONS = """
[vp_scheduler]
escalation_mode = enforce
escalation_lease_s = 1.5
escalation_settle_s = 1.0
escalation_poll_s = 0.2
"""


class AgentEndpoint:
    """`rpcapi.AgentAPI` of host vp1, as far as it concerns migrations."""

    def __init__(self) -> None:
        self.agents = FakeAgents()

    def republish(self, context: Any, within_s: float) -> None:
        """It has nothing to say."""

    def prepare_migration(
        self, context: Any, escalation_id: str, uuid: str, hold_s: float
    ) -> dict[str, Any]:
        why = self.agents.prepare("vp1", escalation_id, uuid, hold_s)
        return {"ready": not why, "why": why}

    def end_migration(
        self, context: Any, escalation_id: str, uuid: str, outcome: str, detail: str
    ) -> None:
        self.agents.end("vp1", escalation_id, uuid, outcome, detail)


class Cloud:
    """Everything around the vp-schedulers, and those that were started."""

    def __init__(self, folder: Path, url: str, rabbitmq: RabbitMQ, world: World) -> None:
        self.world, self.nova = world, world.nova
        self._file = folder / "nova-vp.conf"
        self._file.write_text(
            f"[database]\nconnection = {url}\n[bus]\ntransport_url = {rabbitmq.url}\n"
            f"keys_directory = {identities.keys_directory()}\n{world.configuration()}{OPTIONS}"
        )
        manage.main(["--config-file", str(self._file), "db", "sync"])
        conf = cfg.ConfigOpts()
        options.register_all(conf)
        conf(["--config-file", str(self._file)])
        self.ledger = Ledger(conf)
        self._log = folder / "vp-scheduler.log"
        agent = identities.agent(conf)
        identities.register(conf, agent.sender)
        self._bus = open_asking_bus(agent)
        self._processes: list[subprocess.Popen[bytes]] = []
        endpoint = AgentEndpoint()
        self.agent = endpoint.agents
        where = rpctransport.target(wire.AGENT_TOPIC, server="vp1")
        self._server = rpcserver.BackgroundServer(agent, where, [endpoint], threads=2)
        self._server.start()

    def start(self, fail_at: str = "") -> "subprocess.Popen[bytes]":
        program = Path(sys.executable).with_name("vp-scheduler")
        environment = os.environ | ({failpoints.VARIABLE: fail_at} if fail_at else {})
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [program, "--config-file", self._file],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def escalate(self) -> "Sender":
        return Sender(self._bus)

    def found(self, id: str) -> Escalation | None:
        return self.ledger.get(id)

    def settled(self, id: str) -> Escalation:
        def find() -> Escalation | None:
            found = self.found(id)
            return found if found and found.settled_at else None

        try:
            settled: Escalation = wait_until(find, "the escalation to settle", DEADLINE_S)
        except AssertionError as exc:
            tail = self._log.read_text()[-4000:]
            raise AssertionError(f"{exc}: {self.found(id)}\n{tail}") from exc
        return settled

    def end(self) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._server.stop(1.0)
        self._bus.close()


class Sender:
    """The agent's end of an escalation: again and again until it is acknowledged."""

    def __init__(self, bus: rpctransport.Bus) -> None:
        self.id = str(uuid.uuid4())
        message = an_escalation(self.id, "vp1", a_candidate())
        self._text = wire.encode(wire.ESCALATION_TOPIC, message)
        self._api = rpcapi.EscalationAPI(bus)
        self.times = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            self.times += 1
            with suppress(oslo_messaging.MessagingException):
                self._api.escalate(self._text)
                return

    @property
    def is_acknowledged(self) -> bool:
        return not self._thread.is_alive()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who escalates and is not answered asks again soon: its message may be with a dead one."""
    monkeypatch.setattr(rpctransport, "CALL_TIMEOUT_S", 3)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with a_world() as world:
        yield world


@pytest.fixture
def cloud(tmp_path: Path, database_url: str, rabbitmq: RabbitMQ, world: World) -> Iterator[Cloud]:
    world.nova.__init__()  # type: ignore[misc]
    world.nova.add_server(VICTIM)
    cloud = Cloud(tmp_path, database_url, rabbitmq, world)
    try:
        yield cloud
    finally:
        cloud.end()
        collect_sockets()


def check_one_migration(cloud: Cloud, sender: Sender) -> None:
    """Nova's list equals the ledger, nothing is lost or doubled, nothing stays held."""
    found = cloud.settled(sender.id)
    wait_until(lambda: sender.is_acknowledged, "the acknowledgement", DEADLINE_S)
    assert found.status is Status.COMPLETED, found
    [migration] = cloud.nova.migrations
    [attempt] = found.attempts
    assert (attempt.nova_id, attempt.nova_uuid) == (migration.id, migration.uuid)
    assert (attempt.server, attempt.dest_host) == (VICTIM, migration.dest)
    assert (attempt.nova_status, migration.status) == ("completed", "completed")
    assert cloud.agent.told == [(VICTIM, "completed")]
    assert cloud.agent.held == {}


@pytest.mark.parametrize("round", range(ROUNDS))
@pytest.mark.parametrize(("point", "database_kind"), PAIRS)
def test_a_vp_scheduler_that_dies_at_this_point(cloud: Cloud, point: str, round: int) -> None:
    dying = cloud.start(fail_at=point)
    sender = cloud.escalate()
    assert dying.wait(DEADLINE_S) == failpoints.EXIT_STATUS
    cloud.start()
    check_one_migration(cloud, sender)


@pytest.mark.parametrize("round", range(ROUNDS))
@pytest.mark.parametrize("database_kind", DATABASES if IS_LONG else ["mariadb"])
def test_two_vp_schedulers_and_one_escalation(cloud: Cloud, round: int) -> None:
    cloud.start()
    cloud.start()
    check_one_migration(cloud, cloud.escalate())


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_one_of_two_dies_and_the_other_goes_on(cloud: Cloud) -> None:
    cloud.nova.is_instant = False
    first = cloud.start()
    sender = cloud.escalate()
    wait_until(cloud.nova.running, "Nova to migrate", DEADLINE_S)
    cloud.start()
    os.killpg(first.pid, signal.SIGKILL)
    cloud.nova.is_instant = True
    check_one_migration(cloud, sender)


# Not SQLite, which a process that is frozen in the midst of reading keeps locked for all others.
@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_one_that_is_frozen_while_another_goes_on(cloud: Cloud) -> None:
    """A claim that is lost while its worker sleeps is not used when it wakes up."""
    cloud.nova.is_instant = False
    first = cloud.start()
    is_frozen = threading.Event()

    def freeze() -> None:
        if cloud.nova.running() and not is_frozen.is_set():
            os.killpg(first.pid, signal.SIGSTOP)
            is_frozen.set()

    cloud.nova.on_request = freeze
    sender = cloud.escalate()
    wait_until(is_frozen.is_set, "a worker that waits for Nova to be frozen", DEADLINE_S)
    cloud.start()
    cloud.nova.is_instant = True
    cloud.settled(sender.id)
    os.killpg(first.pid, signal.SIGCONT)
    check_one_migration(cloud, sender)


@long
@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_broker_that_restarts_while_it_migrates(cloud: Cloud, rabbitmq: RabbitMQ) -> None:
    cloud.nova.is_instant = False
    cloud.start()
    sender = cloud.escalate()
    wait_until(cloud.nova.running, "Nova to migrate", DEADLINE_S)
    rabbitmq.stop()
    try:
        cloud.nova.is_instant = True
        wait_until(
            lambda: (found := cloud.found(sender.id)) and found.status is Status.COMPLETED,
            "the ledger to know that it is done",
            DEADLINE_S,
        )
    finally:
        rabbitmq.start()
    check_one_migration(cloud, sender)


@long
@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_a_database_that_restarts_while_it_migrates(
    cloud: Cloud, request: pytest.FixtureRequest
) -> None:
    cloud.nova.is_instant = False
    cloud.start()
    sender = cloud.escalate()
    wait_until(cloud.nova.running, "Nova to migrate", DEADLINE_S)
    server = request.getfixturevalue("mariadb")
    # It is killed, and this one writes to its disk once a second only.
    begun = cloud.ledger.get(sender.id)
    assert begun is not None
    wait_until(
        lambda: (found := cloud.found(sender.id)) and found.version > begun.version + 20,
        "the migration to be followed for a while",
    )
    server.stop()
    cloud.nova.is_instant = True
    server.start()
    check_one_migration(cloud, sender)
