# SPDX-License-Identifier: Apache-2.0
"""`openstack vp usage list`: what servers with a pollution permit are billed for."""

import argparse
from typing import Any

from osc_lib.command import command

from vp_client import arguments, columns, formatters
from vp_client.columns import Cell
from vp_client.plugin import client_of

COLUMNS = (
    ("Server", "server_id"),
    ("Project", "project_id"),
    ("Booked h", "booked_s"),
    ("Over h", "over_s"),
    ("Permit", "permit_misses"),
    ("Charged", "pollution_misses"),
    ("CPU core h", "cpu_taken_core_s"),
)
"""As people and as machines read them."""
LONG = (("Hosts", "hosts"), ("How", "attributed_misses"))
SURE = "sure_misses"
"""For people a part of the column before: a table has no room for one more."""


class ListUsage(command.Lister):
    """List usage of servers with a pollution permit: permit, pollution, time over it, CPU taken"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        arguments.add_project(
            parser, "Only this project, by name or id (operators; a tenant sees its own)"
        )
        parser.add_argument("--server", metavar="<server>", help="Only this server (name or id)")
        parser.add_argument(
            "--long",
            action="store_true",
            help="Also list hosts, and how the misses were attributed to the server (operators)",
        )
        arguments.add_hours(parser)
        arguments.add_page(parser, "server_id", "project_id")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        client, given = client_of(self), parsed_args
        told = client.list_usage(
            given.limit,
            project_id=arguments.project_of(client, given),
            server_id=given.server and client.server_id(given.server),
            start=given.start,
            end=given.end,
            sort=given.sort,
            marker=given.marker,
        )
        rows = [_row(one) for one in told]
        headers = [columns.heading(given, *names) for names in COLUMNS]
        # The API decides what the caller may see: a tenant sees no host.
        if given.long and all(key in one for one in told for _, key in LONG):
            headers += [columns.heading(given, *names) for names in LONG]
            rows = [(*row, *_more(one)) for row, one in zip(rows, told, strict=True)]
            if given.formatter != "table":
                headers.append(SURE)
                rows = [(*row, one[SURE]) for row, one in zip(rows, told, strict=True)]
        return columns.table(headers, rows)


def _row(one: dict[str, Any]) -> tuple[Any, ...]:
    return (
        columns.server(one),
        columns.flexible(one["project_id"]),
        *(_hours(one[key]) for key in ("booked_s", "over_s")),
        *(_misses(one[key]) for key in ("permit_misses", "pollution_misses")),
        _hours(one["cpu_taken_core_s"]),
    )


def _more(one: dict[str, Any]) -> tuple[Any, ...]:
    hosts, charged = one["hosts"], one["pollution_misses"]
    shares = [f"{how} {_percent(part, charged)}" for how, part in one["attributed_misses"].items()]
    sure = f"sure {_percent(one[SURE], charged)}"
    return (
        columns.Flexible(hosts, " ".join(hosts)),
        columns.Flexible(one["attributed_misses"], "\n".join([*shares, sure]), _wrap_lines),
    )


def _percent(part: float, whole: float) -> str:
    """Without a space: the column is narrow."""
    return f"{100 * part / whole if whole else 0.0:.0f}%"


def _wrap_lines(text: str, width: int) -> str:
    return "\n".join(formatters.wrap(line, width) for line in text.split("\n"))


def _hours(seconds: float) -> Cell:
    return Cell(seconds, formatters.number(seconds / 3600))


def _misses(count: float) -> Cell:
    return Cell(count, formatters.number(count))
