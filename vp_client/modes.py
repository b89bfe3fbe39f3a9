# SPDX-License-Identifier: Apache-2.0
"""`openstack vp mode …`: what agents may do, for the cloud, host aggregates, hosts and servers."""

import argparse
import logging
from typing import Any

from osc_lib.command import command

from vp_client import arguments, columns, formatters
from vp_client.client import Client
from vp_client.errors import VpError
from vp_client.plugin import client_of, has_aggregate

LOG = logging.getLogger(__name__)

SHOWN: list[columns.Field] = [
    ("mode", str),
    ("source", formatters.mode_source),
    ("levels", formatters.mode_levels),
]


def _add_targets(parser: argparse.ArgumentParser, *, hosts_only: bool = False) -> None:
    target = parser.add_mutually_exclusive_group(required=True)
    if not hosts_only:
        target.add_argument("--all", action="store_true", help="The whole cloud")
        target.add_argument(
            "--aggregate", metavar="<name>", help="Name of a host aggregate of Nova"
        )
    target.add_argument("--host", metavar="<host>", help="One host")
    target.add_argument("--server", metavar="<server>", help="One server (name or id)")


def _change(client: Client, asked: argparse.Namespace, mode: str | None) -> None:
    if asked.all:
        client.set_cloud_mode(mode)
    elif asked.aggregate is not None:
        client.set_aggregate_mode(asked.aggregate, mode)
    elif asked.host is not None:
        client.set_mode(asked.host, mode)
    else:
        client.change_vp(asked.server, mode=mode)


class SetMode(command.Command):
    """Set the mode of the cloud, a host aggregate, a host or a server; the tightest one holds"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "mode",
            choices=arguments.MODES,
            help="observe: measure and report only; advise: propose actions, apply them after "
            "`openstack vp action accept`; enforce: apply actions",
        )
        _add_targets(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        _change(client_of(self), parsed_args, parsed_args.mode)
        name = parsed_args.aggregate
        if name is not None and not has_aggregate(self, name):
            LOG.warning(
                "Nova has no host aggregate %s: the mode is stored, and holds for no host until"
                " there is one. `openstack aggregate list` lists them.",
                name,
            )


class UnsetMode(command.Command):
    """Remove the mode of the cloud, a host aggregate, a host or a server; the other levels hold"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_targets(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        _change(client_of(self), parsed_args, None)


class ListModes(command.Lister):
    """List the modes that are set for the cloud and for host aggregates"""

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        headers = ("Level", "Aggregate", "Mode", "Hosts", "By", "At")
        return columns.table(headers, map(_row, client_of(self).list_modes()))


def _row(one: dict[str, Any]) -> tuple[Any, ...]:
    return (
        one["level"],
        columns.flexible(one["name"]),
        one["mode"],
        one["hosts_count"],
        columns.flexible(one["by"]),
        one["at"],
    )


class ShowMode(command.ShowOne):
    """Show the mode that holds for a host or a server, and where it is set"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_targets(parser, hosts_only=True)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        client = client_of(self)
        if parsed_args.host is not None:
            host = client.show_host(parsed_args.host)
            told = {"mode": host["mode"], "source": host["mode_source"]}
            return columns.show({**told, "levels": host["mode_levels"]}, SHOWN)
        vp = client.show_vp(parsed_args.server)
        if "host" not in vp:
            raise VpError(
                "vp-api shows modes to operators only. `openstack vp explain SERVER` says what is "
                "done for a server of yours."
            )
        levels = list(client.show_host(vp["host"])["mode_levels"])
        if vp["overrides"]["mode"]:
            levels.append({"level": "server", "name": "", "mode": vp["overrides"]["mode"]})
        return columns.show({**vp["mode"], "levels": levels}, SHOWN)
