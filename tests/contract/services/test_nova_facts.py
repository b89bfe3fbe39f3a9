# SPDX-License-Identifier: Apache-2.0
"""Nova's facts, from its API by the real novaclient over the real bus to an agent's folder."""

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from nova_vp import conf as options
from nova_vp import rpcapi, wire
from nova_vp.core.types.policy import Mode
from nova_vp.host_facts import NO_FACTS, HostFacts, ServerGroup, facts_text, read_facts
from tests import identities
from tests.decisions import uuid_of
from tests.escalations import World, a_world
from tests.messages import a_report
from tests.rabbitmq import RabbitMQ
from tests.waiting import wait_until
from vp_agent.loop.command_handler import CommandHandler
from vp_agent.loop.command_server import CommandServer
from vp_agent.loop.state import StateFolder
from vp_agent.loop.told_facts import ToldFacts
from vp_scheduler.escalation import session
from vp_scheduler.escalation.nova_client import NovaClient
from vp_scheduler.ingest.bus_agents import BusAgents
from vp_scheduler.ingest.nova_facts import FORGET_S, REPEAT_S, FactsSync, open_facts
from vp_scheduler.ingest.report_queue import MAX_HOSTS

WEB, DB, ELSEWHERE, OF_P2 = (uuid_of(number) for number in range(1, 5))
GROUP_ID = "99999999-2222-4333-8444-000000000001"
STRICT = {"vp:isolation": "strict"}
FACTS = HostFacts(
    ("fast",), (ServerGroup(GROUP_ID, "anti-affinity", (WEB, ELSEWHERE)),), {WEB: STRICT}
)
NOW_S = 1_795_000_000.0


@pytest.fixture(scope="module")
def _served() -> Iterator[World]:
    with a_world() as world:
        yield world


@pytest.fixture
def world(_served: World) -> World:
    nova = _served.nova
    nova.servers.clear()
    nova.away, nova.shows_hosts = 0, True
    _served.keystone.closed_projects.clear()
    nova.add_server(WEB).extra_specs = {**STRICT, "hw:cpu_policy": "shared"}
    nova.add_server(DB)
    nova.add_server(ELSEWHERE, host="vp2").extra_specs = {"vp:priority": "2"}
    nova.add_server(OF_P2, "p2")
    nova.groups = [
        {
            "id": GROUP_ID,
            "name": "apart",
            "policy": "anti-affinity",
            "rules": {},
            "members": [WEB, ELSEWHERE],
            "project_id": "p1",
            "user_id": "u1",
        }
    ]
    nova.aggregates = [{"id": 1, "name": "fast", "hosts": ["vp1"], "metadata": {}}]
    return _served


@pytest.fixture
def conf(world: World, tmp_path: Path) -> cfg.ConfigOpts:
    file = tmp_path / "nova-vp.conf"
    file.write_text(world.configuration())
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    conf(["--config-file", str(file)])
    return conf


class Agents:
    """What hosts were told last."""

    def __init__(self) -> None:
        self.told: dict[str, tuple[float, HostFacts]] = {}
        self.fault: Exception | None = None
        self.on_told: Callable[[], None] | None = None

    def tell_facts(self, host: str, text: str) -> None:
        if self.fault:
            raise self.fault
        self.told[host] = read_facts(text)
        if self.on_told:
            self.on_told()


class Syncing:
    """A synchronisation whose clock is moved by hand."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.agents = Agents()
        self.now_s = NOW_S
        self._conf = conf
        self.log_in_anew()
        self.sync = FactsSync(
            self, self.agents, 60.0, lambda: self.now_s, wall_clock=lambda: self.now_s
        )

    def log_in_anew(self) -> None:
        """Whoever has a token keeps it."""
        nova = NovaClient(session.open_cloud(self._conf))
        self.servers_of, self.groups_of = nova.servers_of, nova.groups_of
        self.aggregates = nova.aggregates

    def hear(
        self,
        read_at: float = 0.0,
        checksum: str = "",
        *projects: str,
        host: str = "vp1",
        is_empty: bool = False,
    ) -> None:
        of_servers = () if is_empty else projects or ("p1",)
        vps = [{"project_id": one} for one in of_servers]
        facts = {"read_at": read_at, "checksum": checksum}
        self.sync.heard({"host": host, "vps": vps, "facts": facts})

    def told(self) -> tuple[float, HostFacts] | None:
        self.sync.tell()
        return self.agents.told.pop("vp1", None)


@pytest.fixture
def syncing(conf: cfg.ConfigOpts) -> Syncing:
    return Syncing(conf)


def test_a_host_is_told_what_nova_says_of_it_until_it_has_it(syncing: Syncing) -> None:
    syncing.hear()
    assert syncing.told() is None
    syncing.sync.read()
    assert syncing.told() == (NOW_S, FACTS)
    assert syncing.told() is None
    syncing.hear(NOW_S, FACTS.checksum)
    assert syncing.told() is None
    syncing.hear(NOW_S - 5, "other")
    assert syncing.told() == (NOW_S, FACTS)


def test_changes_are_told_at_the_next_reading_and_the_same_again_in_an_hour(
    syncing: Syncing, world: World
) -> None:
    syncing.hear(NOW_S, FACTS.checksum)
    syncing.sync.read()
    assert syncing.told() is None
    world.nova.servers[WEB].host = "vp2"
    syncing.sync.read()
    told = syncing.told()
    assert told is not None
    assert told[1] == HostFacts(("fast",))
    syncing.now_s += REPEAT_S
    syncing.hear(NOW_S, told[1].checksum)
    syncing.sync.read()
    assert syncing.told() == (NOW_S + REPEAT_S, told[1])


def test_a_host_without_servers_is_told_its_aggregates(syncing: Syncing, world: World) -> None:
    world.nova.aggregates[0]["hosts"] = ["vp1", "vp3"]
    syncing.hear()
    syncing.hear(host="vp3", is_empty=True)
    syncing.sync.read()
    syncing.sync.tell()
    assert syncing.agents.told["vp3"] == (NOW_S, HostFacts(("fast",)))


def test_a_host_that_no_longer_reports_here_is_told_nothing(syncing: Syncing, world: World) -> None:
    syncing.hear()
    syncing.sync.read()
    assert syncing.told() == (NOW_S, FACTS)
    syncing.now_s += FORGET_S + 1
    syncing.hear(host="vp2")
    syncing.sync.read()
    assert syncing.told() is None
    assert "vp2" in syncing.agents.told


def test_a_host_that_speaks_while_it_is_told_is_told_again(syncing: Syncing) -> None:
    """What it says may be older than what it was told."""
    syncing.hear()
    syncing.sync.read()
    syncing.agents.on_told = syncing.hear
    assert syncing.told() == (NOW_S, FACTS)
    syncing.agents.on_told = None
    assert syncing.told() == (NOW_S, FACTS)
    assert syncing.told() is None


def test_of_more_hosts_than_a_cloud_has_the_first_ones_are_kept(syncing: Syncing) -> None:
    for number in range(MAX_HOSTS):
        syncing.hear(NOW_S, NO_FACTS.checksum, host=f"host-{number}")
    syncing.hear()
    syncing.sync.read()
    assert syncing.told() is None


def test_of_a_project_that_cannot_be_read_hosts_keep_what_was_read_last(
    syncing: Syncing, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """As one that was disabled. Modes depend on aggregates, so that they are told all the same."""
    syncing.hear(0.0, "", "p1", "p2")
    syncing.sync.read()
    assert syncing.told() == (NOW_S, FACTS)
    world.keystone.closed_projects.add("p1")
    syncing.log_in_anew()
    world.nova.aggregates = [{"id": 2, "name": "careful", "hosts": ["vp1"], "metadata": {}}]
    syncing.hear(NOW_S, FACTS.checksum, "p1", "p2")
    for _ in range(2):
        syncing.sync.read()
    assert syncing.told() == (NOW_S, FACTS._replace(aggregates=("careful",)))
    assert caplog.text.count("project p1, of which hosts keep what was read last") == 1


def test_a_project_that_could_never_be_read_keeps_no_host_from_its_aggregates(
    syncing: Syncing, world: World
) -> None:
    world.keystone.closed_projects.add("p1")
    syncing.hear(0.0, "", "p1", "p2")
    syncing.sync.read()
    assert syncing.told() == (NOW_S, HostFacts(("fast",)))


def test_where_no_project_can_be_read_hosts_keep_what_they_have(
    syncing: Syncing, world: World
) -> None:
    world.keystone.closed_projects.add("p1")
    syncing.hear()
    syncing.sync.read()
    assert syncing.told() is None


def spoil_away(world: World) -> None:
    world.nova.away = 503


def spoil_rights(world: World) -> None:
    world.nova.shows_hosts = False


@pytest.mark.parametrize(
    ("spoil", "words"),
    [(spoil_away, "Nova answers 503"), (spoil_rights, "nova-policy.yaml")],
)
def test_failures_of_nova_are_logged_once_and_nobody_is_told_less(
    syncing: Syncing, world: World, caplog: pytest.LogCaptureFixture, spoil: Any, words: str
) -> None:
    syncing.hear()
    spoil(world)
    for _ in range(2):
        syncing.sync.read()
        assert syncing.told() is None
    assert caplog.text.count(words) == 1


def test_a_bus_that_is_away_is_tried_again(
    syncing: Syncing, caplog: pytest.LogCaptureFixture
) -> None:
    syncing.hear()
    syncing.sync.read()
    syncing.agents.fault = oslo_messaging.MessageDeliveryFailure("away")
    assert not syncing.sync.tell()
    assert not syncing.sync.tell()
    assert caplog.text.count("hosts are not told of facts of Nova") == 1
    syncing.agents.fault = None
    assert syncing.told() == (NOW_S, FACTS)


def test_without_a_cloud_or_an_interval_nobody_is_asked(conf: cfg.ConfigOpts) -> None:
    conf.set_override("facts_interval_s", 0.0, "vp_scheduler")
    assert open_facts(identities.scheduler(conf)) is None
    bare = cfg.ConfigOpts()
    options.register_all(bare)
    bare([], default_config_files=[])
    assert open_facts(identities.scheduler(bare)) is None


def test_facts_cross_the_bus_and_outlive_the_agent(
    conf: cfg.ConfigOpts, rabbitmq: RabbitMQ, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    conf.set_override("transport_url", rabbitmq.url, group="bus")
    state = StateFolder(str(tmp_path / "state"))
    told = ToldFacts(state)
    server = CommandServer(
        identities.agent(conf, "vp1"),
        CommandHandler(state, Mode.OBSERVE),
        NothingToSay(),
        facts=told,
    )
    with closing(server):
        server.start()
        wait_until(lambda: server.is_listening, "the agent to listen")
        stranger = rpcapi.AgentAPI(identities.api_bus(conf))
        stranger.tell_facts("vp1", facts_text(1.0, NO_FACTS))
        wait_until(lambda: "a vp-api may not call set_facts" in caplog.text, "the refusal")
        nova = NovaClient(session.open_cloud(conf))
        sync = FactsSync(nova, BusAgents(identities.scheduler(conf)), 3600.0)
        report = a_report("vp1")
        report["facts"] = {"read_at": 0.0, "checksum": ""}
        assert wire.decode(wire.REPORT_TOPIC, wire.encode(wire.REPORT_TOPIC, report)) == report
        report["vps"] = [{"project_id": "p1"}]
        sync.heard(report)
        sync.start()
        wait_until(lambda: told.told.facts == FACTS, "the agent to be told")
        sync.close(5.0)
    assert ToldFacts(state).told == told.told


class NothingToSay:
    def republish(self, within_s: float) -> None: ...

    republish_digest = republish
