# SPDX-License-Identifier: Apache-2.0
"""Escalations from the bus into the ledger, and on through a worker's steps without a cloud.

Nova confirms every server and takes no request, agents let go of whatever they are told to. An
escalation that no step can take would keep a worker busy for ever.
"""

import json
from dataclasses import replace
from typing import Any

from nova_vp import wire
from nova_vp.core.types.policy import Mode
from nova_vp.db.escalations import Ledger
from nova_vp.db.models import EscalationRow, MigrationRow
from nova_vp.escalation_status import Status
from tests.escalations import FakeAgents, HandClock
from tests.fuzz import seeds
from tests.fuzz.database import Database, check_change
from tests.fuzz.dice import HOSTS, Dice
from tests.fuzz.oracle import expect
from tests.fuzz.subject import ACCEPTED, Bus
from tests.messages import escalation_text
from vp_scheduler.escalation.context import Backends
from vp_scheduler.escalation.nova_client import NoCloud, Server
from vp_scheduler.escalation.service import EscalationEndpoint
from vp_scheduler.escalation.settings import Settings, read
from vp_scheduler.escalation.state_machine import StateMachine

OWNER = "fuzz"
TABLES = (EscalationRow.__tablename__, MigrationRow.__tablename__)


class CredulousNova(NoCloud):
    """Every server is on the host that is asked about: a wrong claim would end all at its first
    step."""

    host = ""

    def look(self, project_id: str, server: str) -> Server:
        return Server("ACTIVE", None, is_locked=False, host=self.host, is_host_down=False)


class Escalations:
    name, weight = "escalations", 8

    def __init__(self, database: Database) -> None:
        self._database = database
        self._clock = HandClock()
        self._ledger = Ledger(database.conf)
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
        text: Any = dice.json_text(dice.bent(seeds.an_asking(dice)))
        if dice.is_so(0.02):
            text = dice.odd()
        return [dice.pick(tuple(mode.value for mode in Mode)), text]

    def take(self, payload: Any) -> str:
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
        for waiting in self._ledger.list_waiting():
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

    def settle(self) -> None:
        for number, host in enumerate(HOSTS):
            text = escalation_text(f"ffffffff-9999-5999-8999-{number:012x}", host)
            expect(self.take(["observe", text]) == ACCEPTED, "a good escalation is refused")


def _refuse(name: str) -> None:
    raise ValueError(name)


def _in_mode(settings: Settings, mode: Mode) -> Settings:
    return replace(settings, mode=mode)
