# SPDX-License-Identifier: Apache-2.0
"""`openstack vp action …`: what was done or is proposed, and an operator's word on it."""

import argparse
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from osc_lib.command import command

from nova_vp.action_results import RESULTS
from vp_client import arguments, columns, formatters
from vp_client.client import Client
from vp_client.columns import Cell
from vp_client.errors import Refused, VpError
from vp_client.plugin import client_of
from vp_client.transport import Told

LOG = logging.getLogger(__name__)
FORBIDDEN = 403


def _add_action(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", metavar="<action>", help="Action id, from `openstack vp action list`"
    )
    parser.add_argument(
        "--host",
        metavar="<host>",
        help="Host of the action; needed only if two hosts have used the same action id",
    )


class ListActions(command.Lister):
    """List applied and proposed actions, newest first"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--server",
            metavar="<server>",
            help="Only actions on or for this server (name or id); required for tenants",
        )
        parser.add_argument("--host", metavar="<host>", help="Only actions on this host")
        arguments.add_project(parser, "Only actions on servers of this project (name or id)")
        parser.add_argument("--result", choices=RESULTS, help="Only actions with this result")
        parser.add_argument(
            "--long",
            action="store_true",
            help="Add project and when the result was known (operators)",
        )
        arguments.add_span(parser)
        arguments.add_page(parser, "at")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        client, span = client_of(self), arguments.span_of(parsed_args)
        given = parsed_args
        wide = (given.host, given.project, given.result, given.sort, given.marker)
        if parsed_args.server and not any(wide):
            told = client.vp_actions(parsed_args.server, parsed_args.limit, **span)
        else:
            filters = {
                "server_id": parsed_args.server and client.server_id(parsed_args.server),
                "host": parsed_args.host,
                "project_id": arguments.project_of(client, parsed_args),
                "result": parsed_args.result,
                "sort": parsed_args.sort,
                "marker": parsed_args.marker,
            }
            told = _of_all(client, parsed_args.limit, {**filters, **span})
        return _table(told, is_long=parsed_args.long)


def _of_all(client: Client, limit: int | None, filters: Told) -> list[Told]:
    try:
        return client.list_actions(limit, **filters)
    except Refused as exc:
        if exc.status != FORBIDDEN:
            raise
        raise Refused(
            FORBIDDEN,
            f"{exc}\nTo list the actions of a server of your project, use "
            "`openstack vp action list --server SERVER` with --last, --begin, --end and --limit "
            "only.",
        ) from exc


def _table(told: list[dict[str, Any]], *, is_long: bool) -> Any:
    """Tenants are told neither ids nor hosts."""
    if told and "what" in told[0]:
        rows = ((one["at"], columns.flexible(one["what"]), one["result"]) for one in told)
        return columns.table(("At", "What", "Result"), rows)
    headers = ("ID", "At", "Server", "Reason", "Result", "Host")
    if not is_long:
        return columns.table(headers, map(_row, told))
    rows = ((*_row(one), *_more(one)) for one in told)
    return columns.table((*headers, "Project", "Settled"), rows)


def _more(action: dict[str, Any]) -> tuple[Any, ...]:
    return (
        columns.code(action["project_id"]),
        Cell(action["settled_at"], formatters.minute(action["settled_at"] or "-")),
    )


def _row(action: dict[str, Any]) -> tuple[Any, ...]:
    return (
        columns.code(action["id"]),
        Cell(action["at"], formatters.minute(action["at"] or "-")),
        columns.server(action["server"]),
        columns.code(action["reason"]),
        action["result"],
        columns.flexible(action["host"]),
    )


def _fields(action_id: str) -> list[columns.Field]:
    return [
        ("id", str),
        ("host", formatters.wrap),
        ("at", formatters.or_unknown),
        ("settled_at", formatters.or_no),
        ("controller", str),
        ("server", formatters.server),
        ("project_id", str),
        ("victim", formatters.server_or_none),
        ("on_behalf_of", formatters.server_or_none),
        ("reason", str),
        ("meaning", formatters.wrap),
        ("rung", formatters.or_unknown),
        ("result", partial(formatters.action_result, action_id)),
        ("accepted_by", formatters.or_none),
        ("detail", formatters.or_none),
        ("changes", formatters.changes),
        ("hurt_ratio", formatters.percent),
        ("evidence", formatters.numbers),
        ("rejected", formatters.rejected),
    ]


class ShowAction(command.ShowOne):
    """Show an action: changes, reason, evidence, result and rejected alternatives"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_action(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        told = client_of(self).show_action(parsed_args.action, parsed_args.host)
        return columns.show(told, _fields(told["id"]))


class AcceptAction(command.Command):
    """Accept proposed actions; their agents, in mode advise, apply them"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_actions(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        client, host = client_of(self), parsed_args.host

        def accept(action_id: str) -> str:
            told = client.accept_action(action_id, host)
            return f"{told['host']}: its agent will apply {told['id']}"

        _each(self, parsed_args.action, accept)


class RejectAction(command.Command):
    """Reject proposed actions; their agents do not propose them again for a time"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_actions(parser)
        parser.add_argument(
            "--reason", metavar="<text>", help="Why; the history of the action keeps it"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        client, asked = client_of(self), parsed_args

        def reject(action_id: str) -> str:
            told = client.reject_action(action_id, asked.host, asked.reason)
            return f"{told['host']}: its agent withdraws {told['id']}"

        _each(self, asked.action, reject)


def _add_actions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        metavar="<action>",
        nargs="+",
        help="Action ids, from `openstack vp action list --result proposed`",
    )
    parser.add_argument(
        "--host",
        metavar="<host>",
        help="Host of the actions; needed only if two hosts have used the same action id",
    )


def _each(command: command.Command, action_ids: list[str], order: Callable[[str], str]) -> None:
    """Of several all are tried. Raises VpError: of one its own, of several how many failed."""
    failed: list[VpError] = []
    for action_id in action_ids:
        try:
            command.app.stdout.write(f"{order(action_id)}\n")
        except VpError as exc:
            if len(action_ids) == 1:
                raise
            LOG.error("%s: %s", action_id, exc)
            failed.append(exc)
    if failed:
        raise VpError(f"{len(failed)} of {len(action_ids)} actions failed.")


class UndoAction(command.Command):
    """Revert an action that was applied"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_action(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        told = client_of(self).undo_action(parsed_args.action, parsed_args.host)
        self.app.stdout.write(f"{told['host']}: its agent will revert {told['id']}\n")
