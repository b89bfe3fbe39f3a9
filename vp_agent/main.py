# SPDX-License-Identifier: Apache-2.0
"""`vp-agent`: the command line. Parses, wires, runs, and says what to do next when it cannot."""

import json
import logging
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_log import log
from oslo_service import backend

from nova_vp import conf as options
from nova_vp import wire
from nova_vp.core.model import Mode
from vp_agent import wiring
from vp_agent.drivers.base import CountersDriver, CountersUnavailable, DriverError
from vp_agent.drivers.connection import Connection
from vp_agent.drivers.counters import AUTO
from vp_agent.drivers.counters_none import NoCounters
from vp_agent.hands import Hands
from vp_agent.local import AlreadyRunning, NoAgent, Refused, RunFolder, Server, ask
from vp_agent.release import Release, Released
from vp_agent.report import report
from vp_agent.state import StateFolder
from vp_agent.status import render

LOG = logging.getLogger(__name__)


def main() -> int:
    conf = cfg.CONF  # oslo.messaging registers some of its options on this one only.
    log.register_options(conf)
    options.register_all(conf)
    conf.register_cli_opt(cfg.SubCommandOpt("command", title="commands", handler=_add_commands))
    try:
        conf(project="nova-vp", prog="vp-agent")
        options.check(conf)
        log.setup(conf, "nova-vp")
        return int(conf.command.call(conf))
    except (AlreadyRunning, NoAgent, Refused, DriverError, wiring.UnknownActuator) as exc:
        print(f"vp-agent: {exc}", file=sys.stderr)
    except cfg.Error as exc:
        print(f"vp-agent: configuration: {exc}", file=sys.stderr)
    except OSError as exc:
        print(f"vp-agent: {exc}; see [agent] state_directory and run_directory", file=sys.stderr)
    return 1


def _add_commands(commands: Any) -> None:
    def command(name: str, call: Callable[[cfg.ConfigOpts], int], text: str) -> Any:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(call=call)
        return added

    command("run", run, "sample, decide, act and publish until stopped; then undo everything")
    shown = command("status", status, "what the running agent sees and did")
    shown.add_argument("--json", action="store_true", help="the full report as JSON")
    mode = command("mode", set_mode, "what the running agent may do; remembered")
    mode.add_argument("mode", choices=[m.value for m in Mode])
    accept = command("accept", accept_action, "apply a proposal (mode advise)")
    accept.add_argument("id", help="the proposal's id, from `vp-agent status`")
    undo = command("release", release_all, "give every guest back to the values Nova gave it")
    undo.add_argument(
        "--expired",
        action="store_true",
        help="only what no living agent holds: for a systemd timer and OnFailure=",
    )


def run(conf: cfg.ConfigOpts) -> int:
    # Before oslo.messaging imports oslo.service's default, which is eventlet.
    backend.init_backend(backend.BackendType.THREADING)
    # Late: it brings oslo.messaging, which the commands that only ask do without.
    from vp_agent.drivers.command_server import CommandServer

    folder = RunFolder(conf.agent.run_directory)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with folder.locked():
        side = wiring.libvirt_side(conf)
        source = _counters(conf, side.connection)
        built = wiring.build(conf, side, source, StateFolder(conf.agent.state_directory))
        server = Server(folder, built.control, lambda: _status(built))
        bus = CommandServer(conf, wiring.host_name(conf), built.control, built.publisher.republish)
        bus.start()
        LOG.info("running: mode=%s counters=%s", built.control.orders().mode.value, source.name)
        is_all_back = built.agent.run(stop, conf.agent.interval_s, folder.beat)
        for part in (server, bus, built.publisher, source, side):
            part.close()
    if is_all_back:
        LOG.info("stopped: every guest is back at its own values")
        return 0
    LOG.error("stopped, but not every guest is back: run `vp-agent release` once libvirt answers")
    return 1


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
        LOG.info("not used: %s", line)
    return opened.driver


def _status(built: wiring.Built) -> dict[str, Any]:
    decision = built.control.last()
    if decision is None:
        return {}
    return report(decision, built.facts(), wire.Order(0, 0))


def status(conf: cfg.ConfigOpts) -> int:
    answer = ask(RunFolder(conf.agent.run_directory), "status")
    print(json.dumps(answer, indent=2) if conf.command.json else render(answer))
    return 0


def set_mode(conf: cfg.ConfigOpts) -> int:
    ask(RunFolder(conf.agent.run_directory), "mode", conf.command.mode)
    print(f"mode {conf.command.mode}")
    return 0


def accept_action(conf: cfg.ConfigOpts) -> int:
    ask(RunFolder(conf.agent.run_directory), "accept", conf.command.id)
    print(f"{conf.command.id} is applied with the next tick; see `vp-agent status`")
    return 0


def release_all(conf: cfg.ConfigOpts) -> int:
    side = wiring.libvirt_side(conf)
    state = StateFolder(conf.agent.state_directory)
    hands = Hands(side.journal, side.actuator, epoch=0)
    folder = RunFolder(conf.agent.run_directory)
    undo = Release(folder, side.guests, side.journal, hands, state.last_epoch())
    done = undo.expired() if conf.command.expired else undo.everything()
    side.close()
    return _tell(done)


def _tell(done: Released) -> int:
    if done.note:
        print(done.note)
    for uuid in done.restored:
        print(f"restored {uuid}")
    for uuid in done.failed:
        print(f"NOT restored {uuid}: see the log; run this again", file=sys.stderr)
    if not (done.restored or done.failed or done.note):
        print("nothing to undo")
    return 1 if done.failed else 0


if __name__ == "__main__":
    sys.exit(main())
