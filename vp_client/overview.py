# SPDX-License-Identifier: Apache-2.0
"""`openstack vp`: the commands of this plugin.

Without it `openstack vp` and `openstack help vp` would list whatever begins with these letters,
Neutron's commands for VPNs too.
"""

import argparse
from typing import Any

from osc_lib.command import command

from vp_client import columns
from vp_client.errors import NoSuchCommand

GROUP = "vp"


class ListCommands(command.Lister):
    """List the commands for performance isolation"""

    auth_required = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.epilog = "commands:\n" + "\n".join(f"  {name}" for name in self._names())
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        if parsed_args.words:
            raise NoSuchCommand(" ".join([GROUP, *parsed_args.words]))
        commands = {name: entry.load() for name, entry in self._entries().items()}
        rows = ((name, columns.flexible(commands[name].__doc__ or "")) for name in self._names())
        return columns.table(("Command", "Description"), rows)

    def _entries(self) -> dict[str, Any]:
        found = self.app.command_manager
        return {name: entry for name, entry in found if name.startswith(f"{GROUP} ")}

    def _names(self) -> list[str]:
        return sorted(self._entries())
