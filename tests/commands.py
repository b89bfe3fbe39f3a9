# SPDX-License-Identifier: Apache-2.0
"""The parsers of our commands, and of those of `openstack` that deployers are told to type."""

import argparse
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from nova_vp.cmd import manage
from vp_agent.cli import main as agent
from vp_sim import cli as sim

GROUPS = (
    "openstack.vp.v1",
    "openstack.identity.v3",
    "openstack.compute.v2",
    "openstack.common",
    "openstack.placement.v1",
)
COMMANDS: dict[str, EntryPoint] = {
    point.name: point for group in GROUPS for point in entry_points(group=group)
}


def with_commands(add: Callable[[Any], None]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add(parser.add_subparsers(required=True))
    return parser


OURS = {
    "vp-agent": with_commands(agent._add_commands),
    "vp-manage": with_commands(manage._add_commands),
    "vp-sim": sim._parser(),
}


def of_openstack(words: list[str]) -> tuple[argparse.ArgumentParser, list[str]]:
    """The parser of the longest command that they begin with, and what remains of them."""
    for length in range(len(words), 0, -1):
        name = "_".join(words[:length])
        if name in COMMANDS:
            command = COMMANDS[name].load()(argparse.Namespace(), None)
            return command.get_parser(name), words[length:]
    raise AssertionError(f"no such command: openstack {' '.join(words)}")
