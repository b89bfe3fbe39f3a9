# SPDX-License-Identifier: Apache-2.0
"""Reports from the bus into a real SQLite database, and out of it through vp-api.

What is refused leaves no trace, what is accepted changes the sender's rows alone, and what is read
back is what a receiver takes.
"""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import jsonschema

from nova_vp import wire
from nova_vp.core.types.policy import Mode
from nova_vp.db.models import ActionServer, History, Host, Profile, StoredAction
from nova_vp.db.overlays import OverlayStore
from nova_vp.db.overrides import OverrideStore
from nova_vp.db.report_store import ReportStore
from nova_vp.db.serialization import unpack, unpack_text
from nova_vp.overlay_message import read_overlays
from nova_vp.server_override import read_overrides
from tests.fuzz import seeds
from tests.fuzz.database import Database, Rows, check_change
from tests.fuzz.dice import HOSTS, UUIDS, Dice
from tests.fuzz.oracle import expect
from tests.fuzz.readers import Readers
from tests.fuzz.subject import ACCEPTED, REFUSED, Bus
from tests.messages import report_text
from tests.open_schema import opened
from tests.unit.api import cloud
from vp_scheduler.ingest.meters import Meters
from vp_scheduler.ingest.overlay_sync import OverlaySync
from vp_scheduler.ingest.override_sync import OverrideSync
from vp_scheduler.ingest.profile_publisher import learn
from vp_scheduler.ingest.report_queue import ReportQueue
from vp_scheduler.ingest.service import ReportEndpoint

AT_ONCE = 10
NOBODYS = frozenset({Profile.__tablename__})
"""A server's profile is the latest host's that measured it."""
PLAIN = jsonschema.Draft7Validator(opened(wire.REPORT_SCHEMA))
"""Another reader of the same schema; what is stored may have fields that nobody asks for."""


class Told:
    """Implements `vp_scheduler.ingest.override_sync.Telling`."""

    def __init__(self) -> None:
        self.servers: dict[str, frozenset[str]] = {}
        """Those of each host, as it said last."""

    def heard(self, report: Mapping[str, Any]) -> None:
        self.servers[report["host"]] = frozenset(vp["uuid"].lower() for vp in report["vps"])

    def tell_overrides(self, host: str, text: str) -> None:
        _, servers = read_overrides(text)
        expect(servers.keys() <= self.servers[host], f"{host} is told of servers of others")

    def tell_overlays(self, host: str, text: str) -> None:
        for one in read_overlays(text)[1]:
            expect(one.members <= self.servers[host], f"{host} is told of servers of others")


class Reports:
    name, weight = "reports", 24

    def __init__(self, database: Database, readers: Readers) -> None:
        self._database, self._readers = database, readers
        self._store = ReportStore(database.conf)
        self._told = Told()
        book = OverrideStore(database.conf)
        ordered = {"mode": Mode.ADVISE, "opt_out": True, "exempt": True, "priority": 3, "by": "me"}
        book.put(UUIDS[0], cloud.ALPHA, now=cloud.NOW, **ordered)
        overlays = OverlaySync(OverlayStore(database.conf), self._told)
        self._tellers = (OverrideSync(book, self._told), overlays)
        self._inbox = ReportQueue()
        self._now: datetime = cloud.NOW
        self._endpoint = ReportEndpoint(
            self._inbox,
            clock=lambda: self._now,
            heard=Meters().heard,
            compare=self._heard,
        )
        self._bus = Bus([self._endpoint])
        self._taken = 0

    def _heard(self, report: Mapping[str, Any]) -> None:
        self._told.heard(report)
        for one in self._tellers:
            one.heard(report)

    def make(self, dice: Dice) -> Any:
        if dice.is_so(0.02):
            method = dice.pick(("report", "scheduler_started", "refusals", "target", "__init__"))
            return [method, dice.pick(({}, {"text": dice.odd()}, {"text": "", "host": "vp1"}))]
        return ["report", {"text": dice.json_text(dice.bent(seeds.a_report(dice)))}]

    def take(self, payload: Any) -> str:
        self._now += timedelta(seconds=0.1)
        waiting, refused = self._waiting(), self._endpoint.refusals.counts.total()
        outcome = self._bus.send(*payload)
        if self._endpoint.refusals.counts.total() != refused:
            outcome = REFUSED
        if outcome == REFUSED:
            expect(self._waiting() == waiting, "what was refused waits to be stored")
        elif payload[0] == "report":
            self._taken += 1
            if self._taken % AT_ONCE == 0:
                self._save()
        return outcome

    def _waiting(self) -> int:
        return len(self._inbox)

    def settle(self) -> None:
        self._save()
        for one in self._tellers:
            one._look()
        learn(self._store.count_classes(), 1)
        self._readers.read(self._database.rows())
        self._good_ones_land()

    def _good_ones_land(self) -> None:
        """Once what was there before is no news."""
        self._now += timedelta(seconds=wire.EXPIRE_S + 1)
        for host in HOSTS:
            text = report_text(host, (1, 1))
            expect(self._bus.send("report", {"text": text}) == ACCEPTED, "a good report is refused")
        self._save()
        stored = self._database.rows([Host.__tablename__])[Host.__tablename__]
        for host in HOSTS:
            (row,) = stored[host]
            order = _column(Host, row, "epoch"), _column(Host, row, "sequence")
            expect(order == (1, 1), f"a good report of {host} is not stored")

    def _save(self) -> None:
        if not len(self._inbox):
            return
        batch = self._inbox.take(10**6)
        before = self._database.rows()
        self._store.save_reports(batch)
        after = self._database.rows()
        check_change(before, after, frozenset(one.host for one in batch), NOBODYS)
        for one in batch:
            self._check_host(before, after, one)
        (row,) = after[Host.__tablename__][batch[0].host]
        PLAIN.validate(json.loads(unpack_text(_column(Host, row, "packed"))))  # slow: one is enough
        _check_rest(before, after)

    def _check_host(self, before: Rows, after: Rows, sent: Any) -> None:
        (row,) = after["hosts"][sent.host]
        text = unpack_text(_column(Host, row, "packed"))
        message = wire.decode(wire.REPORT_TOPIC, text)
        order = wire.version_of(message)
        kept = (_column(Host, row, "epoch"), _column(Host, row, "sequence"))
        expect(kept == (order.epoch, order.sequence), f"{sent.host}: {kept} stored as {order}")
        expect(_column(Host, row, "mode") == message["mode"], "the mode is another")
        if text != sent.text:
            expect(row in before["hosts"].get(sent.host, ()), "neither the new report nor the old")
            expect(not sent.version.is_newer_than(order), "the newer report was not stored")
        else:
            own = {vp["uuid"].lower() for vp in message["vps"]}
            there = {one[0] for one in after["vps"].get(sent.host, ())}
            expect(there == own, f"VPs of {sent.host} are {there}, not {own}")


def _check_rest(before: Rows, after: Rows) -> None:
    """Minutes and actions that came can be read."""
    for host, rows in after[History.__tablename__].items():
        for row in rows - before[History.__tablename__].get(host, frozenset()):
            unpack(_column(History, row, "packed"))
    for host, rows in after[StoredAction.__tablename__].items():
        for row in rows - before[StoredAction.__tablename__].get(host, frozenset()):
            detail = json.loads(_column(StoredAction, row, "detail"))
            servers = after[ActionServer.__tablename__].get(host, frozenset())
            ids = {_column(ActionServer, one, "id") for one in servers}
            expect(_column(StoredAction, row, "id") in ids, f"an action of nobody: {detail['id']}")


def _column(model: Any, row: Any, name: str) -> Any:
    return row[model.__table__.columns.keys().index(name)]
