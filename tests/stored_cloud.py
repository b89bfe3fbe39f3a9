# SPDX-License-Identifier: Apache-2.0
"""A large cloud's rows, written straight into the tables: hosts with their reports, VPs, history,
actions, profiles. What reports through the bus would take hours to leave there.
"""

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Engine, insert

from nova_vp import wire
from nova_vp.db.mapping import ReportRows, rows_of
from nova_vp.db.models import (
    ActionServer,
    Base,
    History,
    Host,
    Profile,
    Stay,
    StoredAction,
    VpRow,
)
from nova_vp.db.report_store import NewReport
from nova_vp.db.serialization import pack
from tests.unit.api import cloud

ROWS_AT_ONCE = 1000
DIFFERENT_MINUTES = 8
"""Of each host; a day repeats them, since packing a million takes longer than reading them."""


@dataclass(frozen=True, slots=True)
class Size:
    hosts: int
    vps_per_host: int
    minutes: int
    projects: int = 100


def host_name(host: int) -> str:
    return f"compute-{host:05d}"


def server_id(host: int, vp: int) -> str:
    return f"{random.Random(host * 1000 + vp).getrandbits(128):032x}"[:8] + (
        f"-0000-4000-8000-{host:06d}{vp:06d}"
    )


def project_id(size: Size, host: int, vp: int) -> str:
    return f"{(host * 7 + vp) % size.projects:032x}"


def fill(engine: Engine, size: Size, now: datetime) -> None:
    for host in range(size.hosts):
        _write(engine, _rows(size, host, now))


def _rows(size: Size, host: int, now: datetime) -> Iterator[tuple[type[Base], list[Any]]]:
    chance = random.Random(host)
    reports = [_report(size, host, chance, now) for _ in range(DIFFERENT_MINUTES)]
    latest = reports[-1]
    rows = rows_of(latest, now)
    order = wire.MessageVersion(7, 41)
    stored = NewReport(latest["host"], order, latest["mode"], now, json.dumps(latest))
    yield Host, [stored.as_row(latest, rows)]
    yield VpRow, list(rows.vps)
    yield from _facts(rows)
    yield History, list(_history(latest["host"], [pack(one) for one in reports], size, now))


def _facts(rows: ReportRows) -> Iterator[tuple[type[Base], list[Any]]]:
    yield StoredAction, _unique((make() for make in rows.actions.values()), "id")
    yield ActionServer, _unique((make() for make in rows.action_servers.values()), "id", "uuid")
    yield (
        Stay,
        [
            {**make(), "first_at": make()["first_at"] - timedelta(days=2)}
            for make in rows.stays.values()
        ],
    )
    yield Profile, [make() for make in rows.profiles.values()]


def _unique(rows: Iterable[Any], *key: str) -> list[Any]:
    return list({tuple(row[name] for name in key): row for row in rows}.values())


def _history(host: str, packed: list[bytes], size: Size, now: datetime) -> Iterator[dict[str, Any]]:
    for ago in range(size.minutes):
        at = (now - ago * timedelta(minutes=1)).astimezone(UTC)
        minute = 60 * at.hour + at.minute
        yield {
            "day": at.date(),
            "host": host,
            "minute": minute,
            "packed": packed[ago % len(packed)],
        }


def _report(size: Size, host: int, chance: random.Random, now: datetime) -> dict[str, Any]:
    vps = [_vp(size, host, vp, chance, now) for vp in range(size.vps_per_host)]
    return cloud.a_report(
        host_name(host),
        at=now.timestamp(),
        mode=chance.choice(["observe", "enforce"]),
        vps=vps,
        **cloud.a_place(host_name(host)),
    )


def _vp(size: Size, host: int, vp: int, chance: random.Random, now: datetime) -> dict[str, Any]:
    own, other = server_id(host, vp), server_id(host, (vp + 1) % size.vps_per_host)
    is_hurt = chance.random() < 0.03
    hurt = {
        "kind": "cache",
        "since": now.timestamp() - 60,
        "suspects": [{"uuid": other, "rise_per_s": 1.5e6}],
        "refused": [],
    }
    action = cloud.an_action(
        id=f"mitigate-{host:05d}-{vp:03d}",
        at=now.timestamp() - chance.randrange(86400),
        uuid=other,
        victim=own,
        changes=[],
        rejected=[],
    )
    return cloud.a_vp(
        uuid=own,
        name=f"server-{chance.randrange(10**6):06d}",
        project_id=project_id(size, host, vp),
        flavor=f"m1.{vp}",
        domains=[vp % 2],
        state=chance.randrange(9),
        since=now.timestamp() - chance.randrange(3600),
        metrics=cloud.metrics(
            mpki=chance.uniform(0, 40), l2_mpki=chance.uniform(0, 60), cpi=chance.uniform(0.5, 4)
        ),
        interference=hurt if is_hurt else None,
        actions=[action],
    )


def _write(engine: Engine, tables: Iterable[tuple[type[Base], list[Any]]]) -> None:
    with engine.begin() as connection:
        for table, rows in tables:
            for begin in range(0, len(rows), ROWS_AT_ONCE):
                connection.execute(insert(table), rows[begin : begin + ROWS_AT_ONCE])
