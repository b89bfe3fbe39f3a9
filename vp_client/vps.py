# SPDX-License-Identifier: Apache-2.0
"""`openstack vp list` and `openstack vp show`: for operators and tenants alike."""

import argparse
from typing import Any

from osc_lib.command import command

from vp_client import columns, words
from vp_client.columns import Cell

FIELDS: list[columns.Field] = [
    ("server_id", str),
    ("name", words.wrap),
    ("project_id", str),
    ("host", words.wrap),
    ("flavor", words.wrap),
    ("vcpus", str),
    ("isolation", str),
    ("unmanaged", words.unmanaged),
    ("domains", words.words),
    ("cpus", words.wrap),
    ("is_stale", words.yes_no),
    ("reported_at", str),
    ("age_s", words.age),
    ("state", words.state),
    ("since", words.or_unknown),
    ("incomplete", words.or_no),
    ("sensitivity", words.words),
    ("hurt_by_neighbour", words.yes_no),
    ("interference", words.interference),
    ("metrics", words.numbers),
    ("last_known", words.last_known),
    ("actions", words.actions),
    ("proposals", words.proposals),
]


class ListVps(command.Lister):
    """List servers: state, and whether a neighbour hurts them"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--host", metavar="<host>", help="Only this host's (operators)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        client = self.app.client_manager.vp
        vps = client.list_vps(parsed_args.host)
        if parsed_args.host and not vps:
            client.show_host(parsed_args.host)  # An unknown host is an error, an empty one is not.
        # Tenants are not told hosts, so they get no empty column either.
        has_hosts = any("host" in vp for vp in vps)
        headers = ["Server ID", "Name", "State", "Hurt", *(["Host"] if has_hosts else [])]
        return headers, [_row(vp, has_hosts) for vp in vps]


def _row(vp: dict[str, Any], has_hosts: bool) -> list[Any]:
    host = [columns.narrow(vp["host"], 10)] if has_hosts else []
    return [
        vp["server_id"],
        columns.narrow(vp["name"], 12),
        columns.state(vp["state"], is_stale=vp["is_stale"]),
        Cell(vp["hurt_by_neighbour"], _hurt(vp["hurt_by_neighbour"])),
        *host,
    ]


def _hurt(value: bool | None) -> str:
    """Short: the column is."""
    return "?" if value is None else words.yes_no(value)


class ShowVp(command.ShowOne):
    """Show a server: state, sensitivity, interference, last actions with their reasons"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="<server>", help="Server (name or id)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        return columns.show(self.app.client_manager.vp.show_vp(parsed_args.server), FIELDS)
