# SPDX-License-Identifier: Apache-2.0
"""`openstack vp profile …`: what servers of a flavor and image usually do, as hosts saw them."""

import argparse
from typing import Any

from osc_lib.command import command

from vp_client import arguments, columns, formatters
from vp_client.errors import SeveralImages
from vp_client.plugin import client_of

FIELDS: list[columns.Field] = [
    ("id", str),
    ("flavor", formatters.wrap),
    ("image", formatters.or_none),
    ("projects_count", str),
    ("vps_count", str),
    ("vp_class", formatters.vp_class),
    ("classes", formatters.classes),
]


class ListProfiles(command.Lister):
    """List the usual state of servers by flavor and image"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--flavor", metavar="<flavor>", help="Only profiles of this flavor")
        arguments.add_page(parser, "flavor")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        told = client_of(self).list_profiles(
            parsed_args.limit,
            flavor=parsed_args.flavor,
            sort=parsed_args.sort,
            marker=parsed_args.marker,
        )
        servers = columns.heading(parsed_args, "Servers", "VPs")
        state = columns.heading(parsed_args, "Usual state", "Usually")
        return columns.table(("Flavor", "Image", servers, "Projects", state, "ID"), map(_row, told))


def _row(one: dict[str, Any]) -> tuple[Any, ...]:
    return (
        columns.flexible(one["flavor"]),
        one["image"],
        one["vps_count"],
        one["projects_count"],
        columns.Cell(one["vp_class"], formatters.vp_class(one["vp_class"])),
        columns.flexible(one["id"]),
    )


class ShowProfile(command.ShowOne):
    """Show a profile: how many servers of a flavor and image are in each state when undisturbed"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "profile",
            metavar="<profile>",
            help="Flavor name, or profile id from `openstack vp profile list`",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        client = client_of(self)
        found = client.list_profiles(flavor=parsed_args.profile)
        if len(found) > 1:
            raise SeveralImages(parsed_args.profile, [one["id"] for one in found])
        return columns.show(found[0] if found else client.show_profile(parsed_args.profile), FIELDS)
