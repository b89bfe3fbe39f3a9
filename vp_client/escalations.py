# SPDX-License-Identifier: Apache-2.0
"""`openstack vp escalation …`: degradations that a host could not resolve, and their migrations."""

import argparse
from functools import partial
from typing import Any

from osc_lib.command import command

from vp_client import arguments, columns, escalation_formatters, formatters
from vp_client.plugin import client_of


def _add_escalation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "escalation",
        metavar="<escalation>",
        help="Escalation id, from `openstack vp escalation list`",
    )


class ListEscalations(command.Lister):
    """List escalations, newest first"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--host", metavar="<host>", help="Only escalations of this host")
        parser.add_argument(
            "--status", metavar="<status>", help="Only escalations with this status"
        )
        parser.add_argument(
            "--long", action="store_true", help="Add project and kind of interference"
        )
        arguments.add_page(parser, "received_at")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        told = client_of(self).list_escalations(
            parsed_args.limit,
            host=parsed_args.host,
            status=parsed_args.status,
            sort=parsed_args.sort,
            marker=parsed_args.marker,
        )
        headers = ("ID", "Received", "Victim", "Status", "Host")
        if not parsed_args.long:
            return columns.table(headers, map(_row, told))
        rows = ((*_row(one), *_more(one)) for one in told)
        return columns.table((*headers, "Project", "Kind"), rows)


def _more(one: dict[str, Any]) -> tuple[Any, ...]:
    return (
        columns.code(one["project_id"]),
        one["kind"],
    )


def _row(one: dict[str, Any]) -> tuple[Any, ...]:
    return (
        columns.code(one["id"]),
        columns.Cell(one["received_at"], formatters.minute(one["received_at"])),
        columns.server(one["victim"]),
        one["status"],
        columns.flexible(one["host"]),
    )


def _fields(escalation_id: str) -> list[columns.Field]:
    return [
        ("id", str),
        ("host", formatters.wrap),
        ("status", partial(escalation_formatters.status, escalation_id)),
        ("reason", formatters.or_none),
        ("mode", str),
        ("victim", formatters.server),
        ("project_id", str),
        ("kind", str),
        ("meaning", formatters.wrap),
        ("since", formatters.or_unknown),
        ("received_at", formatters.or_unknown),
        ("changed_at", formatters.or_unknown),
        ("accepted_at", formatters.or_no),
        ("accepted_by", formatters.or_none),
        ("settled_at", formatters.or_no),
        ("evidence", formatters.numbers),
        ("rejected", formatters.rejected),
        ("candidates", escalation_formatters.candidates),
        ("choice", escalation_formatters.choice),
        ("attempts", escalation_formatters.attempts),
    ]


class ShowEscalation(command.ShowOne):
    """Show an escalation: candidates, selected server, reasons and migration attempts"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_escalation(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        told = client_of(self).show_escalation(parsed_args.escalation)
        return columns.show(told, _fields(told["id"]))


class AcceptEscalation(command.Command):
    """Accept a proposed migration"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_escalation(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        told = client_of(self).accept_escalation(parsed_args.escalation)
        self.app.stdout.write(
            f"{told['id']}: accepted; follow the migration with "
            f"`openstack vp escalation show {told['id']}`\n"
        )
