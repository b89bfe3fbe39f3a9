# SPDX-License-Identifier: Apache-2.0
"""`openstack vp list`, `show` and `history`: for operators and tenants alike."""

import argparse
from typing import Any

from osc_lib.command import command

from nova_vp.cli.labels import small
from vp_client import (
    arguments,
    columns,
    degradation_formatters,
    escalation_formatters,
    formatters,
    service_formatters,
)
from vp_client.columns import Cell
from vp_client.plugin import client_of

LONG = ("Project", "Isolation", "Since")
"""What `--long` adds."""

FIELDS: list[columns.Field] = [
    ("server_id", str),
    ("name", formatters.wrap),
    ("project_id", str),
    ("host", formatters.wrap),
    ("flavor", formatters.wrap),
    ("vcpus", str),
    ("vp_id", formatters.wrap),
    ("group", formatters.or_none),
    ("group_state", formatters.group_state),
    ("isolation", str),
    ("service", service_formatters.service),
    ("priority", formatters.weight),
    ("cap_floor_ratio", formatters.cap_floor),
    ("overrides", formatters.overrides),
    ("mode", formatters.effective_mode),
    ("unmanaged", formatters.unmanaged),
    ("domains", formatters.words),
    ("virtual_domains", formatters.words),
    ("cpus", formatters.wrap),
    ("cap", formatters.or_unknown),
    ("memory", formatters.or_unknown),
    ("memory_obstacle", formatters.or_none),
    ("is_stale", formatters.yes_no),
    ("reported_at", str),
    ("age_s", formatters.age),
    ("state", formatters.state),
    ("since", formatters.or_unknown),
    ("incomplete", formatters.or_no),
    ("sensitivity", formatters.words),
    ("hurt_by_neighbour", formatters.yes_no),
    ("degradation", degradation_formatters.shown),
    ("interference", formatters.interference),
    ("metrics", formatters.numbers),
    ("cpu_use", formatters.cpu_use),
    ("figures", formatters.figures),
    ("last_known", formatters.last_known),
    ("actions", formatters.actions),
    ("proposals", formatters.proposals),
    ("memory_moves", formatters.memory_moves),
    ("escalations", escalation_formatters.escalations),
]


class ListVps(command.Lister):
    """List servers with their state and whether a neighbour degrades them"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--host", metavar="<host>", help="Only servers on this host (operators)"
        )
        arguments.add_project(parser, "Only this project, by name or id (operators)")
        parser.add_argument("--name", metavar="<name>", help="Only servers with this name")
        parser.add_argument(
            "--state",
            type=int,
            choices=range(9),
            metavar="<0-8>",
            help="Only servers in this state",
        )
        hurt = parser.add_mutually_exclusive_group()
        hurt.add_argument(
            "--hurt", action="store_true", default=None, help="Only servers degraded by a neighbour"
        )
        hurt.add_argument(
            "--not-hurt",
            action="store_false",
            dest="hurt",
            help="Only servers not degraded by a neighbour",
        )
        parser.add_argument(
            "--long",
            action="store_true",
            help="Add project, isolation and since when the state holds; a table shows them "
            "instead of group and latency",
        )
        arguments.add_page(parser, "server_id", "name", "since", "state", "degradation", "host")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        client = client_of(self)
        vps = client.list_vps(
            parsed_args.host,
            parsed_args.limit,
            project_id=arguments.project_of(client, parsed_args),
            name=parsed_args.name,
            state=parsed_args.state,
            hurt_by_neighbour=parsed_args.hurt,
            sort=parsed_args.sort,
            marker=parsed_args.marker,
        )
        if parsed_args.host and not vps:
            client.show_host(parsed_args.host)  # An unknown host is an error, an empty one is not.
        if not vps and _is_by_name_alone(parsed_args):
            vps = client.renamed_vps(parsed_args.name)
        if parsed_args.long and parsed_args.formatter == "table":
            return _long_table(vps)
        headers, rows = _listed(parsed_args, vps)
        if not parsed_args.long:
            return headers, rows
        return (*headers, *LONG), [(*row, *_more(vp)) for row, vp in zip(rows, vps, strict=True)]


def _listed(parsed_args: argparse.Namespace, vps: list[dict[str, Any]]) -> columns.Table:
    # Tenants are not told hosts, so they get no empty column either.
    has_hosts = any("host" in vp for vp in vps)
    degraded = columns.heading(parsed_args, "Degraded", "Hurt")
    headers = ["Server ID", "Name", "State", degraded, *(["Host"] if has_hosts else [])]
    is_table, has_groups = parsed_args.formatter == "table", any(vp.get("group") for vp in vps)
    has_classes = is_table and any(vp.get("service") for vp in vps)
    is_narrow = has_groups and has_classes
    is_brief = has_groups or has_classes
    rows = [
        _row(vp, has_hosts, is_short=has_groups, is_narrow=is_narrow, is_brief=is_brief)
        for vp in vps
    ]
    if not is_table:
        headers += ["Group", "Group State"]
        rows = [[*row, *_group(vp)] for row, vp in zip(rows, vps, strict=True)]
    elif has_groups:
        headers += ["Group"]
        rows = [[*row, _group_in_words(vp)] for row, vp in zip(rows, vps, strict=True)]
    if not is_table:
        headers += ["Class", "Latency Target ms", "Latency ms", "Degradation"]
        rows = [
            [*row, *_service(vp), degradation_formatters.value(vp)]
            for row, vp in zip(rows, vps, strict=True)
        ]
    elif has_classes:
        headers += ["Latency"]
        rows = [[*row, _service_in_words(vp)] for row, vp in zip(rows, vps, strict=True)]
    return columns.table(headers, rows)


def _long_table(vps: list[dict[str, Any]]) -> columns.Table:
    """Of what `_listed` has, as much as there is room for."""
    has_hosts = any("host" in vp for vp in vps)
    headers = ["Server ID", "Name", "State", "Degraded", *(["Host"] if has_hosts else [])]
    rows = (
        [
            columns.code(vp["server_id"]),
            *_row(vp, has_hosts, is_short=True, is_narrow=True, is_brief=True)[1:],
            *_more(vp),
        ]
        for vp in vps
    )
    return columns.table([*headers, *LONG], rows)


def _more(vp: dict[str, Any]) -> tuple[Any, ...]:
    return (
        columns.code(vp["project_id"]),
        vp["isolation"],
        Cell(vp["since"], formatters.minute(vp["since"] or "-")),
    )


def _service(vp: dict[str, Any]) -> list[Any]:
    """As machines are told it."""
    told = vp.get("service") or {}
    return [told.get(key) for key in ("class", "latency_target_ms", "latency_ms")]


def _service_in_words(vp: dict[str, Any]) -> columns.Flexible:
    return columns.flexible(service_formatters.listed_service(vp))


def _group(vp: dict[str, Any]) -> list[Any]:
    """As machines are told it. Services of the release before do not."""
    now = vp.get("group_state")
    return [vp.get("group", ""), now and now["state"] and now["state"]["number"]]


def _group_in_words(vp: dict[str, Any]) -> columns.Flexible:
    return columns.flexible(formatters.listed_group(vp))


def _is_by_name_alone(asked: argparse.Namespace) -> bool:
    others = (asked.host, asked.project, asked.state, asked.hurt)
    return bool(asked.name) and all(other is None for other in others)


def _row(
    vp: dict[str, Any], has_hosts: bool, *, is_short: bool, is_narrow: bool, is_brief: bool
) -> list[Any]:
    """`is_short`: there is another column to leave room for; `is_narrow`: there are several;
    `is_brief`: the resource through which it is degraded has no room."""
    host = [columns.flexible(vp["host"])] if has_hosts else []
    return [
        vp["server_id"],
        columns.flexible(vp["name"]),
        STALE if is_narrow and vp["is_stale"] else _state(vp, is_short),
        Cell(vp["hurt_by_neighbour"], degradation_formatters.listed(vp, is_brief=is_brief)),
        *host,
    ]


STALE = Cell(None, "stale")


def _state(vp: dict[str, Any], is_short: bool) -> Cell:
    return columns.state(vp["state"], is_stale=vp["is_stale"], is_short=is_short)


class ShowVp(command.ShowOne):
    """Show a server: state, sensitivity, interference, overrides and recent actions"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        arguments.add_server(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        return columns.show(client_of(self).show_vp(parsed_args.server), FIELDS)


METRICS = {"mpki": "MPKI", "memory_factor": "MF", "cpi": "CPI", "cpu_cores": "CPU"}
"""Those that tenants are told too."""


class ListHistory(command.Lister):
    """List the measurements of a server by minute; default: the last hour"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        arguments.add_server(parser)
        arguments.add_span(parser)
        parser.add_argument(
            "--every",
            type=int,
            choices=(1, 5, 15, 60),
            default=1,
            help="Minutes per row, default: 1",
        )
        arguments.add_limit(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        rows = client_of(self).vp_history(
            parsed_args.server,
            parsed_args.limit,
            every=parsed_args.every,
            **arguments.span_of(parsed_args),
        )
        has_hosts = any("host" in row for row in rows)
        degraded = columns.heading(parsed_args, "Degraded", "Hurt")
        headers = ["At", "State", degraded, *METRICS.values(), *(["Host"] if has_hosts else [])]
        told = [_moment(row, has_hosts) for row in rows]
        if parsed_args.formatter != "table":
            headers += ["Degradation", "Waiting"]
            told = [[*one, *_lost(row)] for one, row in zip(told, rows, strict=True)]
        return columns.table(headers, told)


def _moment(row: dict[str, Any], has_hosts: bool) -> list[Any]:
    metrics = row["metrics"] or {}
    numbers = (metrics.get(name) for name in METRICS)
    return [
        row["at"],
        Cell(row["state"] and row["state"]["number"], formatters.short_state(row["state"])),
        _where(row),
        *(Cell(number, "-" if number is None else small(number)) for number in numbers),
        *([columns.flexible(row["host"])] if has_hosts else []),
    ]


def _where(row: dict[str, Any]) -> Cell:
    """Operators are told where it was hurt."""
    text = degradation_formatters.recorded_text(row)
    return Cell(row.get("kind") or row["hurt_by_neighbour"], text)


def _lost(row: dict[str, Any]) -> list[Any]:
    """As machines are told it."""
    return [degradation_formatters.recorded(row), row.get("waiting_ratio")]
