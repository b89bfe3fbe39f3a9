# SPDX-License-Identifier: Apache-2.0
"""`openstack vp set` and `unset`: what operators and tenants override of a server."""

import argparse
import logging
from typing import Any

from osc_lib.command import command

from nova_vp.wire.schema_types import LEVELS
from vp_client import arguments
from vp_client.errors import VpError
from vp_client.plugin import client_of

LOG = logging.getLogger(__name__)


class SetVp(command.Command):
    """Override the mode, opt-out, priority, exemption or latency target of a server"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        arguments.add_server(parser)
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
        overrides = {
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
        _override(self, parsed_args.server, overrides)
        if overrides.keys() & LEVELS:
            _warn_unless_critical(self, parsed_args.server)


class UnsetVp(command.Command):
    """Remove overrides of a server"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        arguments.add_server(parser)
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
        overrides = {name: value for name, value in free.items() if getattr(parsed_args, name)}
        _override(self, parsed_args.server, overrides)


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


def _override(command: command.Command, server: str, overrides: dict[str, Any]) -> None:
    if not overrides:
        raise VpError("Give at least one option; `--help` lists them.")
    if not client_of(command).change_vp(server, **overrides)["is_told"]:
        LOG.warning(
            "%s: stored, and applied when its host next reports; `openstack vp show %s` shows in "
            "is_stale whether its last report is old",
            server,
            server,
        )
