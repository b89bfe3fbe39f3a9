# SPDX-License-Identifier: Apache-2.0
"""`openstack vp overlay …`: register the servers of an application, and call them."""

import argparse
import logging
from collections.abc import Iterable
from typing import Any

from osc_lib.command import command

from nova_vp.core.types.overlay import ArbitrationClass, CallResource, Direction, Verb
from nova_vp.wire.schema_types import MAX_PRIORITY
from vp_client import arguments, columns, formatters, overlay_formatters
from vp_client.client import Client
from vp_client.errors import AmbiguousOverlay, NoSuchOverlay, Refused, VpError
from vp_client.plugin import client_of

LOG = logging.getLogger(__name__)

FIELDS: list[columns.Field] = [
    ("id", str),
    ("name", formatters.wrap),
    ("project_id", str),
    ("is_group", formatters.yes_no),
    ("priority", str),
    ("arbitration", str),
    ("target", lambda target: "none" if target is None else formatters.number(target)),
    ("target_unit", formatters.or_none),
    ("servers", overlay_formatters.servers),
    ("holds", overlay_formatters.holds),
    ("changed_at", formatters.or_unknown),
    ("changed_by", formatters.or_unknown),
]
CALL_FIELDS: list[columns.Field] = [
    ("id", str),
    ("overlay_id", str),
    ("verb", str),
    ("granted", formatters.yes_no),
    ("answers", overlay_formatters.answers),
]


def _add_overlay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overlay", metavar="<overlay>", help="Overlay (name or id)")


def _add_settings(parser: argparse.ArgumentParser, target: Any) -> None:
    """`target`: the parser, or a group of it: what to give in place of a target."""
    target.add_argument("--target", type=float, metavar="<number>", help="What its monitors act on")
    parser.add_argument("--target-unit", metavar="<unit>", help="Unit of the target, as requests/s")
    parser.add_argument(
        "--priority",
        type=int,
        choices=range(MAX_PRIORITY + 1),
        metavar=f"<0-{MAX_PRIORITY}>",
        help="Calls of an overlay with a higher one come first (operators)",
    )
    parser.add_argument(
        "--arbitration",
        choices=[one.value for one in ArbitrationClass],
        help="priority: calls in the order of priorities; round-robin: in turn, after those "
        "(operators)",
    )


def _settings(given: argparse.Namespace) -> dict[str, Any]:
    names = ("target", "target_unit", "priority", "arbitration")
    return {name: getattr(given, name) for name in names if getattr(given, name) is not None}


def _server_ids(client: Client, servers: Iterable[str]) -> list[str]:
    return [client.server_id(one) for one in servers]


class ListOverlays(command.Lister):
    """List overlays with their targets and servers"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        arguments.add_project(parser, "Only this project, by name or id (operators)")
        arguments.add_page(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        client = client_of(self)
        project = arguments.project_of(client, parsed_args)
        listed = client.list_overlays(
            parsed_args.limit, project_id=project, marker=parsed_args.marker
        )
        headers = ("ID", "Name", "Group", "Priority", "Target", "Servers")
        return columns.table(headers, map(_row, listed))


def _row(one: dict[str, Any]) -> tuple[Any, ...]:
    servers = one["servers"]
    return (
        one["id"],
        columns.flexible(one["name"]),
        columns.Cell(one["is_group"], formatters.yes_no(one["is_group"])),
        one["priority"],
        columns.Flexible(one["target"], overlay_formatters.target(one)),
        columns.Flexible([s["server_id"] for s in servers], str(len(servers))),
    )


class CreateOverlay(command.ShowOne):
    """Create an overlay: the servers of one application"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="<name>", help="Name, of one overlay in the project")
        parser.add_argument(
            "--server",
            action="append",
            default=[],
            metavar="<server>",
            help="Server of it (name or id); repeat for more",
        )
        arguments.add_project(parser, "Whose it is, by name or id (operators)")
        _add_settings(parser, parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        client, given = client_of(self), parsed_args
        project_id = arguments.project_of(client, given)
        owner = {"project_id": project_id} if project_id else {}
        servers = _server_ids(client, given.server)
        made = client.create_overlay(given.name, servers, **owner, **_settings(given))
        return columns.show(made, FIELDS)


class ShowOverlay(command.ShowOne):
    """Show an overlay: its servers, its target, and what it holds now"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_overlay(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        client = client_of(self)
        return columns.show(client.show_overlay(client.overlay_id(parsed_args.overlay)), FIELDS)


class SetOverlay(command.Command):
    """Change the name, target, priority or arbitration class of an overlay"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_overlay(parser)
        parser.add_argument("--name", metavar="<name>", help="New name")
        target = parser.add_mutually_exclusive_group()
        target.add_argument("--no-target", action="store_true", help="No target, and no unit")
        _add_settings(parser, target)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        client, given = client_of(self), parsed_args
        settings = {
            **({"target": None, "target_unit": ""} if given.no_target else {}),
            **_settings(given),
            **({"name": given.name} if given.name else {}),
        }
        if not settings:
            raise VpError(
                "Nothing to change: give --name, --target, --target-unit, --no-target, --priority "
                "or --arbitration."
            )
        client.change_overlay(client.overlay_id(given.overlay), **settings)


class DeleteOverlay(command.Command):
    """Delete overlays; what they hold is released"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("overlays", nargs="+", metavar="<overlay>", help="Overlay (name or id)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        client, asked = client_of(self), parsed_args.overlays
        failed = 0
        for overlay in asked:
            try:
                client.delete_overlay(client.overlay_id(overlay))
            except (NoSuchOverlay, AmbiguousOverlay, Refused) as exc:
                LOG.error("%s", exc)
                failed += 1
        if failed:
            raise VpError(f"{failed} of {len(asked)} overlays are not deleted.")


class AddServer(command.ShowOne):
    """Add servers of its project to an overlay"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _with_servers(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        client = client_of(self)
        overlay_id = client.overlay_id(parsed_args.overlay)
        servers = _server_ids(client, parsed_args.servers)
        return columns.show(client.add_overlay_servers(overlay_id, servers), FIELDS)


class RemoveServer(command.ShowOne):
    """Take servers out of an overlay"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _with_servers(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        client = client_of(self)
        overlay_id = client.overlay_id(parsed_args.overlay)
        for server_id in _server_ids(client, parsed_args.servers):
            client.remove_overlay_server(overlay_id, server_id)
        return columns.show(client.show_overlay(overlay_id), FIELDS)


def _with_servers(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    _add_overlay(parser)
    parser.add_argument("servers", nargs="+", metavar="<server>", help="Server (name or id)")
    return parser


class CallOverlay(command.ShowOne):
    """Call an overlay, for scripts and to try what an application would call"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_overlay(parser)
        parser.add_argument(
            "verb",
            choices=[one.value for one in Verb],
            help="tune: a little more or less of a resource; trigger: go first for a short time; "
            "borrow: whole CPUs; release: give back what was tuned, borrowed and triggered; "
            "renew: keep what was tuned and borrowed for another lease",
        )
        parser.add_argument(
            "--server",
            metavar="<server>",
            help="Server (name or id); default: all, not of tune and borrow",
        )
        parser.add_argument(
            "--resource",
            choices=[one.value for one in CallResource],
            help="Of tune; default: cpu. io: the threads that serve its network and disks",
        )
        parser.add_argument(
            "--direction", choices=[one.value for one in Direction], help="Of tune; default: up"
        )
        parser.add_argument("--cpus", type=int, metavar="<n>", help="Of borrow: how many CPUs")
        parser.add_argument(
            "--island", metavar="<island>", help="Of borrow: from which island (operators)"
        )
        parser.add_argument(
            "--lease-s", type=float, metavar="<seconds>", help="How long it stands at most"
        )
        parser.add_argument(
            "--id", metavar="<id>", help="Id of the call; repeated with it, it is carried out once"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        client, given = client_of(self), parsed_args
        names = ("verb", "resource", "direction", "cpus", "island", "lease_s", "id")
        body = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
        if given.server:
            body["server_id"] = client.server_id(given.server)
        return columns.show(
            client.call_overlay(client.overlay_id(given.overlay), body), CALL_FIELDS
        )
