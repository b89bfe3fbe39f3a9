# SPDX-License-Identifier: Apache-2.0
"""`openstack vp host …`: for operators."""

import argparse
from typing import Any

from osc_lib.command import command

from vp_client import columns, words
from vp_client.columns import Cell

FIELDS: list[columns.Field] = [
    ("name", str),
    ("mode", str),
    ("actuator", str),
    ("counters", words.counters),
    ("reported_at", str),
    ("age_s", words.age),
    ("is_stale", words.yes_no),
    ("cells", words.cells),
    ("vps", words.vps_of_host),
    ("hurt_count", str),
    ("proposals", words.proposals),
]


def _add_host(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("host", metavar="<host>", help="Name of the host, as in `vp host list`")


class ListHosts(command.Lister):
    """List hosts: mode, counters, virtual platforms, how fresh the news is"""

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        headers = ("Host", "Mode", "Counters", "Problems", "VPs", "Hurt", "Age", "Stale")
        hosts = self.app.client_manager.vp.list_hosts()
        return headers, [_row(host) for host in hosts]


def _row(host: dict[str, Any]) -> tuple[Any, ...]:
    return (
        columns.narrow(host["name"], 30),
        host["mode"],
        columns.narrow(host["counters"]["source"], 12),
        len(host["counters"]["problems"]),
        host["vps_count"],
        Cell(host["hurt_count"], "?" if host["is_stale"] else str(host["hurt_count"])),
        Cell(host["age_s"], words.age(host["age_s"])),
        Cell(host["is_stale"], words.yes_no(host["is_stale"])),
    )


class ShowHost(command.ShowOne):
    """Show a host: cells, LLC domains, virtual platforms and their states, proposals"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_host(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        return columns.show(self.app.client_manager.vp.show_host(parsed_args.host), FIELDS)


class SetHost(command.Command):
    """Say what the agent of a host may do"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_host(parser)
        parser.add_argument(
            "--mode",
            required=True,
            choices=["observe", "advise", "enforce"],
            help="observe: measure and report, what is applied stays as it is; advise: propose "
            "actions, apply those that `vp host accept` names; enforce: apply actions",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        told = self.app.client_manager.vp.set_mode(parsed_args.host, parsed_args.mode)
        self.app.stdout.write(f"{told['name']}: its agent acknowledged mode {told['mode']}\n")


class AcceptProposal(command.Command):
    """Have a host's agent apply an action that it proposed in mode advise"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_host(parser)
        parser.add_argument(
            "proposal", metavar="<proposal>", help="Id of the proposal, as in `vp host show`"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        told = self.app.client_manager.vp.accept(parsed_args.host, parsed_args.proposal)
        self.app.stdout.write(f"{parsed_args.host}: its agent will apply {told['id']}\n")
