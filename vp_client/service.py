# SPDX-License-Identifier: Apache-2.0
"""`openstack vp health list`, `vp option list`, `vp rule list`: how the service is, what holds."""

import argparse
from typing import Any

from osc_lib.command import command

from vp_client import columns
from vp_client.plugin import client_of


class ListHealth(command.Lister):
    """List the health checks of the service, as vp-api sees it"""

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        checks = client_of(self).show_health()["checks"]
        rows = (
            (name, one["status"], columns.flexible(one["detail"]))
            for name, one in sorted(checks.items())
        )
        return columns.table(("Check", "Status", "Detail"), rows)


class ListOptions(command.Lister):
    """List the options of vp-api that decisions depend on; hosts may have others"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--changed", action="store_true", help="Only options that differ from their defaults"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        rows = (
            (
                columns.flexible(f"[{one['group']}] {one['name']}"),
                columns.Flexible(one["value"], str(one["value"])),
                columns.Flexible(one["default"], str(one["default"])),
            )
            for one in client_of(self).show_policies()["options"]
            if not parsed_args.changed or one["value"] != one["default"]
        )
        return columns.table(("Option", "Value", "Default"), rows)


class ListRules(command.Lister):
    """List the policy rules that vp-api checks requests by"""

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        rows = (
            (
                columns.flexible(one["name"]),
                columns.flexible(one["check"]),
                "yes" if one["is_default"] else "no",
            )
            for one in client_of(self).show_policies()["rules"]
        )
        return columns.table(("Rule", "Check", "Default"), rows)
