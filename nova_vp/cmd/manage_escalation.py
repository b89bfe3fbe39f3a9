# SPDX-License-Identifier: Apache-2.0
"""`vp-manage escalation`: what hosts asked of the cluster, what became of it, an operator's yes.

Reads and writes the ledger alone; what is accepted is done by vp-scheduler.
"""

import argparse
import json
import os
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from oslo_config import cfg

from nova_vp.db.escalations import Ledger, NotProposed
from nova_vp.db.records import Attempt, Escalation
from nova_vp.escalation_status import Status
from nova_vp.printable import printable

COLUMNS = 100
LISTED = 50
HOST_COLUMNS = 16
NAME_COLUMNS = 16


def add_commands(escalation: argparse.ArgumentParser) -> None:
    actions = escalation.add_subparsers(dest="action", required=True)
    listing = actions.add_parser("list", help="List the latest escalations, newest first")
    listing.add_argument(
        "--status",
        choices=[status.value for status in Status],
        help="Only escalations with this status",
    )
    listing.add_argument(
        "--limit", type=_count, default=LISTED, metavar="N", help="Maximum number of rows"
    )
    listing.set_defaults(run=_list)
    show = actions.add_parser(
        "show", help="Show an escalation with reason, candidates and migrations"
    )
    show.add_argument("id", metavar="ID")
    show.set_defaults(run=_show)
    accept = actions.add_parser("accept", help="Accept a proposed migration")
    accept.add_argument("id", metavar="ID")
    accept.set_defaults(run=_accept)
    for action in (listing, show):
        action.add_argument(
            "-f", "--format", choices=["table", "json"], default="table", help="Output format"
        )


def _count(text: str) -> int:
    if not 1 <= (count := int(text)) <= 10_000:
        raise argparse.ArgumentTypeError("give 1 to 10000")
    return count


def _list(conf: cfg.ConfigOpts) -> None:
    given = conf.category
    status = Status(given.status) if given.status else None
    found = Ledger(conf).list_latest(given.limit, status)
    if given.format == "json":
        print(json.dumps([_as_json(one) for one in found], indent=2))
    elif found:
        print(_table(("id", "status", "host", "server", "received (UTC)"), map(_row, found)))
    else:
        print("no escalations")


def _show(conf: cfg.ConfigOpts) -> int:
    found = Ledger(conf).get(conf.category.id)
    if found is None:
        return _unknown(conf.category.id)
    if conf.category.format == "json":
        print(json.dumps(_as_json(found) | _event_log(found), indent=2))
        return 0
    print(f"{found.id} on {found.host}: {found.status.value}")
    print(textwrap.fill(printable(found.reason) or "not processed yet", COLUMNS))
    if found.accepted_by:
        told = f"accepted by {found.accepted_by} at {found.accepted_at:%m-%d %H:%M:%S}"
        print(textwrap.fill(printable(told), COLUMNS))
    for title, rows in (("migrations", _attempt_rows(found)), ("candidates", _choice_rows(found))):
        if len(rows) > 1:
            print(f"\n{title}\n{_table(rows[0], rows[1:])}")
    return 0


def _accept(conf: cfg.ConfigOpts) -> int:
    id = conf.category.id
    try:
        Ledger(conf).accept(id, by=f"vp-manage uid={os.getuid()}", now=datetime.now(UTC))
    except KeyError:
        return _unknown(id)
    except NotProposed as exc:
        print(exc)
        return 1
    print(f"{id} is accepted; vp-scheduler starts within seconds: vp-manage escalation show {id}")
    return 0


def _unknown(id: str) -> int:
    print(f"{id}: no such escalation; `vp-manage escalation list` lists the stored ones")
    return 1


def _row(found: Escalation) -> tuple[str, ...]:
    return (
        found.id,
        found.status.value,
        _short(found.host, HOST_COLUMNS),
        _short(_moves(found), NAME_COLUMNS),
        f"{found.received_at:%m-%d %H:%M:%S}",
    )


def _moves(found: Escalation) -> str:
    if found.attempts:
        return found.latest.name
    mover = json.loads(found.choice)["mover"] if found.choice else None
    return f"({mover['name']})" if mover else "-"


def _attempt_rows(found: Escalation) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        ("server", "role", "status", "to", "Nova migration", "asked (UTC)", "MiB")
    ]
    for one in found.attempts:
        rows.append(
            (
                _short(one.name, NAME_COLUMNS),
                one.role,
                one.status.value,
                _short(one.dest_host or "-", HOST_COLUMNS),
                f"{one.nova_id} {one.nova_status}" if one.nova_id else "-",
                f"{one.requested_at:%H:%M:%S}" if one.requested_at else "-",
                str(one.memory_kib // 1024),
            )
        )
    return rows


def _choice_rows(found: Escalation) -> list[tuple[str, ...]]:
    """Whom the choice was made from; costs and gains in performance-seconds."""
    choice = json.loads(found.choice) if found.choice else {"mover": None, "rejected": []}
    rows: list[tuple[str, ...]] = [
        ("server", "role", "decision", "relief", "others", "copy s", "cost", "gain")
    ]
    mover = choice["mover"]
    guests = [({**mover, "why": "chosen"}, choice["numbers"])] if mover else []
    guests += [(one, one["numbers"]) for one in choice["rejected"]]
    for guest, numbers in guests:
        rows.append(
            (
                _short(guest["name"], NAME_COLUMNS),
                guest["role"],
                guest["why"],
                _share(numbers["relief_ratio"]),
                _share(numbers["others_ratio"]),
                _number(numbers["copy_s"]),
                _number(numbers["cost_s"]),
                _number(numbers["gain_s"]),
            )
        )
    return rows


def _short(text: str, columns: int) -> str:
    text = printable(text)
    return text if len(text) <= columns else text[: columns - 1] + "…"


def _share(ratio: float) -> str:
    return f"{ratio:.0%}" if abs(ratio) < 10 else f"{100 * ratio:.0e}%"


def _number(value: float) -> str:
    return f"{value:.1f}" if abs(value) < 10_000 else f"{value:.2g}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [tuple(head), *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _as_json(found: Escalation) -> dict[str, Any]:
    plain = {
        field.name: _plain(getattr(found, field.name))
        for field in fields(found)
        if field.name not in ("message", "choice", "attempts")
    }
    return plain | {"migrations": [_attempt_json(one) for one in found.attempts]}


def _event_log(found: Escalation) -> dict[str, Any]:
    return {
        "choice": json.loads(found.choice) if found.choice else None,
        "escalation": json.loads(found.message),
    }


def _attempt_json(attempt: Attempt) -> dict[str, Any]:
    return {field.name: _plain(getattr(attempt, field.name)) for field in fields(attempt)}


def _plain(value: Any) -> Any:
    if isinstance(value, Status):
        return value.value
    return value.isoformat() if isinstance(value, datetime) else value
