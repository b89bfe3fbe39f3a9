# SPDX-License-Identifier: Apache-2.0
"""`vp-agent`: the command line. Parses, wires, runs, and says what to do next when it cannot."""

import json
import logging
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from oslo_config import cfg
from oslo_log import log
from oslo_service import backend

from nova_vp import conf as options
from nova_vp import wire
from nova_vp.cli.exit_status import quietly
from nova_vp.cli.live_view import NoTerminal
from nova_vp.cloud_modes import NOT_SET
from nova_vp.core.types.policy import Mode
from nova_vp.recording.file_format import NotARecording
from nova_vp.service import lifecycle
from nova_vp.service.lifecycle import Reloader
from nova_vp.service.sd_notify import READY, STOPPING, WATCHDOG, notify
from vp_agent import wiring
from vp_agent.calibration.capacity import CannotCalibrate
from vp_agent.cli import calibrate, check, explain, learn_cpi, override, top
from vp_agent.cli.release import Release, Released
from vp_agent.cli.status import GRANTED, render, told_modes
from vp_agent.cpi_threshold import NoLibrary, TooFewSamples
from vp_agent.drivers.base import CountersDriver, CountersUnavailable, DriverError
from vp_agent.drivers.connection import Connection
from vp_agent.drivers.counters import AUTO
from vp_agent.drivers.counters_none import NoCounters
from vp_agent.loop.control_socket import AlreadyRunning, NoAgent, Refused, RunFolder, Server, ask
from vp_agent.loop.executor import Executor
from vp_agent.loop.overlay_socket import OverlaySocket
from vp_agent.loop.parent_watch import stop_with_parent
from vp_agent.loop.recorder import CannotRecord, Recorder
from vp_agent.loop.repeated_fault import RepeatedFault
from vp_agent.loop.state import StateFolder
from vp_agent.loop.stop import Stop
from vp_agent.loop.told_facts import ToldFacts
from vp_agent.publish.membw_file import MembwFile
from vp_agent.publish.report import report

if TYPE_CHECKING:
    from nova_vp.service.metrics_server import MetricsServer
    from vp_agent.loop.command_server import CommandServer
    from vp_agent.publish.metrics import Tally

LOG = logging.getLogger(__name__)
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


def main() -> int:
    conf = cfg.CONF  # oslo.messaging registers some of its options on this one only.
    log.register_options(conf)
    options.register_all(conf)
    conf.register_cli_opt(cfg.SubCommandOpt("command", title="commands", handler=_add_commands))
    try:
        _configure(conf, sys.argv[1:])
        if conf.command.call is not run:  # Of commands, standard output is their results.
            conf.set_default("use_stderr", True)
        log.setup(conf, "nova-vp")
        return quietly(lambda: int(conf.command.call(conf)))
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
    if conf.command.call is not check.run:  # Which lists all that is wrong.
        try:
            options.check(conf)
        except cfg.Error as exc:
            _go_on_after(conf, exc)


def _go_on_after(conf: cfg.ConfigOpts, fault: cfg.Error) -> None:
    """A wrong file keeps nobody from asking the running agent, which read another one, nor from
    undoing what an agent left that it keeps from starting. Raises cfg.Error for other commands."""
    ask_or_undo = (
        status,
        set_mode,
        accept_action,
        reject_action,
        undo_action,
        record,
        override.run,
    )
    if conf.command.call not in (*ask_or_undo, release_all):
        raise fault
    print(f"vp-agent: configuration: {fault}; going on", file=sys.stderr)


def _add_commands(commands: Any) -> None:
    def command(name: str, call: Callable[[cfg.ConfigOpts], int], text: str) -> Any:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(call=call)
        return added

    started = command("run", run, "Run the agent until it is stopped, then revert all its changes")
    started.add_argument(
        "--lifeline",
        action="store_true",
        help="Stop also when standard input closes, that is when the parent process ends",
    )
    check.add_arguments(
        command("check", check.run, "List what this host lacks, and how to correct it")
    )
    shown = command(
        "status", status, "Show the servers of this host with states, actions and proposals"
    )
    shown.add_argument("--json", action="store_true", help="Print the full report as JSON")
    explain.add_arguments(
        command(
            "explain",
            explain.run,
            "Explain a server: measurements, state, aggressors, actions and next steps",
        )
    )
    top.add_arguments(
        command("top", top.run, "Show the servers of this host live; works without an agent")
    )
    mode = command(
        "mode", set_mode, "Show or set the mode of the running agent; stored across restarts"
    )
    mode.add_argument(
        "mode",
        nargs="?",
        choices=[*(m.value for m in Mode), NOT_SET],
        help="Mode of this host to set; `unset`: it has none of its own; default: print the mode "
        "that holds and where it is set",
    )
    accept = command("accept", accept_action, "Accept a proposed action (mode advise)")
    accept.add_argument("id", help="Id of the proposal, from `vp-agent status`")
    rejected = command(
        "reject", reject_action, "Reject a proposed action, so that it is not proposed for a time"
    )
    rejected.add_argument("id", help="Id of the proposal, from `vp-agent status`")
    rejected.add_argument("--reason", default="", help="Why, for the history of the action")
    undone = command(
        "undo", undo_action, "Revert an action, in any mode, and do not repeat it for 15 minutes"
    )
    undone.add_argument("id", help="Id of the action, from `vp-agent status --json` or the log")
    override.add_arguments(
        command(
            "override", override.run, "Show or set overrides of a server: mode, opt-out, priority"
        )
    )
    taped = command("record", record, "Record samples and decisions to a file for `vp-sim replay`")
    taped.add_argument("switch", choices=["on", "off"], help="Start or stop the recording")
    taped.add_argument("file", nargs="?", help="Absolute path of the file to append to (with `on`)")
    learn_cpi.add_arguments(
        command(
            "learn-cpi",
            learn_cpi.run,
            "Learn the CPI threshold of latency-critical servers from a recording",
        )
    )
    calibrate.add_arguments(
        command(
            "calibrate",
            calibrate.command,
            "Measure how latency grows with load, for memory controllers and links, and their "
            "limits, in up to three minutes",
        )
    )
    undo = command(
        "release", release_all, "Restore the values that Nova set, on all servers of this host"
    )
    undo.add_argument(
        "--expired",
        action="store_true",
        help="Restore only what no running agent holds; for a systemd timer and OnFailure=",
    )


def run(conf: cfg.ConfigOpts) -> int:
    # Before oslo.messaging imports oslo.service's default, which is eventlet.
    backend.init_backend(backend.BackendType.THREADING)
    # Late: it brings oslo.messaging, which the commands that only ask do without.
    from vp_agent.loop.command_server import CommandServer

    folder = RunFolder(conf.agent.run_directory)
    stop = Stop()
    calls = _listen(conf, stop)
    with folder.locked():
        state, tally = StateFolder(conf.agent.state_directory), _tally(conf)
        facts = ToldFacts(state)
        side = wiring.libvirt_side(conf, facts=facts)
        source = _counters(conf, side.connection)
        built = wiring.build(conf, side, source, state, facts, tally)
        server = Server(folder, built.control, lambda: _status(built), built.recorder.order)
        bus = CommandServer(
            wiring.bus_identity(conf),
            built.control,
            built.publisher,
            built.migrations,
            facts,
            built.control,
        )
        monitors = OverlaySocket(folder.path, built.monitor_calls.answer)
        stop.tell(built.control.calls.wake)
        bus.start()
        built.latency.start()
        built.monitors.start()
        served = _serve(conf, built, tally, bus)
        calls[signal.SIGHUP] = Reloader(conf, lambda: built.apply_config(conf, state)).reload
        _record_from_start(conf.agent.record_file, built.recorder)
        load, faults = MembwFile(folder.path, source.name), RepeatedFault(folder.path)
        _announce(conf, built, source.name)

        def live() -> None:
            folder.beat()
            notify(READY, WATCHDOG)

        def beat() -> None:
            live()
            faults.ticked()
            load.tell(built.control.last())

        def end() -> None:
            # The watchdog would end it while memory is on its way back.
            notify(STOPPING)

        with faults.counted():
            faults.wait_out(stop, live)
            is_all_back = built.agent.run(stop, conf.agent.interval_s, beat, end)
        load.forget()
        built.latency.close()
        built.monitors.close()
        parts = (built.publisher, built.escalator, built.usage, built.recorder)
        for part in (server, monitors, bus, *parts, built.calls_elsewhere, source, side):
            part.close()
        if served:
            served.close()
    if is_all_back:
        LOG.info("stopped: all servers have their original values")
        return 0
    LOG.error(
        "stopped, but some servers are not restored: run `vp-agent release` once libvirt answers"
    )
    return 1


def _listen(
    conf: cfg.ConfigOpts, stop: threading.Event
) -> dict[signal.Signals, Callable[[], None]]:
    """What is called for which signal; may be changed."""
    calls = {
        signal.SIGTERM: stop.set,
        signal.SIGINT: stop.set,
        signal.SIGHUP: lambda: None,  # What the files say has only just been read.
    }
    lifecycle.listen(calls)
    if conf.command.lifeline:
        stop_with_parent(stop)
    return calls


def _tally(conf: cfg.ConfigOpts) -> "Tally | None":
    if not conf.agent.metrics_port:
        return None
    from vp_agent.publish.metrics import (
        Tally,  # Late: memory that an agent which serves none saves.
    )

    return Tally()


def _serve(
    conf: cfg.ConfigOpts, built: wiring.Built, tally: "Tally | None", bus: "CommandServer"
) -> "MetricsServer | None":
    if tally is None:
        return None
    from vp_agent.publish.serving import serve

    return serve(conf, built, tally, lambda: bus.is_listening)


def _counters(conf: cfg.ConfigOpts, connection: Connection) -> CountersDriver:
    """With `auto` the agent runs on a host without counters too, and says so; nothing is done."""
    try:
        opened = wiring.counters(conf, connection)
    except CountersUnavailable as exc:
        if conf.agent.counters != AUTO:
            raise
        LOG.warning("%s", exc)
        return NoCounters(str(exc))
    for line in opened.passed_over:
        LOG.info("counter source not used: %s", line)
    return opened.driver


def _announce(conf: cfg.ConfigOpts, built: wiring.Built, counters: str) -> None:
    mode = built.control.commanded().mode.value
    LOG.info("running: mode=%s counters=%s; %s", mode, counters, options.origin(conf))


def _record_from_start(file: str, recorder: Recorder) -> None:
    """An agent that cannot record is still worth running."""
    if file:
        try:
            recorder.start(file)
        except CannotRecord as exc:
            LOG.error("[agent] record_file: %s; see `vp-agent record`", exc)


def _status(built: wiring.Built) -> dict[str, Any]:
    decision = built.control.last()
    if decision is None:
        return {}
    told = report(decision, built.host_info(), wire.MessageVersion(0, 0))
    totals = built.control.calls.totals()
    return {
        **told,
        "facts": built.facts.as_status(),
        "limits": asdict(built.agent.limits),
        "calls": {nack.value if nack else GRANTED: n for nack, n in totals.items()},
        "recording": asdict(built.recorder.state()),
    }


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
    ask(RunFolder(conf.agent.run_directory), "accept", conf.command.id)
    print(f"{conf.command.id} will be applied in the next tick; see `vp-agent status`")
    return 0


def reject_action(conf: cfg.ConfigOpts) -> int:
    value = f"{conf.command.id} {conf.command.reason}".rstrip()
    ask(RunFolder(conf.agent.run_directory), "reject", value)
    print(f"{conf.command.id} is withdrawn in the next tick; see `vp-agent status`")
    return 0


def undo_action(conf: cfg.ConfigOpts) -> int:
    ask(RunFolder(conf.agent.run_directory), "undo", conf.command.id)
    print(f"{conf.command.id} will be reverted in the next tick; see `vp-agent status`")
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


def release_all(conf: cfg.ConfigOpts) -> int:
    # Whatever the host cannot do any more must not keep the rest from going back.
    side = wiring.libvirt_side(conf, undoes_only=True)
    state = StateFolder(conf.agent.state_directory)
    executor = Executor(side.journal, side.actuators, epoch=0)
    folder = RunFolder(conf.agent.run_directory)
    undo = Release(folder, side.guests, side.journal, executor, state.epochs())
    done = undo.expired() if conf.command.expired else undo.everything()
    side.close()
    return _tell(done)


def _tell(done: Released) -> int:
    if done.note:
        print(done.note)
    for uuid in done.restored:
        print(f"restored {uuid}")
    for uuid in done.failed:
        print(f"not restored {uuid}: see the log, then run this command again", file=sys.stderr)
    if not (done.restored or done.failed or done.note):
        print("nothing to restore")
    return 1 if done.failed else 0


if __name__ == "__main__":
    sys.exit(main())
