# SPDX-License-Identifier: Apache-2.0
"""`openstack vp what-if`: what a server or a flavor would meet on each host."""

import argparse
from typing import Any

from osc_lib.command import command

from vp_client import arguments, columns, formatters, host_formatters
from vp_client.columns import Cell
from vp_client.errors import VpError
from vp_client.plugin import client_of


class WhatIf(command.Lister):
    """List what a server or a flavor would lose on each host, and which hosts accept it"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        who = parser.add_mutually_exclusive_group(required=True)
        who.add_argument("--server", metavar="<server>", help="A running server (name or id)")
        who.add_argument("--flavor", metavar="<flavor>", help="A new server of this flavor")
        parser.add_argument(
            "--image",
            metavar="<image-id>",
            help="Image of the new server, by id: servers of the same flavor and image tell what "
            "to expect of it",
        )
        arguments.add_limit(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        client = client_of(self)
        if parsed_args.server is not None and parsed_args.image is not None:
            raise VpError("Give --image with --flavor: a running server has its own.")
        if parsed_args.server is not None:
            told = client.what_if_server(parsed_args.server)
        else:
            told = client.what_if_flavor(parsed_args.flavor, parsed_args.image)
        print(host_formatters.what_if_newcomer(told.newcomer), file=self.app.stderr)
        headers = ("Host", "Accepted", "It loses", "Others lose", "Most by", "LLC domains", "Why")
        best = host_formatters.by_what_is_lost(told)[: parsed_args.limit]
        return columns.table(headers, map(_row, best))


def _row(one: dict[str, Any]) -> tuple[Any, ...]:
    return (
        columns.flexible(one["host"]),
        Cell(one["is_accepted"], formatters.yes_no(one["is_accepted"])),
        _ratio(one["newcomer_ratio"]),
        _ratio(one["resident_ratio"]),
        Cell(one["resource"], host_formatters.what_if_resource(one)),
        Cell(one["domains"], host_formatters.what_if_domains(one)),
        columns.code(one["reason"]),
    )


def _ratio(ratio: float | None) -> Cell:
    return Cell(ratio, "?" if ratio is None else formatters.percent(ratio))
