# SPDX-License-Identifier: Apache-2.0
"""What a cloud takes of the broker's network and of the database's disk, for who plans one."""

import re
import subprocess
from typing import NamedTuple

from sqlalchemy import func, select, text
from sqlalchemy.engine import Engine

from nova_vp.db.models import History, Host, Profile, StoredAction

MIB = 1024 * 1024
ROOM = text(
    "SELECT table_name, data_length + index_length FROM information_schema.tables "
    "WHERE table_schema = DATABASE()"
)


class Traffic(NamedTuple):
    """Bytes of TCP since the connections were opened."""

    to_broker: int
    from_broker: int

    def per_s(self, before: "Traffic", span_s: float) -> dict[str, float]:
        return {
            "broker_in_bytes_per_s": (self.to_broker - before.to_broker) / span_s,
            "broker_out_bytes_per_s": (self.from_broker - before.from_broker) / span_s,
        }


def traffic(port: int) -> Traffic:
    """Of all clients of that port on this machine, as the kernel counts it."""
    argv = ["ss", "-Htin", f"dport = :{port}"]
    told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    sent, received = (
        sum(map(int, re.findall(rf"\b{name}:(\d+)", told)))
        for name in ("bytes_sent", "bytes_received")
    )
    return Traffic(sent, received)


def stored_sizes(engine: Engine) -> dict[str, float]:
    packed, report = History.packed, Host.packed
    with engine.connect() as connection:
        rows, packed_bytes = connection.execute(
            select(func.count(), func.avg(func.length(packed)))
        ).one()
        report_bytes = connection.scalar(select(func.avg(func.length(report))))
        profiles = connection.scalar(select(func.count(Profile.uuid)))
        actions = connection.scalar(select(func.count()).select_from(StoredAction))
        tables = connection.execute(ROOM).all()
        for name, _ in tables:
            connection.execute(text(f"ANALYZE TABLE {name}"))
        room = {name: float(size or 0) for name, size in connection.execute(ROOM)}
    return {
        "history_rows": rows,
        "history_bytes_per_row": float(packed_bytes),
        "history_disk_bytes_per_row": room[History.__tablename__] / max(1, rows),
        "report_bytes": float(report_bytes),
        "profiles": profiles,
        "actions": actions,
        "database_mib": sum(room.values()) / MIB,
        "database_mib_without_history": (sum(room.values()) - room[History.__tablename__]) / MIB,
    }
