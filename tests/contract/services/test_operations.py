# SPDX-License-Identifier: Apache-2.0
"""Running processes under an operator's hand: asked how they are, reloaded, and told to stop.

vp-scheduler and vp-agent as installed, over a real RabbitMQ that goes and comes back.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_context.fixture import ClearRequestContext
from prometheus_client.parser import text_string_to_metric_families

from nova_vp import conf as options
from nova_vp import rpcapi, rpcserver, rpctransport
from nova_vp.conf import database
from nova_vp.core.types.policy import Mode
from nova_vp.db import schema
from nova_vp.db.report_store import ReportStore
from nova_vp.signing import senders
from tests import identities
from tests.connections import end_connections
from tests.freezing import frozen
from tests.messages import report_text
from tests.rabbitmq import RabbitMQ, free_port
from tests.waiting import wait_until
from vp_agent.loop.command_server import CommandServer

BURST = 300
DEADLINE_S = 60.0
"""Of a process that starts on a busy machine."""


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """One whose messages live as long as in production: a service may be away for seconds."""
    broker = RabbitMQ(tmp_path_factory.mktemp("rabbitmq"), scale=1)
    try:
        broker.start()
        yield broker
        end_connections()
    finally:
        broker.close()


class Process:
    """One of ours, with a file of its own that a test may change."""

    def __init__(self, program: str, folder: Path, text: str, *command: str) -> None:
        self._folder = folder
        self.file = folder / f"{program}.conf"
        self.file.write_text(text)
        self._log = (folder / f"{program}.log").open("ab")
        path = Path(sys.executable).with_name(program)
        self._process = subprocess.Popen(
            [str(path), "--config-file", str(self.file), *command],
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )

    @property
    def log(self) -> str:
        return Path(self._log.name).read_text()

    def tell(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def says(self, text: str) -> None:
        self.wait(lambda: text in self.log, repr(text))

    def wait(self, condition: Callable[[], Any], what: str) -> None:
        """For something that only a living process does."""

        def is_so() -> Any:
            assert self._process.poll() is None, self.log[-2000:]
            return condition()

        wait_until(is_so, f"{what}; {self._log.name}", DEADLINE_S)

    def ended(self) -> int:
        return self._process.wait(DEADLINE_S)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()


CLOUD = """\
[cloud]
auth_type = password
auth_url = http://127.0.0.1:9/v3
username = u
password = p
project_name = service
"""


class Scheduler(Process):
    """vp-scheduler on a database in the folder; `more` goes on in [vp_scheduler]."""

    def __init__(self, folder: Path, broker: RabbitMQ, more: str = "") -> None:
        self.port = free_port()
        self._text = (
            f"[DEFAULT]\nuse_stderr = true\ntransport_url = {broker.url}\n"
            f"[bus]\nkeys_directory = {identities.keys_directory()}\n"
            f"[database]\nconnection = sqlite:///{folder}/store.sqlite\n{CLOUD}"
            f"[vp_scheduler]\nmetrics_port = {self.port}\n"
        )
        super().__init__("vp-scheduler", folder, self._text + more)
        self.wait(lambda: health(self.port)["status"] == "pass", "it to be well")

    def change(self, more: str) -> None:
        self.file.write_text(self._text + more)
        self.tell(signal.SIGHUP)


@pytest.fixture(scope="module")
def database_of_all(tmp_path_factory: pytest.TempPathFactory) -> cfg.ConfigOpts:
    """That of all schedulers here, which know some hosts."""
    conf = cfg.ConfigOpts()
    database.register_opts(conf)
    conf([], default_config_files=[])
    folder = tmp_path_factory.mktemp("service")
    conf.set_override("connection", f"sqlite:///{folder}/store.sqlite", group="database")
    schema.upgrade(schema.open_engine(conf))
    hosts = ("before", "after", "probe", *(f"burst-{number}" for number in range(BURST)))
    register(conf, *hosts)
    return conf


def register(conf: cfg.ConfigOpts, *hosts: str) -> None:
    identities.register(conf, *(senders.Sender(senders.Process.AGENT, host) for host in hosts))


@pytest.fixture(scope="module")
def store(database_of_all: cfg.ConfigOpts) -> ReportStore:
    return ReportStore(database_of_all)


@pytest.fixture(scope="module")
def folder(store: ReportStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp() / "service0"


@pytest.fixture(scope="module")
def scheduler(rabbitmq: RabbitMQ, folder: Path) -> Iterator[Scheduler]:
    """One for all tests, since it takes seconds to start; the last one stops it."""
    running = Scheduler(folder, rabbitmq, "escalation_mode = enforce\n")
    yield running
    running.close()


def a_conf(broker: RabbitMQ) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    conf([], default_config_files=[])
    conf.set_override("transport_url", broker.url, group="bus")
    return conf


class AgentsEnd:
    """Of any host."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._bus = identities.agent_bus(conf)

    def report(self, host: str) -> None:
        rpcapi.ReportAPI(identities.on_behalf(self._bus, host)).report(report_text(host=host))


@pytest.fixture(scope="module")
def agents_end(rabbitmq: RabbitMQ) -> AgentsEnd:
    return AgentsEnd(a_conf(rabbitmq))


def get(port: int, path: str) -> tuple[int, str]:
    """Status 0: nobody answers there."""
    try:
        answer = urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10)
    except urllib.error.HTTPError as exc:
        answer = exc
    except OSError:
        return 0, ""
    with closing(answer):
        return answer.status, answer.read().decode()


def health(port: int) -> dict[str, Any]:
    status, text = get(port, "/health")
    return json.loads(text) if status else {"status": "", "checks": {}}


def bus_is(status: str, port: int) -> bool:
    checks = health(port)["checks"].get("bus:connection", [{"status": ""}])
    return bool(checks[0]["status"] == status)


def metric(port: int, name: str) -> float:
    """Summed over its labels; 0 where it is not there."""
    families = text_string_to_metric_families(get(port, "/metrics")[1])
    return sum(s.value for family in families for s in family.samples if s.name == name)


def is_taken(host: str, agents_end: AgentsEnd) -> bool:
    try:
        agents_end.report(host)
    except (rpcapi.NobodyListens, oslo_messaging.MessagingException):
        return False
    return True


def test_a_reload_changes_what_is_mutable(
    scheduler: Scheduler, store: ReportStore, agents_end: AgentsEnd
) -> None:
    """Hosts that are no longer known are refused from now on; nonsense changes nothing."""
    scheduler.change("known_hosts = other\nescalation_running = soup\n")
    scheduler.says("the former values hold")
    agents_end.report("before")
    scheduler.wait(lambda: store.get_host("before"), "the report to be stored")
    scheduler.change("known_hosts = other\nbatch_size = 7\n")
    scheduler.says("the configuration was read again; changed: [vp_scheduler] ")
    assert "Ignoring change to immutable option vp_scheduler.batch_size" in scheduler.log
    agents_end.report("after")
    refused = "nova_vp_scheduler_reports_refused_total"
    scheduler.wait(lambda: metric(scheduler.port, refused) == 1, "the report to be refused")
    assert store.get_host("after") is None


def test_the_brake_of_escalation_works_without_a_restart(scheduler: Scheduler) -> None:
    for mode in ("enforce", "observe"):
        scheduler.change(f"escalation_mode = {mode}\n")
        told = f'escalation_mode="{mode}"'
        scheduler.wait(lambda told=told: told in get(scheduler.port, "/metrics")[1], told)


def test_an_agent_takes_its_numbers_over(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    """Without libvirt, as it happens: ticks that cannot read the host are ticks."""
    port = free_port()
    text = (
        f"[DEFAULT]\nuse_stderr = true\ntransport_url = {rabbitmq.url}\n"
        f"[bus]\nkeys_directory = {identities.keys_directory()}\n"
        f"[agent]\nhost = vp1\nlibvirt_uri = qemu+unix:///system?socket={tmp_path}/none\n"
        f"state_directory = {tmp_path}/state\nrun_directory = {tmp_path}/run\n"
        f"metrics_port = {port}\ninterval_s = "
    )
    agent = Process("vp-agent", tmp_path, f"{text}3\n", "run")
    try:
        agent.wait(lambda: bus_is("pass", port), "the agent to listen")
        agent.file.write_text(f"{text}0.1\n")
        agent.tell(signal.SIGHUP)
        ticks = "nova_vp_agent_ticks_total"
        agent.wait(lambda: metric(port, ticks) > 2 + DEADLINE_S / 3, "more ticks than at 3 s")
        assert health(port)["serviceId"] == "vp1"
        agent.tell(signal.SIGTERM)
        agent.ended()
        assert "run `vp-agent release` once libvirt answers" in agent.log
    finally:
        agent.close()


class Commands:
    """An agent's, that does nothing."""

    def set_mode(self, mode: Mode) -> None: ...

    def republish_digest(self, within_s: float) -> None: ...


def test_an_order_is_found_by_its_request_in_the_logs_of_both_ends(
    rabbitmq: RabbitMQ, caplog: pytest.LogCaptureFixture
) -> None:
    conf = a_conf(rabbitmq)
    server = CommandServer(identities.agent(conf), Commands(), Commands())
    server.start()
    wait_until(lambda: server.is_listening, "the agent to listen", DEADLINE_S)
    caplog.set_level("INFO", "vp_agent.loop.request_log")
    try:
        with ClearRequestContext():
            request = RequestContext()
            rpcapi.AgentAPI(identities.api_bus(conf)).set_mode("vp1", "observe")
    finally:
        server.close()
    assert f"request={request.request_id} order=set-mode mode=observe" in caplog.messages


class Notes:
    def __init__(self) -> None:
        self.seen: set[int] = set()

    def accept(self, context: Any, action_id: int) -> None:
        self.seen.add(action_id)


def test_what_arrives_while_a_listener_ends_is_not_lost(rabbitmq: RabbitMQ) -> None:
    """oslo.messaging acknowledges a whole prefetch while it closes, and forgets it."""
    conf, notes, topic = a_conf(rabbitmq), Notes(), "under_fire"
    where = rpctransport.target(topic, server="here")
    client = rpctransport.Client(identities.api_bus(conf), topic)

    def listen() -> rpcserver.BackgroundServer:
        server = rpcserver.BackgroundServer(identities.agent(conf), where, [notes], threads=2)
        server.start()
        wait_until(lambda: server.is_ready, "it to listen", DEADLINE_S)
        return server

    def send() -> None:
        for number in range(2 * BURST):
            client.cast("accept", action_id=number)

    first = listen()
    sending = threading.Thread(target=send)
    sending.start()
    wait_until(lambda: len(notes.seen) > BURST // 3, "some to arrive", DEADLINE_S)
    assert first.stop(DEADLINE_S)
    sending.join()
    second = listen()
    wait_until(lambda: len(notes.seen) == 2 * BURST, "all to arrive")
    second.stop(DEADLINE_S)


def test_health_warns_while_the_broker_is_away(scheduler: Scheduler, rabbitmq: RabbitMQ) -> None:
    port = scheduler.port
    rabbitmq.stop()
    try:
        scheduler.wait(lambda: bus_is("warn", port), "a warning")
        assert get(port, "/health")[0] == 200
        assert metric(port, "nova_vp_scheduler_bus_up") == 0
        assert "secret" not in get(port, "/health")[1] + get(port, "/metrics")[1]
    finally:
        rabbitmq.start()
    scheduler.wait(lambda: health(port)["status"] == "pass", "it to be well again")


def test_health_answers_while_the_broker_hangs_and_warns_once_nothing_can_be_sent(
    scheduler: Scheduler, rabbitmq: RabbitMQ, database_of_all: cfg.ConfigOpts
) -> None:
    with frozen(rabbitmq.pid):
        assert [get(scheduler.port, "/health")[0] for _ in range(3)] == [200] * 3
        register(database_of_all, "new")  # Every nova-scheduler shall be told of its key.
        scheduler.wait(lambda: bus_is("warn", scheduler.port), "a warning")
        assert get(scheduler.port, "/health")[0] == 200
        assert metric(scheduler.port, "nova_vp_scheduler_bus_up") == 0
    scheduler.wait(lambda: health(scheduler.port)["status"] == "pass", "it to be well")


def test_a_stop_loses_no_report(
    scheduler: Scheduler,
    store: ReportStore,
    agents_end: AgentsEnd,
    rabbitmq: RabbitMQ,
    folder: Path,
) -> None:
    """Those taken in are stored, those that are not lie in the queue for the next one."""
    scheduler.wait(lambda: is_taken("probe", agents_end), "the queue to be there again")
    for number in range(BURST):
        agents_end.report(f"burst-{number}")
        if number == BURST // 2:
            scheduler.tell(signal.SIGTERM)
    assert scheduler.ended() == 0
    assert "stopped: what was taken in is stored" in scheduler.log

    def stored() -> int:
        return sum(head.host.startswith("burst-") for head in store.list_heads())

    after = Scheduler(folder, rabbitmq)
    try:
        after.wait(lambda: stored() == BURST, "all reports")
    finally:
        after.close()


def test_a_stop_ends_while_the_broker_hangs(
    store: ReportStore, folder: Path, rabbitmq: RabbitMQ
) -> None:
    running = Scheduler(folder, rabbitmq)
    try:
        with frozen(rabbitmq.pid):
            running.tell(signal.SIGTERM)
            assert running.ended() == 0
    finally:
        running.close()
