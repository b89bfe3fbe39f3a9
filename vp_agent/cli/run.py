# SPDX-License-Identifier: Apache-2.0
"""`vp-agent run`: the agent from its first tick to its last, with all that listens beside it."""

import argparse
import logging
import signal
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from oslo_config import cfg
from oslo_service import backend

from nova_vp import conf as options
from nova_vp import wire
from nova_vp.service import lifecycle
from nova_vp.service.lifecycle import Reloader
from nova_vp.service.sd_notify import READY, STOPPING, WATCHDOG, notify
from vp_agent import wiring
from vp_agent.cli.status import GRANTED
from vp_agent.drivers.base import CountersDriver, CountersUnavailable
from vp_agent.drivers.connection import Connection
from vp_agent.drivers.counters import AUTO
from vp_agent.drivers.counters_none import NoCounters
from vp_agent.loop.control_socket import RunFolder, Server
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lifeline",
        action="store_true",
        help="Stop also when standard input closes, that is when the parent process ends",
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
