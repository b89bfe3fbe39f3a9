# SPDX-License-Identifier: Apache-2.0
"""`openstack vp list`, `show`, `history`, `set` and `unset`: for operators and tenants alike."""

import argparse
import logging
from typing import Any

from osc_lib.command import command

from nova_vp.cli.labels import small
from nova_vp.wire.schema_types import LEVELS
from vp_client import (
    arguments,
    columns,
    degradation_formatters,
    escalation_formatters,
    formatters,
    service_formatters,
)
from vp_client.columns import Cell
from vp_client.errors import VpError
from vp_client.plugin import client_of

LOG = logging.getLogger(__name__)
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
    ("orders", formatters.orders),
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


def add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("server", metavar="<server>", help="Server (name or id)")


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
        add_server(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        return columns.show(client_of(self).show_vp(parsed_args.server), FIELDS)


METRICS = {"mpki": "MPKI", "memory_factor": "MF", "cpi": "CPI", "cpu_cores": "CPU"}
"""Those that tenants are told too."""


class ListHistory(command.Lister):
    """List the measurements of a server by minute; default: the last hour"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_server(parser)
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


class SetVp(command.Command):
    """Override the mode, opt-out, priority, exemption or latency target of a server"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_server(parser)
        parser.add_argument(
            "--mode",
            choices=arguments.MODES,
            help="Mode of this server; the tightest of this and those of its host, its aggregates "
            "and the cloud holds",
        )
        parser.add_argument(
            "--opt-out",
            action="store_true",
            help="Do nothing for the sake of the server. It is still restrained if it degrades "
            "others",
        )
        parser.add_argument(
            "--exempt",
            action=argparse.BooleanOptionalAction,
            help="Measure the server, but do not change it, even if it degrades others; "
            "--no-exempt removes the exemption (operators)",
        )
        parser.add_argument(
            "--priority",
            type=int,
            choices=range(10),
            metavar="<0-9>",
            help="Weight of this server when needs of servers conflict (operators)",
        )
        _add_levels(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        orders = {
            name: value
            for name, value in (
                ("mode", parsed_args.mode),
                ("opt_out", parsed_args.opt_out or None),
                ("priority", parsed_args.priority),
                ("exempt", parsed_args.exempt),
                *((name, getattr(parsed_args, name)) for name in LEVELS),
            )
            if value is not None
        }
        _order(self, parsed_args.server, orders)
        if orders.keys() & LEVELS:
            _warn_unless_critical(self, parsed_args.server)


class UnsetVp(command.Command):
    """Remove overrides of a server"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_server(parser)
        parser.add_argument("--mode", action="store_true", help="Use the mode of its host again")
        parser.add_argument("--opt-out", action="store_true", help="Help the server again")
        parser.add_argument("--exempt", action="store_true", help="Manage the server again")
        parser.add_argument(
            "--priority", action="store_true", help="Use the priority of its flavor again"
        )
        for name in LEVELS:
            told = f"Use the {name.removesuffix('_ms').replace('_', ' ')} of its flavor again"
            parser.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=told)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        free = {"mode": None, "opt_out": False, "priority": None, "exempt": False}
        free |= dict.fromkeys(LEVELS)
        orders = {name: value for name, value in free.items() if getattr(parsed_args, name)}
        _order(self, parsed_args.server, orders)


def _add_levels(parser: argparse.ArgumentParser) -> None:
    """Of latency-critical servers."""
    levels = parser.add_argument_group("Latency-critical servers, within what their flavors say")
    levels.add_argument(
        "--latency-target-ms", type=float, metavar="<ms>", help="Latency target, no tighter"
    )
    levels.add_argument(
        "--latency-percentile",
        type=float,
        metavar="<50-99.999>",
        help="Percentile of the target and of reports, no higher",
    )
    levels.add_argument(
        "--max-load", type=float, metavar="<load>", help="Largest load within the target, no less"
    )


def _warn_unless_critical(command: command.Command, server: str) -> None:
    """What is set is kept for a flavor that the server may be resized to."""
    service = client_of(command).show_vp(server)["service"]
    if service is None or service["class"] != "latency-critical":
        LOG.warning(
            "%s: stored, but of no effect: its flavor does not have vp:class=latency-critical. "
            "Resize the server to one that has, or remove the override with `openstack vp unset`",
            server,
        )


def _order(command: command.Command, server: str, orders: dict[str, Any]) -> None:
    if not orders:
        raise VpError("Give at least one option; `--help` lists them.")
    if not client_of(command).change_vp(server, **orders)["is_told"]:
        LOG.warning(
            "%s: stored, and applied when its host next reports; `openstack vp show %s` shows in "
            "is_stale whether its last report is old",
            server,
            server,
        )
