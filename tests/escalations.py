# SPDX-License-Identifier: Apache-2.0
"""The world that a vp-scheduler escalates into, for tests: keystone, Nova, agents, a clock."""

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from nova_vp import wire
from tests.fake_nova import FakeNova
from tests.keystone import Keystone
from tests.loopback import served
from vp_scheduler.escalation.agents import AgentAway
from vp_scheduler.escalation.clock import Clock

NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
USER = "vp_escalation"


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
        self.held: dict[str, str] = {}
        """Server to the escalation it was prepared for: the agent leaves it alone."""
        self.prepared: list[str] = []
        self.told: list[tuple[str, str]] = []
        """Server and outcome."""
        self.spent: set[str] = set()
        """Escalations that this host takes for over."""

    def prepare(self, host: str, escalation_id: str, server: str, hold_s: float) -> str:
        if self.is_away:
            raise AgentAway(f"the agent of {host} does not answer")
        if escalation_id in self.spent:
            return wire.NO_LONGER_HURT
        if why := self.why_not.get(server, ""):
            return why
        self.held[server] = escalation_id
        self.prepared.append(server)
        return ""

    def end(self, host: str, escalation_id: str, server: str, outcome: str, detail: str) -> None:
        if self.is_away:
            raise AgentAway(f"the agent of {host} does not answer")
        self.held.pop(server, None)
        if outcome != "completed":
            self.spent.add(escalation_id)
        if (server, outcome) not in self.told:
            self.told.append((server, outcome))


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
