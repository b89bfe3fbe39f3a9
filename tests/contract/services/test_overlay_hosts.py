# SPDX-License-Identifier: Apache-2.0
"""An overlay over two hosts: monitors call by the socket, applications by vp-api.

Agents are whole ones on hosts in memory, each with its socket and its queue. RabbitMQ, the database
and the vp-scheduler's parts are real; Nova and keystone are the second implementation over HTTP.
"""

import itertools
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from nova_vp import rpcapi, rpcserver, rpctransport, wire
from nova_vp.core.types.overlay import Call, CallAnswer, Nack, Overlay, Verb
from nova_vp.db.read_api import ReadApi
from nova_vp.monitors.base import Wanted
from nova_vp.overlay_message import (
    CallMessage,
    answer_text,
    call_text,
    checksum,
    overlays_text,
    read_answer,
)
from nova_vp.signing.envelope import Sealed
from tests import identities
from tests.contract.services.test_overlay_delivery import (
    Member,
    conf_of,
    ingesting,
    member_of,
)
from tests.escalations import World as Cloud
from tests.messages import NothingToSay, report_text
from tests.policies import a_policy
from tests.rabbitmq import RabbitMQ
from tests.unit.agent_host import World
from tests.unit.api import cloud
from tests.unit.core.build import COMPUTE
from tests.waiting import wait_until
from vp_agent import wiring
from vp_agent.drivers.cache_partition import UndoOnly
from vp_agent.drivers.counters_fake import FakeCounters
from vp_agent.drivers.fake import FakeActuator, FakeGuests, FakeHost, FakeJournal
from vp_agent.drivers.fake_balloon import FakeBalloon
from vp_agent.drivers.fake_emulator import FakeEmulatorWeights
from vp_agent.drivers.memory_fake import FakeMover
from vp_agent.loop.command_server import CommandServer
from vp_agent.loop.monitor_calls import SILENT_S, MonitorCalls
from vp_agent.loop.overlay_socket import FILE, OverlaySocket
from vp_agent.loop.state import StateFolder
from vp_agent.loop.told_facts import ToldFacts
from vp_agent.publish.asking_bus import BusOverlayCalls
from vp_scheduler.relay.service import OverlayCallService

WEB, DB, MILL = cloud.VICTIM, cloud.SLEEPER, cloud.NOISY
"""The first two are the shop's, on two hosts; the mill is another project's."""


class Host:
    """A whole agent with its socket; its tick's thread answers calls, and ticks when told to."""

    numbers = itertools.count(1)

    def __init__(self, conf: cfg.ConfigOpts, folder: Path, *servers: str) -> None:
        # A listener that ends takes some seconds, in which it still takes what is its host's.
        self.name = f"vp{next(self.numbers)}"
        self.folder = folder / self.name
        self.folder.mkdir()
        self.world = World(self.folder, policy=a_policy(controllers=("overlays",)))
        self.servers = servers
        for uuid in servers:
            self._boot(uuid)
        self.mill = self.world.boot(COMPUTE, cap_floor_ratio=0.1, project_id="mills")
        self.world.start_agent()
        self.world.tick(3)
        identity = identities.agent(conf, self.name)
        self._reports = rpcapi.ReportAPI(rpctransport.Bus(identity))
        self._order = ((int(time.time() * 1000), number) for number in itertools.count(1))
        self.elsewhere = BusOverlayCalls(identity)
        control = self.world.control
        self.hand_s = 0.0
        self.calls = MonitorCalls(
            lambda call: control.call_overlay(call, None),
            lambda: control.overlays.by_id,
            self.elsewhere,
            monotonic=lambda: self.hand_s,
        )
        self._server = CommandServer(identity, control, NothingToSay(), overlays=control)
        self._socket = OverlaySocket(self.folder, self.calls.answer)
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._answer)
        self._server.start()
        wait_until(lambda: self._server.is_listening, "the agent to listen")
        self._thread.start()

    def _boot(self, uuid: str) -> None:
        self.world.boot(COMPUTE, uuid=uuid, cap_floor_ratio=0.1, project_id=cloud.ALPHA)

    def _answer(self) -> None:
        while not self._is_over.is_set():
            self.world.control.calls.wait(20)
            with self._lock:
                self.world.agent.answer_calls(self.world.now_s)

    def tick(self, count: int = 1) -> None:
        with self._lock:
            self.world.tick(count)

    def arrive(self, uuid: str) -> None:
        with self._lock:
            self._boot(uuid)
        self.servers = (*self.servers, uuid)
        self.tick(3)

    def leave(self, uuid: str) -> None:
        with self._lock:
            self.world.host.end(uuid)
            del self.world.rates[uuid]
        self.servers = tuple(one for one in self.servers if one != uuid)
        self.tick()

    def report(self, *uuids: str) -> None:
        """Without `uuids`, what is true."""
        overlays = self.world.control.overlays.told
        told = {"version": overlays.version, "checksum": checksum(overlays.by_id.values())}
        vps = [
            cloud.a_vp(uuid=uuid, project_id=cloud.ALPHA, **cloud.asked(""))
            for uuid in uuids or self.servers
        ]
        text = report_text(self.name, next(self._order), vps=vps, overlays_told=told)
        self._reports.report(text)

    def members(self) -> set[str]:
        return {uuid for one in self.world.control.overlays.by_id.values() for uuid in one.members}

    def weight(self, uuid: str) -> int:
        return self.world.host.guests[uuid].guest.cpu_weight.number

    def placement(self, uuid: str) -> set[int]:
        return self.world.placement(uuid)

    def call(self, verb: str, of: str, **about: Any) -> dict[str, Any]:
        """As a monitor on the host does."""
        with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as monitor:
            monitor.settimeout(60)
            monitor.connect(str(self.folder / FILE))
            monitor.sendall(json.dumps({"overlay_id": of, "verb": verb, **about}).encode() + b"\n")
            with monitor.makefile("rb") as answers:
                return dict(json.loads(answers.readline()))

    def die(self) -> None:
        """Its agent does nothing any more; what it did stands."""
        if not self._is_over.is_set():
            self._is_over.set()
            self.world.control.calls.wake()
            self._thread.join()
            self._socket.close()
            self._server.close()
            assert self._server._server.wait(60.0), "nobody listens for it any more"
            self.elsewhere.close()


class Site:
    """The shop, with WEB on `one` and DB on `two`."""

    def __init__(self, conf: cfg.ConfigOpts, folder: Path, nova: Cloud, member: Member) -> None:
        self.conf, self.nova, self.member = conf, nova.nova, member
        self.one, self.two = Host(conf, folder, WEB), Host(conf, folder, DB)
        self.hosts = [self.one, self.two]
        self.folder = folder
        self.relay: OverlayCallService | None = None
        for uuid, host in ((WEB, self.one), (DB, self.two)):
            self.nova.add_server(uuid, cloud.ALPHA, host.name)
        self.start_relay()
        for host in self.hosts:
            host.report()
        wait_until(lambda: member.knows(WEB) and member.knows(DB), "the reports to be stored")
        self.shop = member.create("shop", WEB, DB)
        wait_until(lambda: self.one.members() == {WEB}, "the first host to be told")
        wait_until(lambda: self.two.members() == {DB}, "the second host to be told")
        for host in self.hosts:
            host.tick()

    def store(self, uuid: str, host: Host) -> None:
        """As a server of `host`, which reports it until another host's report is older: one of the
        same second is not, and then the host whose name comes first has the server."""
        browser = ReadApi(self.conf)

        def is_there() -> bool:
            host.report(uuid)
            head = browser.find_head(uuid)
            return head is not None and head.host == host.name

        wait_until(is_there, f"{uuid} to be of {host.name}", 60.0)

    def start_relay(self) -> None:
        relay = self.relay = OverlayCallService(identities.scheduler(self.conf))
        relay.start()
        wait_until(lambda: relay.is_listening, "vp-scheduler to take calls")

    def stop_relay(self) -> None:
        if self.relay:
            self.relay.stop(30.0)
        self.relay = None

    def a_host(self, *servers: str) -> Host:
        self.hosts.append(Host(self.conf, self.folder, *servers))
        return self.hosts[-1]

    def close(self) -> None:
        for host in self.hosts:
            host.die()
        self.stop_relay()


@pytest.fixture
def conf(
    rabbitmq: RabbitMQ, synced_sqlite_url: str, world: Cloud, tmp_path: Path
) -> cfg.ConfigOpts:
    file = tmp_path / "nova-vp.conf"
    file.write_text(world.configuration())
    made = conf_of(rabbitmq, synced_sqlite_url)
    made(["--config-file", str(file)], default_config_files=[])
    return made


@pytest.fixture
def site(conf: cfg.ConfigOpts, tmp_path: Path, world: Cloud) -> Iterator[Site]:
    with (
        ingesting(conf),
        member_of(conf) as member,
        closing(Site(conf, tmp_path, world, member)) as one,
    ):
        yield one


def test_a_monitor_calls_for_a_server_on_another_host(site: Site) -> None:
    before = site.one.weight(WEB), site.two.weight(DB)
    told = site.one.call("tune", site.shop, id="c1", server_id=DB, lease_s=30)
    assert (told["id"], told["nack"], told["lease_s"]) == ("c1", None, 30.0), told
    raised = site.two.weight(DB)
    assert (site.one.weight(WEB), raised > before[1]) == (before[0], True)
    assert site.one.call("tune", site.shop, id="c1", server_id=DB, lease_s=30) == told
    assert site.two.weight(DB) == raised, "a call that is repeated is carried out once"
    assert site.two.call("tune", site.shop, server_id=WEB)["nack"] is None
    assert site.one.weight(WEB) > before[0]


class Watching:
    """A monitor of the agent that watches one server, and wants one call of another."""

    interval_s = 1.0
    capabilities = frozenset[int]()

    def __init__(self, server: str, wanted: Wanted) -> None:
        self.server = server
        self._wanted = wanted
        self.nacks: list[Nack | None] = []
        self.decides = self

    def look(self, seen: Any, now_s: float) -> dict[str, str]:
        return {}

    def wanted(self, now_s: float) -> list[Wanted]:
        return [self._wanted]

    def answered(self, call: Wanted, nack: Nack | None, now_s: float) -> None:
        self.nacks.append(nack)


@contextmanager
def wired_agent(site: Site, host: Host, *overlays: Overlay) -> Iterator[wiring.Built]:
    """The agent's own objects as `vp-agent run` makes them, in the name of this host; drivers are
    those of a host in memory."""
    conf, memory, none = site.conf, FakeHost(), UndoOnly(None)
    conf.set_override("host", host.name, group="agent")
    resizing = (FakeMover(memory), FakeBalloon(memory))
    drivers = (FakeActuator(memory), none, *resizing, FakeEmulatorWeights(memory))
    guests = FakeGuests(memory)
    side = wiring.LibvirtSide(None, guests, FakeJournal(memory), {}, *drivers, dict)
    state = StateFolder(str(site.folder / "wired"))
    built = wiring.build(conf, side, FakeCounters(), state, ToldFacts(state))
    built.control.overlays.take(overlays_text(1, overlays))
    try:
        yield built
    finally:
        for part in (built.publisher, built.escalator, built.usage, built.recorder):
            part.close()
        built.calls_elsewhere.close()


def test_the_agents_own_monitors_call_for_servers_on_other_hosts(site: Site) -> None:
    before = site.one.weight(WEB), site.two.weight(DB)
    shop = Overlay(site.shop, "shop", cloud.ALPHA, frozenset({WEB}))
    with wired_agent(site, site.one, shop) as agent:
        monitor = Watching(WEB, Wanted(Verb.TUNE, DB))
        agent.monitors.look(monitor)
        assert monitor.nacks == [None]
        assert (site.one.weight(WEB), site.two.weight(DB) > before[1]) == (before[0], True)
        strange = Watching(WEB, Wanted(Verb.TUNE, MILL))
        agent.monitors.look(strange)
        assert strange.nacks == [Nack.NOT_A_MEMBER], "vp-scheduler knows whose it is"


def test_a_call_everywhere_and_one_of_an_application_reach_every_host(site: Site) -> None:
    before = site.one.weight(WEB), site.two.weight(DB)
    assert site.one.call("trigger", site.shop)["nack"] is None
    assert (site.one.weight(WEB) > before[0], site.two.weight(DB)) == (True, before[1])
    assert site.one.call("release", site.shop)["nack"] is None
    told = site.one.call("trigger", site.shop, everywhere=True)
    assert (told["nack"], site.two.name in told["detail"]) == (None, True), told
    assert (site.one.weight(WEB) > before[0], site.two.weight(DB) > before[1]) == (True, True)
    assert site.two.call("release", site.shop, everywhere=True)["nack"] is None
    assert (site.one.weight(WEB), site.two.weight(DB)) == before
    told = site.member.ask("POST", f"/{site.shop}/calls", {"verb": "trigger"}).json()["call"]
    assert (told["granted"], len(told["answers"])) == (True, 2)
    assert (site.one.weight(WEB) > before[0], site.two.weight(DB) > before[1]) == (True, True)


def test_the_overlay_of_another_project_is_not_found_and_its_servers_are_not_called(
    site: Site,
) -> None:
    with member_of(site.conf, cloud.BETA) as stranger:
        for body in ({"verb": "trigger"}, {"verb": "tune", "server_id": DB}):
            assert stranger.ask("POST", f"/{site.shop}/calls", body).status_code == 404
    third = site.a_host()
    told = third.call("trigger", site.shop, server_id=DB)
    assert told["nack"] == "unknown-overlay"
    assert site.one.call("trigger", site.shop, server_id=MILL)["nack"] == "not-a-member"


def forged(host: Host, of: str, server: str, **about: Any) -> CallAnswer:
    """Of a host that obeys nobody but its thief."""
    now_ms = time.time_ns() // 1_000_000
    call = Call("forged", of, Verb.TUNE, guest_uuid=server)
    message = CallMessage(call, cloud.ALPHA, now_ms)._replace(**about)
    return read_answer(host.elsewhere.call_elsewhere(call_text(message)))


def test_a_host_without_a_server_of_the_overlay_calls_for_none(site: Site) -> None:
    """Not even if it reports one: Nova says where it is."""
    before = site.two.weight(DB)
    thief = site.a_host()
    assert forged(thief, site.shop, DB).nack.value == "unknown-overlay"
    site.store(WEB, thief)
    wait_until(lambda: thief.members() == {WEB}, "the thief to be told of the shop")
    assert forged(thief, site.shop, DB).nack.value == "unknown-overlay"
    assert thief.call("trigger", site.shop, server_id=DB)["nack"] == "unknown-overlay"
    assert site.two.weight(DB) == before
    assert site.relay.endpoint.refusals.counts["unwelcome"] == 3


def test_a_host_that_reports_a_server_of_another_is_not_called_for_it(site: Site) -> None:
    thief = site.a_host()
    site.store(DB, thief)
    told = site.one.call("tune", site.shop, server_id=DB)
    assert told["nack"] == "not-a-member"
    assert "Nova says" in told["detail"]


def test_no_host_answers_for_another(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even one that can read its queue."""
    monkeypatch.setattr(rpcapi, "OVERLAY_CALL_TIMEOUT_S", 2.0)
    heard: list[str] = []

    class Impostor:
        def call_overlay(self, call: Any, text: str) -> str:
            heard.append(text)
            return answer_text(CallAnswer(json.loads(text)["id"], None, "granted", 60.0))

    site.two.die()
    where = rpctransport.target(wire.AGENT_TOPIC, server=site.two.name)
    thief = identities.agent(site.conf, "vp-thief")
    server = rpcserver.BackgroundServer(thief, where, [Impostor()])
    server.start()
    wait_until(lambda: server.is_ready, "the impostor to listen")
    told = site.one.call("tune", site.shop, server_id=DB)
    assert (told["nack"], len(heard)) == ("unreachable", 1)
    server.stop()


def test_a_call_that_is_replayed_changes_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    sealed: list[Sealed] = []
    signer = site.one.elsewhere._identity.signer
    seal = signer.seal

    def keep(*args: Any, **kwargs: Any) -> Sealed:
        sealed.append(seal(*args, **kwargs))
        return sealed[-1]

    monkeypatch.setattr(signer, "seal", keep)
    assert site.one.call("tune", site.shop, server_id=DB)["nack"] is None
    raised = site.two.weight(DB)
    [call] = sealed
    transport = rpctransport.open_transport(site.conf)
    client = oslo_messaging.get_rpc_client(transport, rpctransport.target(wire.OVERLAY_CALL))
    totals = site.two.world.control.calls.totals()
    for _ in range(3):
        client.cast({}, "deliver", **call._asdict())
    ignored = "an answer of vp-scheduler/ctl1 is ignored"
    wait_until(lambda: caplog.text.count(ignored) == 3, "all of them to be answered")
    assert site.two.weight(DB) == raised
    assert site.one.call("tune", site.shop, server_id=DB, direction="down")["nack"] is None
    assert site.two.weight(DB) < raised
    assert site.two.world.control.calls.totals()[None] == totals[None] + 1
    transport.cleanup()


def test_without_vp_scheduler_a_host_serves_its_own_and_says_so(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = site.one.weight(WEB), site.two.weight(DB)
    site.stop_relay()
    with monkeypatch.context() as patch:
        patch.setattr(rpcapi, "ELSEWHERE_TIMEOUT_S", 2.0)
        told = site.one.call("trigger", site.shop, server_id=DB)
    assert told["nack"] == "unreachable"
    assert "vp-scheduler" in told["detail"]
    assert site.one.call("trigger", site.shop)["nack"] is None
    assert (site.one.weight(WEB) > before[0], site.two.weight(DB)) == (True, before[1])
    site.start_relay()
    site.one.hand_s += SILENT_S
    assert site.one.call("trigger", site.shop, server_id=DB)["nack"] is None
    assert site.two.weight(DB) > before[1]


def at_home(host: Host, server: str) -> None:
    """In an island, the mill in another one, so that there is something to borrow."""
    low, high = (domain.cpus for domain in host.world.host.topology.domains)
    host.world.host.change(server, placement=low)
    host.world.host.change(host.mill, placement=high)
    host.tick()


@pytest.mark.parametrize("who", ["the caller", "vp-scheduler"])
def test_what_was_borrowed_on_another_host_goes_back_if_the_rest_dies(site: Site, who: str) -> None:
    at_home(site.two, DB)
    home = site.two.placement(DB)
    told = site.one.call("borrow", site.shop, server_id=DB, cpus=1, lease_s=20)
    assert (told["nack"], told["lease_s"]) == (None, 20.0), told
    assert len(site.two.placement(DB)) == len(home) + 1
    if who == "the caller":
        site.one.die()
    else:
        site.stop_relay()
    site.two.tick(19)
    assert len(site.two.placement(DB)) == len(home) + 1
    site.two.tick(3)
    assert site.two.placement(DB) == home


def test_a_host_that_dies_is_told_to_the_caller_and_the_others_go_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home(site.two, DB)
    home = site.two.placement(DB)
    assert site.one.call("borrow", site.shop, server_id=DB, cpus=1, lease_s=5)["nack"] is None
    before = site.one.weight(WEB)
    site.two.die()
    monkeypatch.setattr(rpcapi, "OVERLAY_CALL_TIMEOUT_S", 2.0)
    told = site.one.call("trigger", site.shop, everywhere=True)
    assert told["nack"] == "unreachable"
    assert f"{site.two.name}: the host does not answer" in told["detail"]
    assert site.one.weight(WEB) > before, "its own are served"
    site.two.world.start_agent()
    site.two.tick(8)
    assert site.two.placement(DB) == home, "its next agent gives back what was borrowed"


def test_a_server_that_migrates_between_two_calls_is_called_where_it_is(site: Site) -> None:
    assert site.one.call("tune", site.shop, server_id=DB)["nack"] is None
    third = site.a_host()
    third.arrive(DB)
    site.two.leave(DB)
    site.store(DB, third)
    wait_until(lambda: third.members() == {DB}, "the new host to be told")
    told = site.one.call("tune", site.shop, server_id=DB)
    assert told["nack"] == "not-a-member", "Nova says that it is where it was"
    site.nova.servers[DB].host = third.name
    third.tick()
    before = third.weight(DB)

    def is_done() -> bool:
        return site.one.call("tune", site.shop, server_id=DB)["nack"] is None

    wait_until(is_done, "Nova to be asked again")
    assert third.weight(DB) > before


def test_a_host_that_is_not_known_calls_for_nobody(site: Site) -> None:
    site.relay.endpoint.known_hosts.apply_config(["vp99"])
    told = site.one.call("trigger", site.shop, server_id=DB)
    assert (told["nack"], "known_hosts" in told["detail"]) == ("host-refused", True)
