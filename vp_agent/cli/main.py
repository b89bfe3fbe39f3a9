# SPDX-License-Identifier: Apache-2.0
"""`vp-agent`: the command line. Parses, calls, and says what to do next when a command cannot."""

import argparse
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from oslo_config import cfg
from oslo_log import log

from nova_vp import conf as options
from nova_vp.cli.exit_status import quietly
from nova_vp.cli.live_view import NoTerminal
from nova_vp.recording.file_format import NotARecording
from vp_agent import wiring
from vp_agent.calibration.capacity import CannotCalibrate
from vp_agent.cli import (
    calibrate,
    check,
    explain,
    learn_cpi,
    override,
    release,
    run,
    running_agent,
    top,
)
from vp_agent.cpi_threshold import NoLibrary, TooFewSamples
from vp_agent.drivers.base import DriverError
from vp_agent.loop.control_socket import AlreadyRunning, NoAgent, Refused

_TOLD = (
    AlreadyRunning,
    CannotCalibrate,
    DriverError,
    NoAgent,
    NoLibrary,
    NoTerminal,
    Refused,
    NotARecording,
    TooFewSamples,
    explain.UnknownServer,
    learn_cpi.NothingToLearn,
    top.NotAllowed,
    wiring.UnknownActuator,
)
"""What ends a command with its message alone."""


class Command(NamedTuple):
    call: Callable[[cfg.ConfigOpts], int]
    add_arguments: Callable[[argparse.ArgumentParser], None]
    help: str


COMMANDS = {
    "run": Command(
        run.run,
        run.add_arguments,
        "Run the agent until it is stopped, then revert all its changes",
    ),
    "check": Command(
        check.run, check.add_arguments, "List what this host lacks, and how to correct it"
    ),
    "status": Command(
        running_agent.status,
        running_agent.add_status_arguments,
        "Show the servers of this host with states, actions and proposals",
    ),
    "explain": Command(
        explain.run,
        explain.add_arguments,
        "Explain a server: measurements, state, aggressors, actions and next steps",
    ),
    "top": Command(
        top.run, top.add_arguments, "Show the servers of this host live; works without an agent"
    ),
    "mode": Command(
        running_agent.set_mode,
        running_agent.add_mode_arguments,
        "Show or set the mode of the running agent; stored across restarts",
    ),
    "accept": Command(
        running_agent.accept_action,
        running_agent.add_accept_arguments,
        "Accept a proposed action (mode advise)",
    ),
    "reject": Command(
        running_agent.reject_action,
        running_agent.add_reject_arguments,
        "Reject a proposed action, so that it is not proposed for a time",
    ),
    "undo": Command(
        running_agent.undo_action,
        running_agent.add_undo_arguments,
        "Revert an action, in any mode, and do not repeat it for 15 minutes",
    ),
    "override": Command(
        override.run,
        override.add_arguments,
        "Show or set overrides of a server: mode, opt-out, priority",
    ),
    "record": Command(
        running_agent.record,
        running_agent.add_record_arguments,
        "Record samples and decisions to a file for `vp-sim replay`",
    ),
    "learn-cpi": Command(
        learn_cpi.run,
        learn_cpi.add_arguments,
        "Learn the CPI threshold of latency-critical servers from a recording",
    ),
    "calibrate": Command(
        calibrate.command,
        calibrate.add_arguments,
        "Measure how latency grows with load, for memory controllers and links, and their "
        "limits, in up to three minutes",
    ),
    "release": Command(
        release.command,
        release.add_arguments,
        "Restore the values that Nova set, on all servers of this host",
    ),
}
_DESPITE_WRONG_FILES = frozenset(
    {"status", "mode", "accept", "reject", "undo", "record", "override", "release"}
)
"""A wrong file keeps nobody from asking the running agent, which read another one, nor from undoing
what an agent left that it keeps from starting."""


def main() -> int:
    conf = cfg.CONF  # oslo.messaging registers some of its options on this one only.
    log.register_options(conf)
    options.register_all(conf)
    conf.register_cli_opt(cfg.SubCommandOpt("command", title="commands", handler=_add_commands))
    try:
        _configure(conf, sys.argv[1:])
        if conf.command.name != "run":  # Of commands, standard output is their results.
            conf.set_default("use_stderr", True)
        log.setup(conf, "nova-vp")
        return quietly(lambda: COMMANDS[conf.command.name].call(conf))
    except _TOLD as exc:
        print(f"vp-agent: {exc}", file=sys.stderr)
    except cfg.Error as exc:
        print(f"vp-agent: configuration: {exc}", file=sys.stderr)
    except OSError as exc:
        print(f"vp-agent: {exc}; see [agent] state_directory and run_directory", file=sys.stderr)
    return 1


def _configure(conf: cfg.ConfigOpts, argv: list[str]) -> None:
    """Raises cfg.Error."""
    try:
        options.read(conf, argv, "vp-agent")
    except cfg.Error as exc:
        options.read_command_line(conf, argv, "vp-agent")
        _go_on_after(conf, exc)
    if conf.command.name != "check":  # Which lists all that is wrong.
        try:
            options.check(conf)
        except cfg.Error as exc:
            _go_on_after(conf, exc)


def _go_on_after(conf: cfg.ConfigOpts, fault: cfg.Error) -> None:
    """Raises cfg.Error."""
    if conf.command.name not in _DESPITE_WRONG_FILES:
        raise fault
    print(f"vp-agent: configuration: {fault}; going on", file=sys.stderr)


def _add_commands(parsers: Any) -> None:
    for name, command in COMMANDS.items():
        parser = parsers.add_parser(name, help=command.help, description=command.help)
        command.add_arguments(parser)


if __name__ == "__main__":
    sys.exit(main())
