# SPDX-License-Identifier: Apache-2.0
"""Escalations from their first to their last state, in a cloud in which anything can happen between
two looks of a worker: Nova, agents and workers go away and come back, operators interfere.

Whatever came before, once all is well again every escalation ends, every agent is told, and no
guest is left held.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from oslo_config import cfg

from nova_vp import rpcapi
from nova_vp.core.types.policy import Mode
from nova_vp.db.escalations import Budgets, Ledger, LostClaim, NotProposed
from nova_vp.db.records import Attempt, Escalation
from nova_vp.escalation_status import NEXT, Status
from tests.escalations import FakeAgents, HandClock
from tests.fake_nova import FakeNova, FakeServer
from tests.fuzz.dice import Dice
from tests.fuzz.oracle import expect
from vp_scheduler.escalation.context import Backends
from vp_scheduler.escalation.nova_client import (
    BEGIN,
    DOWN,
    Migration,
    NotAllowed,
    NovaAway,
    NovaConflict,
    NovaRefused,
    Server,
    ServerGone,
)
from vp_scheduler.escalation.settings import Settings
from vp_scheduler.escalation.state_machine import StateMachine

Transition = tuple[Status, Status]
US = "us"
MOST_LOOKS = 80
"""Until an escalation has ended in a cloud that is well: a few days."""
LOOK_S, LATE_S = 120.0, 7200.0
FAULTS: Mapping[str, type[Exception]] = {
    "conflict": NovaConflict,
    "refused": NovaRefused,
    "away": NovaAway,
    "not allowed": NotAllowed,
    "gone": ServerGone,
}


def transitions() -> frozenset[Transition]:
    return frozenset((before, after) for before, some in NEXT.items() for after in some)


class Died(Exception):
    """The worker, between two writes."""


class WatchedLedger(Ledger):
    """Sees each change of a state; a worker can die at any of its writes."""

    def __init__(self, conf: cfg.ConfigOpts, reached: Counter[Transition]) -> None:
        """`reached`: where they are counted."""
        super().__init__(conf)
        self.reached = reached
        self.writes_left: int | None = None
        """Until the worker dies, before or after."""

    def save(
        self,
        escalation: Escalation,
        changes: Mapping[str, Any],
        attempt: Mapping[str, Any] | None = None,
        number: int | None = None,
    ) -> Escalation:
        self._may_die()
        saved = super().save(escalation, changes, attempt, number)
        self.reached[escalation.status, saved.status] += 1
        self._may_die()
        return saved

    def begin(
        self,
        escalation: Escalation,
        attempt: Attempt,
        changes: Mapping[str, Any],
        budgets: Budgets,
    ) -> Escalation | str:
        begun = super().begin(escalation, attempt, changes, budgets)
        if isinstance(begun, Escalation):
            self.reached[escalation.status, begun.status] += 1
        return begun

    def yes(self, id: str, clock: HandClock) -> None:
        """An operator accepts it, whether or not it is proposed."""
        try:
            self.accept(id, by="operator", now=clock.now)
            self.reached[Status.PROPOSED, Status.RECEIVED] += 1
        except (KeyError, NotProposed):
            return

    def _may_die(self) -> None:
        if self.writes_left is not None:
            self.writes_left -= 1
            if self.writes_left < 0:
                self.writes_left = None
                raise Died


class DirectNova:
    """Implements `nova_client.Nova` over a `FakeNova` without HTTP between them."""

    def __init__(self, fake: FakeNova, hosts: Mapping[str, frozenset[str]]) -> None:
        """`hosts`: of each server, those whose escalations name it."""
        self._fake = fake
        self._hosts = hosts
        self.faults: list[str] = []

    def look(self, project_id: str, server: str) -> Server:
        found = self._visible(project_id, server)
        is_down = found.host_status in DOWN
        return Server(found.status, found.task_state, found.locked, found.host, is_down)

    def migrations(self, project_id: str, server: str) -> list[Migration]:
        self._answer()
        if self._fake.is_instant:
            for one in self._fake.running():
                self._fake.finish(one.id)
        return [
            Migration(m.id, m.uuid, m.status, m.source, m.dest, m.user_id == US)
            for m in reversed(self._fake.of(server))
        ]

    def migrate(self, project_id: str, server: str) -> None:
        if self.faults:
            raise FAULTS[self.faults.pop(0)]("as it was rolled")
        found = self._visible(project_id, server)
        if found.locked or found.task_state or found.status != "ACTIVE":
            raise NovaConflict(f"{found}")
        expect(found.host in self._hosts[server], f"{server} is migrated off {found.host}")
        self._fake.begin(found, US, project_id)

    def abort(self, project_id: str, server: str, migration_id: int) -> None:
        self._visible(project_id, server)
        running = [one for one in self._fake.running() if one.id == migration_id]
        if not running:
            raise NovaRefused("it has ended")
        self._fake.cancel(running[0])

    def was_aborted(self, project_id: str, server: str) -> bool:
        self._visible(project_id, server)
        done = (action for one, action in self._fake.actions if one == server)
        return next(done, BEGIN) != BEGIN

    def _visible(self, project_id: str, server: str) -> FakeServer:
        self._answer()
        found = self._fake.servers.get(server)
        if found is None or found.project_id != project_id:
            raise ServerGone(server)
        return found

    def _answer(self) -> None:
        if self._fake.away:
            raise NovaAway("as it was rolled")


class Life:
    """Of a few escalations at once."""

    def __init__(
        self, ledger: WatchedLedger, clock: HandClock, settings: Settings, texts: list[str]
    ) -> None:
        self.ledger, self.clock, self.settings = ledger, clock, settings
        self.fake, self.agents = FakeNova(), FakeAgents()
        self.fake.is_instant = False
        messages = [json.loads(text) for text in texts]
        self.ids = [one["id"] for one in messages]
        self.own = {(one["host"], one["id"]) for one in messages}
        hosts: dict[str, frozenset[str]] = {}
        for one in messages:
            for candidate in one["candidates"]:
                uuid = candidate["uuid"].lower()
                hosts[uuid] = hosts.get(uuid, frozenset()) | {one["host"]}
                self.fake.add_server(uuid, candidate["project_id"], one["host"])
        self.nova = DirectNova(self.fake, hosts)
        backends = Backends(ledger, self.agents, self.nova, clock.as_clock())
        self.steps = StateMachine(backends, settings)
        for text, one in zip(texts, messages, strict=True):
            ledger.add(one["id"], one["host"], text, clock.now)

    def pass_by(self, events: list[Any]) -> None:
        for name, value in events:
            EVENTS[name](self, value)
            self.look()

    def look(self, span_s: float = 5.0) -> None:
        """A worker does what is due, unless it dies over it."""
        for row in self.ledger.list_waiting(self.clock.now):
            try:
                found = self.ledger.claim(row, "worker")
                if found is not None:
                    self.steps.run(found)
            except (Died, LostClaim):
                continue
        self.clock.pass_s(span_s)

    def found(self, id: str) -> Escalation:
        found = self.ledger.get(id)
        if found is None:
            raise KeyError(id)
        return found

    def server(self, value: int) -> FakeServer | None:
        servers = list(self.fake.servers.values())
        return servers[value % len(servers)] if servers else None

    def end(self, agents_are_back: bool = True) -> None:
        """All is well again, except for the agents if they never come back, and in the end nothing
        waits."""
        self.fake.away, self.nova.faults = 0, []
        self.agents.is_away = not agents_are_back
        self.agents.why_not.clear()
        self.fake.begins = self.fake.is_instant = True
        self.fake.destination = lambda server: "elsewhere"
        self.fake.catch_up()
        for server in self.fake.servers.values():
            server.host_status = "UP"
        self.ledger.writes_left = None
        for number in range(MOST_LOOKS):
            for id in self.ids:
                self.ledger.yes(id, self.clock)
            if all(self.found(id).settled_at for id in self.ids):
                break
            self.look(LOOK_S if number < MOST_LOOKS / 4 else LATE_S)
        for id in self.ids:
            expect(self.found(id).settled_at, f"it waits for ever: {self.found(id)}")
        expect(self.agents.asked <= self.own, f"agents of others are asked: {self.agents.asked}")
        held = agents_are_back and self.agents.held
        expect(not held, f"guests are held for ever: {self.agents.held}")


def _set_server(**fields: Any) -> Callable[[Life, int], None]:
    def change(life: Life, value: int) -> None:
        if (server := life.server(value)) is not None:
            for name, wanted in fields.items():
                setattr(server, name, wanted)

    return change


def _gone(life: Life, value: int) -> None:
    if (server := life.server(value)) is not None:
        life.fake.delete_server(server.id)


def _operator(life: Life, value: int) -> None:
    if (server := life.server(value)) is not None and not server.task_state:
        life.fake.begin(server, "operator", server.project_id)


def _finish(status: str) -> Callable[[Life, int], None]:
    def finish(life: Life, value: int) -> None:
        for one in life.fake.running():
            life.fake.finish(one.id, status)

    return finish


def _cancel(life: Life, value: int) -> None:
    for one in life.fake.running():
        life.fake.cancel(one)


def _agents_say(why: str) -> Callable[[Life, int], None]:
    def say(life: Life, value: int) -> None:
        life.agents.why_not = dict.fromkeys(life.fake.servers, why)

    return say


def _set(path: str, wanted: Any) -> Callable[[Life, int], None]:
    whom, name = path.split(".")
    return lambda life, value: setattr(getattr(life, whom), name, wanted)


def _mode(life: Life, value: int) -> None:
    mode = tuple(Mode)[value % len(Mode)]
    life.settings = replace(life.settings, mode=mode)
    life.steps.apply_config(life.settings)


def _die(life: Life, value: int) -> None:
    life.ledger.writes_left = value % 12


def _yes(life: Life, value: int) -> None:
    for id in life.ids:
        life.ledger.yes(id, life.clock)


EVENTS: Mapping[str, Callable[[Life, int], None]] = {
    "nothing": lambda life, value: None,
    "time": lambda life, value: life.clock.pass_s(
        (1, 30, 130, 700, 4000, 90_000, 700_000)[value % 7]
    ),
    "mode": _mode,
    "yes": _yes,
    "worker dies": _die,
    "nova goes": _set("fake.away", 503),
    "nova is back": _set("fake.away", 0),
    "agents go": _set("agents.is_away", True),
    "agents are back": _set("agents.is_away", False),
    "well again": _agents_say(rpcapi.NO_LONGER_HURT),
    "not undone": _agents_say("the undo failed"),
    "undone": _agents_say(""),
    "no host": _set("fake.destination", lambda server: None),
    "a host": _set("fake.destination", lambda server: "elsewhere"),
    "conductor sleeps": _set("fake.begins", False),
    "conductor wakes": lambda life, value: life.fake.catch_up(),
    "finished": _finish("completed"),
    "failed": _finish("error"),
    "cancelled": _finish("cancelled"),
    "aborted": _cancel,
    "fault": lambda life, value: life.nova.faults.append(tuple(FAULTS)[value % len(FAULTS)]),
    "gone": _gone,
    "operator": _operator,
    "locked": _set_server(locked=True),
    "stopped": _set_server(status="SHUTOFF"),
    "moved": _set_server(host="vp9"),
    "idle": _set_server(task_state=None),
    "busy": _set_server(task_state="resize_prep"),
    "hidden": _set_server(host=None),
    "host down": _set_server(host_status="DOWN"),
    "host up": _set_server(host_status="UP"),
}


OFTEN = ("fault",) * 6 + ("worker dies",) * 5 + ("conductor sleeps", "no host", "idle") * 3
"""Few of the others change what becomes of an escalation at one moment alone."""


def events(dice: Dice) -> list[Any]:
    """Half of the time goes by in peace, so that some get far."""
    names = (*EVENTS, *OFTEN)
    some = [dice.pick(names) if dice.is_so(0.5) else "nothing" for _ in range(dice.randint(0, 12))]
    return [[name, dice.randint(0, 59)] for name in (dice.pick(names), *some)]
