# SPDX-License-Identifier: Apache-2.0
"""`openstack vp host …`: for operators."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from osc_lib.command import command

from vp_client import (
    arguments,
    columns,
    escalation_formatters,
    formatters,
    host_formatters,
    service_formatters,
)
from vp_client.columns import Cell
from vp_client.plugin import client_of

FIELDS: list[columns.Field] = [
    ("name", str),
    ("hypervisor", formatters.or_unknown),
    ("mode", str),
    ("mode_source", formatters.mode_source),
    ("mode_levels", formatters.mode_levels),
    ("actuator", str),
    ("knobs", formatters.words),
    ("counters", host_formatters.counters),
    ("reported_at", str),
    ("age_s", formatters.age),
    ("is_stale", formatters.yes_no),
    ("cells", host_formatters.cells),
    ("islands", host_formatters.islands),
    ("overlays", host_formatters.overlays),
    ("nodes", host_formatters.nodes),
    ("steal_ratio", host_formatters.steal),
    ("contention", host_formatters.contention),
    ("unmanaged_suspects", host_formatters.unmanaged_suspects),
    ("vps_count", str),
    ("hurt_count", formatters.or_unknown),
    ("vps", host_formatters.vps_of_host),
    ("latency_projects", service_formatters.latency_projects),
    ("proposals", formatters.proposals),
    ("memory_moves", formatters.memory_moves),
    ("escalations", escalation_formatters.escalations),
]


def _add_host(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("host", metavar="<host>", help="Host name, from `openstack vp host list`")


class ListHosts(command.Lister):
    """List hosts: mode, counters, servers and age of the last report"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--mode", choices=arguments.MODES, help="Only hosts in this mode")
        parser.add_argument(
            "--stale",
            action="store_true",
            default=None,
            help="Only hosts without a recent report",
        )
        parser.add_argument(
            "--long",
            action="store_true",
            help="Add LLC domains with the states of their servers, and NUMA nodes; a table shows "
            "them instead of what it has no room for",
        )
        arguments.add_page(parser, "name", "hurt_count", "vps_count")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        servers = columns.heading(parsed_args, "Servers", "VPs")
        degraded = columns.heading(parsed_args, "Degraded", "Hurt")
        headers = (
            "Host",
            "Mode",
            "Mode set by",
            "Counters",
            "Problems",
            servers,
            degraded,
            "Age",
            "Stale",
        )
        hosts = client_of(self).list_hosts(
            parsed_args.limit,
            mode=parsed_args.mode,
            is_stale=parsed_args.stale,
            sort=parsed_args.sort,
            marker=parsed_args.marker,
            heat=parsed_args.long or None,
        )
        if not parsed_args.long:
            return columns.table(headers, map(_row, hosts))
        if parsed_args.formatter == "table":
            return _long(("Host", "Mode", "Age"), _narrow_row, hosts)
        return _long(headers, _row, hosts)


def _long(
    headers: Sequence[str], row: Callable[[dict[str, Any]], Any], hosts: list[dict[str, Any]]
) -> columns.Table:
    rows = ((*row(one), *_heat(one)) for one in hosts)
    return columns.table((*headers, "LLC domains", "NUMA nodes"), rows)


def _narrow_row(host: dict[str, Any]) -> tuple[Any, ...]:
    return (
        columns.flexible(host["name"]),
        host["mode"],
        Cell(host["age_s"], formatters.age(host["age_s"])),
    )


def _heat(host: dict[str, Any]) -> tuple[Any, ...]:
    return (
        Cell(host["domains"], host_formatters.heat_domains(host["domains"])),
        Cell(host["nodes"], host_formatters.heat_nodes(host["nodes"])),
    )


def _row(host: dict[str, Any]) -> tuple[Any, ...]:
    return (
        columns.flexible(host["name"]),
        host["mode"],
        columns.flexible(formatters.short_mode_source(host["mode_source"])),
        columns.flexible(host["counters"]["source"]),
        len(host["counters"]["problems"]),
        host["vps_count"],
        Cell(host["hurt_count"], "?" if host["is_stale"] else str(host["hurt_count"])),
        Cell(host["age_s"], formatters.age(host["age_s"])),
        Cell(host["is_stale"], formatters.yes_no(host["is_stale"])),
    )


class ShowHost(command.ShowOne):
    """Show a host: NUMA nodes, LLC domains, servers, states and proposals"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_host(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        return columns.show(client_of(self).show_host(parsed_args.host), FIELDS)


class SetHost(command.Command):
    """Set the mode of a host"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_host(parser)
        parser.add_argument(
            "--mode",
            required=True,
            choices=arguments.MODES,
            help="observe: measure and report only; limits end within a minute, places of vCPUs "
            "and memory stay; advise: propose actions, apply them after `openstack vp action "
            "accept`; enforce: apply actions",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        client_of(self).set_mode(parsed_args.host, parsed_args.mode)
