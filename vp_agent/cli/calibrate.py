# SPDX-License-Identifier: Apache-2.0
"""The command `vp-agent calibrate`: whether it may run now, what it runs, and where it is kept.

What is measured lives in `procedure`, what it means in `capacity`; `calibration_view` prints it.
"""

import json
import signal
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from oslo_config import cfg

from nova_vp.cli import new_file
from nova_vp.cli.exit_status import INTERRUPTED
from vp_agent import wiring
from vp_agent.calibration import quiet, writebacks
from vp_agent.calibration.bench import HostBench
from vp_agent.calibration.capacity import CannotCalibrate, Capacity, KnowsCapacity, modelled
from vp_agent.calibration.procedure import measured
from vp_agent.calibration.record import MEASURED, Calibration, as_json
from vp_agent.cli.calibration_view import as_table
from vp_agent.drivers.base import CountersDriver, CountersUnavailable, GuestsDriver
from vp_agent.drivers.counters_none import NoCounters
from vp_agent.loop.state import StateFolder

MAX_NAMES = 5
MOST_BUSY_CPUS, MOST_BUSY_RATIO = 0.5, 0.05
"""Beyond both of them a host is too busy: half a CPU, and this share of all."""
TABLE, JSON = "table", "json"


def add_arguments(command: ArgumentParser) -> None:
    command.add_argument(
        "-f", "--format", choices=[TABLE, JSON], default=TABLE, help="Output format"
    )
    command.add_argument(
        "--json", dest="format", action="store_const", const=JSON, help="The same as -f json"
    )
    command.add_argument(
        "--plot",
        type=new_file.picture,
        metavar="FILE",
        help="Save a picture of the curves: .png, .svg or .pdf; needs matplotlib",
    )
    command.add_argument(
        "--show", action="store_true", help="Print the stored calibration; measure nothing"
    )
    command.add_argument(
        "--force",
        action="store_true",
        help="Calibrate although servers run or CPUs are busy: it slows these servers, and they "
        "distort the result",
    )


def command(conf: cfg.ConfigOpts) -> int:
    """Raises what `run` raises, and OSError."""
    asked, state = conf.command, StateFolder(conf.agent.state_directory)
    if asked.show:
        found = _stored(state, conf.agent.state_directory)
        _print(found, asked.format)
    else:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            found = _measured_alone(conf, state)
        except KeyboardInterrupt:
            _progress("interrupted: nothing was saved. An earlier calibration is still in effect")
            return INTERRUPTED
    if asked.plot:
        from vp_agent.cli.calibration_plot import plot  # Late: few hosts have matplotlib.

        plot(asked.plot, found)
    return 0


def _stored(state: StateFolder, folder: str) -> Calibration:
    found = state.calibration()
    if found is None and state.has_calibration():
        raise CannotCalibrate(
            f"{Path(folder, 'limits.json')} cannot be read: run `vp-agent calibrate` without "
            "--show, which replaces it"
        )
    if found is None:
        raise CannotCalibrate("nothing is stored yet: run `vp-agent calibrate` without --show")
    return found


def _measured_alone(conf: cfg.ConfigOpts, state: StateFolder) -> Calibration:
    """Two at once would measure each other."""
    with state.alone() as is_alone:
        if not is_alone:
            raise CannotCalibrate(
                "another calibration of this host is under way: wait until it ends, then use "
                "--show, or calibrate again"
            )
        state.check_writable()  # Before minutes of measuring, not after.
        found = _of_host(conf)
        _keep(found, state, conf)
    return found


def _of_host(conf: cfg.ConfigOpts) -> Calibration:
    side = wiring.libvirt_side(conf, undoes_only=True)
    try:
        source = wiring.counters(conf, side.connection).driver
    except CountersUnavailable:
        source = NoCounters("")
    try:
        return run(source, side.guests, tell=_progress, is_forced=conf.command.force)
    finally:
        source.close()
        side.close()


def _keep(found: Calibration, state: StateFolder, conf: cfg.ConfigOpts) -> None:
    """Where the disk refuses, the figures are at least printed."""
    try:
        state.set_calibration(found)
    finally:
        _print(found, conf.command.format)
    _progress(
        f"saved in {conf.agent.state_directory}. A running agent uses it after a reload (SIGHUP: "
        "`systemctl reload vp-agent`). A reload reverts nothing"
    )


def _print(found: Calibration, format_name: str) -> None:
    print(json.dumps(as_json(found)) if format_name == JSON else as_table(found))


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def run(
    source: CountersDriver,
    guests: GuestsDriver,
    tell: Callable[[str], None],
    is_forced: bool,
    busy_cpus: Callable[[], float] = quiet.busy_cpus,
) -> Calibration:
    """Raises CannotCalibrate, BenchFailed, HostUnavailable."""
    if isinstance(source, KnowsCapacity):
        return _recorded(modelled(source), source.name)
    topology = guests.topology()
    if not is_forced:
        _check_no_servers(guests)
        _check_quiet(busy_cpus(), len(topology.cpus))
    with closing(writebacks.find()) as counter:
        bench = HostBench(binds=len(topology.nodes) > 1, counter=counter)
        return _recorded(measured(bench, topology, time.monotonic, tell), MEASURED)


def _check_no_servers(guests: GuestsDriver) -> None:
    running = [guest.name or guest.domain_name for guest in guests.read() if guest.is_running]
    if running:
        names = ", ".join(running[:MAX_NAMES]) + (" ..." if len(running) > MAX_NAMES else "")
        raise CannotCalibrate(
            f"{len(running)} servers run on this host ({names}). Calibration loads all memory "
            "controllers for up to three minutes: it slows these servers, and they distort the "
            "result. Calibrate an empty host, or use --force"
        )


def _check_quiet(busy: float, cpus: int) -> None:
    if busy > max(MOST_BUSY_CPUS, MOST_BUSY_RATIO * cpus):
        raise CannotCalibrate(
            f"other programs use {busy:.1f} of the {cpus} CPUs of this host: they would distort "
            "the result. Find them with `top` and stop them, or use --force"
        )


def _recorded(capacity: Capacity, how: str) -> Calibration:
    return Calibration(capacity.limits, time.time(), how, capacity.writebacks, capacity.notes)
