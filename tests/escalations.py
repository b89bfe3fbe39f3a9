# SPDX-License-Identifier: Apache-2.0
"""The world that a vp-scheduler escalates into, for tests: keystone, Nova, agents, a clock."""

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from oslo_config import cfg

from nova_vp import conf as options
from nova_vp import wire
from nova_vp.db.escalations import Ledger
from nova_vp.db.records import Escalation
from tests.fake_nova import FakeNova
from tests.keystone import Keystone
from tests.loopback import served
from tests.messages import an_escalation
from vp_scheduler.escalation import session, settings
from vp_scheduler.escalation.agents import AgentAway
from vp_scheduler.escalation.clock import Clock
from vp_scheduler.escalation.context import Backends
from vp_scheduler.escalation.nova_client import Nova, NovaClient
from vp_scheduler.escalation.state_machine import StateMachine

NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
USER = "vp_escalation"
ID = "99999999-9999-5999-8999-999999999999"
QUIET = "33333333-3333-4333-8333-333333333333"
ROUNDS = 400


def other_id(number: int) -> str:
    return f"{number:08d}-0000-5000-8000-000000000000"


class HandClock:
    """Both clocks, moved by hand; the wall clock can be set as well."""

    def __init__(self) -> None:
        self.now = NOON
        self.monotonic_s = 1000.0

    def pass_s(self, span_s: float) -> None:
        self.now += timedelta(seconds=span_s)
        self.monotonic_s += span_s

    def as_clock(self) -> Clock:
        return Clock(lambda: self.now, lambda: self.monotonic_s)


class FakeAgents:
    """Implements `vp_scheduler.escalation.agents.Agents`, as an agent would behave."""

    def __init__(self) -> None:
        self.is_away = False
        self.why_not: dict[str, str] = {}
        """By server."""
        self.held: dict[str, tuple[str, str]] = {}
        """Server to the host whose agent leaves it alone, and for which escalation."""
        self.asked: set[tuple[str, str]] = set()
        """Hosts, and escalations that their agents were asked or told about."""
        self.prepared: list[str] = []
        self.told: list[tuple[str, str]] = []
        """Server and outcome."""
        self.details: list[str] = []
        self.spent: set[str] = set()
        """Escalations that this host takes for over."""
        self.hosts: dict[str, str] = {}
        """Of escalations, whose agent asked: that of another host knows nothing of one."""

    def prepare(self, host: str, escalation_id: str, server: str, hold_s: float) -> str:
        if self.is_away:
            raise AgentAway(f"the agent of {host} does not answer")
        self.asked.add((host, escalation_id))
        if escalation_id in self.spent or not self._knows(host, escalation_id):
            return wire.NO_LONGER_HURT
        if why := self.why_not.get(server, ""):
            return why
        self.held[server] = (host, escalation_id)
        self.prepared.append(server)
        return ""

    def end(self, host: str, escalation_id: str, server: str, outcome: str, detail: str) -> None:
        if self.is_away:
            raise AgentAway(f"the agent of {host} does not answer")
        self.asked.add((host, escalation_id))
        if not self._knows(host, escalation_id):
            return
        if self.held.get(server) == (host, escalation_id):
            del self.held[server]
        self.details.append(detail)
        if outcome != "completed":
            self.spent.add(escalation_id)
        if (server, outcome) not in self.told:
            self.told.append((server, outcome))

    def _knows(self, host: str, escalation_id: str) -> bool:
        return self.hosts.get(escalation_id, host) == host


class World:
    def __init__(self, keystone: Keystone, nova: FakeNova, auth_url: str) -> None:
        self.keystone = keystone
        self.nova = nova
        self.auth_url = auth_url

    def configuration(self) -> str:
        """`[cloud]`, as an operator writes it."""
        lines = {
            "auth_type": "password",
            "auth_url": self.auth_url,
            "username": USER,
            "password": "secret",
            "user_domain_name": "Default",
            "project_name": "service",
            "project_domain_name": "Default",
        }
        return "[cloud]\n" + "".join(f"{name} = {value}\n" for name, value in lines.items())


@contextlib.contextmanager
def a_world() -> Iterator[World]:
    keystone, nova = Keystone(), FakeNova()
    with served(keystone) as identity_url, served(nova) as nova_url:
        keystone.endpoints["compute"] = f"{nova_url}/v2.1"
        yield World(keystone, nova, f"{identity_url}/v3")


class Cluster:
    """Ledger, agents, Nova and any number of workers' steps over them."""

    def __init__(self, database: Path, world: World) -> None:
        self.nova, self.keystone = world.nova, world.keystone
        self._file = database.parent / "nova-vp.conf"
        self._file.write_text(
            f"[database]\nconnection = sqlite:///{database}\nsqlite_synchronous = false\n"
            f"{world.configuration()}"
        )
        self.clock = HandClock()
        self.agents = FakeAgents()
        self.ledger = Ledger(self.conf())
        self.steps = self.a_worker()

    def conf(self, **overrides: Any) -> cfg.ConfigOpts:
        conf = cfg.ConfigOpts()
        options.register_all(conf)
        conf(["--config-file", str(self._file)])
        for name, value in {"escalation_mode": "enforce", **overrides}.items():
            conf.set_override(name, value, group="vp_scheduler")
        return conf

    def a_worker(self, **overrides: Any) -> StateMachine:
        conf = self.conf(**overrides)
        return self.a_worker_over(NovaClient(session.open_cloud(conf)), conf)

    def a_worker_over(self, nova: Nova, conf: cfg.ConfigOpts) -> StateMachine:
        backends = Backends(self.ledger, self.agents, nova, self.clock.as_clock())
        return StateMachine(backends, settings.read(conf))

    def escalate(
        self, *candidates: dict[str, Any], id: str = ID, host: str = "vp1", **fields: Any
    ) -> None:
        message = an_escalation(id, host, *candidates, **fields)
        text = wire.encode(wire.ESCALATION_TOPIC, message)
        wire.decode(wire.ESCALATION_TOPIC, text)
        self.agents.hosts[id] = host
        self.ledger.add(id, host, text, self.clock.now)

    def step(self, steps: StateMachine | None = None, span_s: float = 5.0) -> None:
        """What a worker does in one look, and some time."""
        for row in self.ledger.list_waiting(self.clock.now):
            found = self.ledger.claim(row, "me")
            assert found is not None
            (steps or self.steps).run(found)
        self.clock.pass_s(span_s)

    def until(self, condition: Callable[[], Any], what: str) -> None:
        for _ in range(ROUNDS):
            if condition():
                return
            self.step()
        raise AssertionError(f"never: {what}; {self.found()}")

    def settle(self, id: str = ID) -> Escalation:
        self.until(lambda: self.found(id).settled_at is not None, "settled")
        return self.found(id)

    def found(self, id: str = ID) -> Escalation:
        found = self.ledger.get(id)
        assert found is not None
        return found
