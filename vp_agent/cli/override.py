# SPDX-License-Identifier: Apache-2.0
"""`vp-agent override`: overrides of one server on the host itself, without any OpenStack.

The agent's end of it is `loop.override_request`.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any

from oslo_config import cfg

from nova_vp import wire
from nova_vp.core.types.policy import Mode
from vp_agent.loop.control_socket import RunFolder, ask

AS_HOST, AS_FLAVOR = "host", "flavor"
_MODES = [mode.value for mode in Mode]
_PRIORITIES = [str(number) for number in range(wire.MAX_PRIORITY + 1)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "server", nargs="?", help="Name or UUID of the server; default: list all overrides"
    )
    parser.add_argument(
        "--mode",
        choices=[*_MODES, AS_HOST],
        help="Mode of the server; the stricter of this and the mode of the host applies. `host` "
        "removes the override",
    )
    whether = parser.add_mutually_exclusive_group()
    whether.add_argument(
        "--opt-out",
        action="store_true",
        help="Do nothing for the sake of the server. It is still restrained if it degrades others",
    )
    whether.add_argument("--opt-in", action="store_true", help="Remove the opt-out")
    parser.add_argument(
        "--exempt",
        action=argparse.BooleanOptionalAction,
        help="Never change the server, even if it degrades others, and revert all changes to it "
        "now; --no-exempt removes the exemption",
    )
    parser.add_argument(
        "--priority",
        choices=[*_PRIORITIES, AS_FLAVOR],
        metavar=f"0-{wire.MAX_PRIORITY}|{AS_FLAVOR}",
        help="Priority instead of the vp:priority of the flavor; `flavor` removes the override",
    )


def run(conf: cfg.ConfigOpts) -> int:
    asked = conf.command
    line: dict[str, Any] = {"server": asked.server} if asked.server else {}
    if asked.mode:
        line["mode"] = None if asked.mode == AS_HOST else asked.mode
    if asked.opt_out or asked.opt_in:
        line["opt_out"] = bool(asked.opt_out)
    if asked.exempt is not None:
        line["exempt"] = asked.exempt
    if asked.priority:
        line["priority"] = None if asked.priority == AS_FLAVOR else int(asked.priority)
    answer = ask(RunFolder(conf.agent.run_directory), "override", json.dumps(line))
    print("\n".join(_lines(answer)) or "no overrides")
    return 0


def _lines(rows: list[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        yield f"{row['name'] or '-'} ({row['uuid']})"
        for where, override in (("in the cloud", row["cloud"]), ("on this host", row["here"])):
            if override:
                yield f"  {where}: {', '.join(_words(override))}"


def _words(override: Mapping[str, Any]) -> Iterator[str]:
    if override.get("opt_out"):
        yield "opted out"
    if override.get("exempt"):
        yield "exempt"
    if "mode" in override:
        yield f"mode {override['mode']}"
    if "priority" in override:
        yield f"priority {override['priority']}"
