# SPDX-License-Identifier: Apache-2.0
"""Every database stores made-up messages that receivers take: a sample of `tests.fuzz`."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from oslo_config import cfg

from nova_vp import wire
from nova_vp.db.escalations import Ledger
from nova_vp.db.read_api import ReadApi
from nova_vp.db.report_store import NewReport, ReportStore
from tests.fuzz import seeds
from tests.fuzz.dice import Dice

NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
MADE = 500
BATCH = 50


def accepted(topic: str, make: Callable[[Dice], Any]) -> Iterator[tuple[str, Any]]:
    """Bent, and good all the same: text and message."""
    for number in range(MADE):
        dice = Dice("databases", number)
        text = dice.json_text(dice.bent(make(dice), 1))
        try:
            yield text, wire.decode(topic, text)
        except wire.BadMessage:
            continue


def test_reports_are_stored_as_they_came(store: ReportStore, database_conf: cfg.ConfigOpts) -> None:
    reports = [
        NewReport(message["host"], wire.version_of(message), message["mode"], NOON, text)
        for text, message in accepted(wire.REPORT_TOPIC, seeds.a_report)
    ]
    assert len(reports) > BATCH
    newest: dict[str, NewReport] = {}
    for begin in range(0, len(reports), BATCH):
        batch = reports[begin : begin + BATCH]
        store.save_reports(batch)
        for one in batch:
            seen = newest.get(one.host)
            if one.version.is_newer_than(seen.version if seen else None):
                newest[one.host] = one
    browser = ReadApi(database_conf)
    for host, one in newest.items():
        record = browser.get_host(host)
        assert record is not None
        assert record.report == json.loads(one.text)


def test_escalations_are_kept_as_they_came(database_conf: cfg.ConfigOpts) -> None:
    ledger, kept = Ledger(database_conf), 0
    for text, message in accepted(wire.ESCALATION_TOPIC, seeds.an_asking):
        kept += ledger.add(message["id"], message["host"], text, NOON)
        found = ledger.get(message["id"])
        assert found is not None
        assert found.id == message["id"]
    assert kept > BATCH
