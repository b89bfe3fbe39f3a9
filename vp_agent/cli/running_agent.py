# SPDX-License-Identifier: Apache-2.0
"""Commands that ask the running agent: its status and mode, orders for one action, a recording."""

import argparse
import json

from oslo_config import cfg

from nova_vp.cloud_modes import NOT_SET
from nova_vp.core.types.policy import Mode
from vp_agent.cli.status import render, told_modes
from vp_agent.loop.control_socket import Refused, RunFolder, ask


def add_status_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="Print the full report as JSON")


def add_mode_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "mode",
        nargs="?",
        choices=[*(m.value for m in Mode), NOT_SET],
        help="Mode of this host to set; `unset`: it has none of its own; default: print the mode "
        "that holds and where it is set",
    )


def add_accept_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", help="Id of the proposal, from `vp-agent status`")


def add_reject_arguments(parser: argparse.ArgumentParser) -> None:
    add_accept_arguments(parser)
    parser.add_argument("--reason", default="", help="Why, for the history of the action")


def add_undo_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", help="Id of the action, from `vp-agent status --json` or the log")


def add_record_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("switch", choices=["on", "off"], help="Start or stop the recording")
    parser.add_argument(
        "file", nargs="?", help="Absolute path of the file to append to (with `on`)"
    )


def status(conf: cfg.ConfigOpts) -> int:
    answer = ask(RunFolder(conf.agent.run_directory), "status")
    print(json.dumps(answer, indent=2) if conf.command.json else render(answer))
    return 0


def set_mode(conf: cfg.ConfigOpts) -> int:
    folder, mode = RunFolder(conf.agent.run_directory), conf.command.mode
    if mode:
        ask(folder, "mode", mode)
        print(f"mode of this host: {mode}")
    elif answer := ask(folder, "status"):
        print("\n".join(told_modes(answer)))
    else:
        raise Refused("the agent has no sample yet: check libvirt, and see the log of vp-agent")
    return 0


def accept_action(conf: cfg.ConfigOpts) -> int:
    return _order(conf, "accept", conf.command.id, "will be applied")


def reject_action(conf: cfg.ConfigOpts) -> int:
    value = f"{conf.command.id} {conf.command.reason}".rstrip()
    return _order(conf, "reject", value, "is withdrawn")


def undo_action(conf: cfg.ConfigOpts) -> int:
    return _order(conf, "undo", conf.command.id, "will be reverted")


def _order(conf: cfg.ConfigOpts, verb: str, value: str, done: str) -> int:
    ask(RunFolder(conf.agent.run_directory), verb, value)
    print(f"{conf.command.id} {done} in the next tick; see `vp-agent status`")
    return 0


def record(conf: cfg.ConfigOpts) -> int:
    file = conf.command.file or ""
    if (conf.command.switch == "on") is not bool(file):
        raise Refused(
            "use `vp-agent record on FILE` with an absolute path, or `vp-agent record off`"
        )
    ended = ask(RunFolder(conf.agent.run_directory), "record", file)
    if file:
        print(f"recording to {file} until `vp-agent record off`")
    else:
        print(f"recording stopped; the file is {ended}" if ended else "no recording was running")
    return 0
