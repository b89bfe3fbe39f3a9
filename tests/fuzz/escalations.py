# SPDX-License-Identifier: Apache-2.0
"""Escalations from the bus into the ledger, and on through a worker's steps without a cloud.

Most meet a Nova that confirms every server and takes no request, and agents that let go of whatever
they are told to; a few live to their end in a cloud where anything can happen (`lives`). An
escalation that no step can take would keep a worker busy for ever.
"""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

from nova_vp import wire
from nova_vp.core.types.policy import Mode
from nova_vp.db.models import EscalationRow, MigrationRow
from nova_vp.escalation_status import Status
from tests.escalations import FakeAgents, HandClock
from tests.fuzz import seeds
from tests.fuzz.database import Database, check_change
from tests.fuzz.dice import HOSTS, Dice
from tests.fuzz.lives import Life, Transition, WatchedLedger, events
from tests.fuzz.oracle import check_rows, expect
from tests.fuzz.subject import ACCEPTED, Bus
from tests.messages import escalation_text
from vp_scheduler.escalation.context import Backends
from vp_scheduler.escalation.nova_client import NoCloud, Server
from vp_scheduler.escalation.service import EscalationEndpoint
from vp_scheduler.escalation.settings import Settings, read
from vp_scheduler.escalation.state_machine import StateMachine

OWNER = "fuzz"
TABLES_OF: dict[str, Any] = {
    row.__tablename__: row.__table__ for row in (EscalationRow, MigrationRow)
}
TABLES = tuple(TABLES_OF)
MODES = ("enforce", "enforce", "advise", "observe")
LIVES = 0.02
"""Share of the payloads that are many escalations' whole lives, which take long."""


class CredulousNova(NoCloud):
    """Every server is on the host that is asked about: a wrong claim would end all at its first
    step."""

    host = ""

    def look(self, project_id: str, server: str) -> Server:
        return Server("ACTIVE", None, is_locked=False, host=self.host, is_host_down=False)


class Escalations:
    name, weight = "escalations", 8

    def __init__(self, database: Database, reached: Counter[Transition]) -> None:
        """`reached`: where changes of a state are counted."""
        self._database = database
        self._clock = HandClock()
        self._ledger = WatchedLedger(database.conf, reached)
        self._settings = read(database.conf)
        self._nova = CredulousNova()
        self._steps = StateMachine(self._means(), self._settings)
        self._pokes = 0
        self._endpoint = EscalationEndpoint(self._ledger, self._poke, (), self._clock.as_clock())
        self._bus = Bus([self._endpoint])
        self._rows = database.rows(TABLES)

    def _means(self) -> Backends:
        return Backends(self._ledger, FakeAgents(), self._nova, self._clock.as_clock())

    def _poke(self) -> None:
        self._pokes += 1

    def make(self, dice: Dice) -> Any:
        if dice.is_so(LIVES):
            texts = [_a_lively_one(dice, number) for number in range(dice.pick((1, 1, 2, 4)))]
            life = {"texts": texts, "mode": dice.pick(MODES), "events": events(dice)}
            return {**life, "agents_are_back": dice.is_so(0.8)}
        text: Any = dice.json_text(dice.bent(seeds.an_asking(dice)))
        if dice.is_so(0.02):
            text = dice.odd()
        return [dice.pick(tuple(mode.value for mode in Mode)), text]

    def take(self, payload: Any) -> str:
        if isinstance(payload, dict):
            return self._live(payload)
        mode, text = payload
        self._clock.pass_s(1)
        pokes = self._pokes
        outcome = self._bus.send("escalate", {"text": text}, (wire.BadMessage,))
        expect((self._pokes > pokes) == (outcome == ACCEPTED), "workers hear of what is refused")
        if outcome == ACCEPTED:
            self._work(mode, json.loads(text))
        return outcome

    def _work(self, mode: str, message: Any) -> None:
        self._steps.apply_config(_in_mode(self._settings, Mode(mode)))
        self._nova.host = message["host"]
        for waiting in self._ledger.list_waiting(self._clock.now):
            if waiting.id == message["id"]:
                claimed = self._ledger.claim(waiting, OWNER)
                self._steps.run(claimed)
        found = self._ledger.get(message["id"])
        expect(found is not None, "an acknowledged escalation is not in the ledger")
        expect(found.status is not Status.RECEIVED or found.not_before, "nothing was done with it")
        before, self._rows = self._rows, self._database.rows(TABLES)
        wire.decode(wire.ESCALATION_TOPIC, found.message)
        json.loads(found.choice or "null", parse_constant=_refuse)
        senders = frozenset({message["host"], found.host})
        check_change(before, self._rows, senders, frozenset())

    def _live(self, payload: Any) -> str:
        self._database.clear(TABLES)
        settings = _in_mode(self._settings, Mode(payload["mode"]))
        life = Life(self._ledger, self._clock, settings, payload["texts"])
        life.pass_by(payload["events"])
        life.end(payload["agents_are_back"])
        for table, by_owner in self._database.rows(TABLES).items():
            check_rows(TABLES_OF[table], frozenset().union(*by_owner.values()))
        self._database.clear(TABLES)
        self._rows = self._database.rows(TABLES)
        return ACCEPTED

    def settle(self) -> None:
        for number, host in enumerate(HOSTS):
            text = escalation_text(f"ffffffff-9999-5999-8999-{number:012x}", host)
            expect(self.take(["observe", text]) == ACCEPTED, "a good escalation is refused")


def _a_lively_one(dice: Dice, number: int) -> str:
    """One that can be helped."""
    asking = seeds.an_asking(dice)
    changes = {
        "evidence": {},
        "id": f"{number:08x}-9999-5999-8999-{dice.number:012x}",
        "mode": dice.pick(MODES),
    }
    return json.dumps({**asking, **changes, "host": dice.pick(HOSTS[:2])})


def _refuse(name: str) -> None:
    raise ValueError(name)


def _in_mode(settings: Settings, mode: Mode) -> Settings:
    return replace(settings, mode=mode)
