# SPDX-License-Identifier: Apache-2.0
"""`vp-agent top`: this host's servers, live, from the running agent or, without one, by itself.

Either way a look is the report of `vp_agent/publish/report.py`, which `top_view.py` draws. What the
first look cannot do ends the command; a libvirt or an agent that goes away later is told on
the screen until it is back.
"""

import contextlib
import json
import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from oslo_config import cfg

from nova_vp.cli import live_view
from nova_vp.service.run_dir import is_agent_running
from vp_agent import wiring
from vp_agent.cli.top_view import BY_ITSELF, view
from vp_agent.drivers.base import HostUnavailable
from vp_agent.loop.control_socket import NoAgent, RunFolder, ask
from vp_agent.loop.standalone import Standalone

Report = Mapping[str, Any]
MIN_INTERVAL_S, MAX_INTERVAL_S = 0.2, 5.0
"""The core takes samples that lie farther apart for late ones."""


class NotAllowed(Exception):
    """This user may not see what there is. The message says who may."""


class Source(Protocol):
    warm_up: int
    """Looks before the one that has states: a rate needs two samples."""

    def look(self) -> Report:
        """Raises NoAgent or HostUnavailable."""


def add_arguments(parser: Any) -> None:
    parser.add_argument(
        "-f",
        "--format",
        choices=["table", "json"],
        default="table",
        help="Output format; json prints one line per update",
    )
    parser.add_argument(
        "--once", action="store_true", help="Print one table, or one line of JSON, and exit"
    )
    parser.add_argument(
        "--interval",
        type=live_view.interval_s(MIN_INTERVAL_S, MAX_INTERVAL_S),
        default=1.0,
        metavar="SECONDS",
        help=f"Seconds between updates, {MIN_INTERVAL_S:g} to {MAX_INTERVAL_S:g}; default: 1",
    )


def run(conf: cfg.ConfigOpts) -> int:
    """Raises DriverError, NoAgent, NotAllowed, NoTerminal, cfg.Error."""
    asked = conf.command
    with _source(conf) as source:
        if asked.once:
            _tell(_settled(source, asked.interval), asked.format)
        elif asked.format == "json":
            _stream(source, asked.interval)
        else:
            _watch(source, asked.interval)
    return 0


def _watch(source: Source, interval_s: float) -> None:
    from nova_vp.cli import screen  # Late: rich would stay in an agent that runs.

    look = live_view.kept(source.look, view, (NoAgent, HostUnavailable))
    logging.disable()
    screen.watch(look, interval_s)


def _stream(source: Source, interval_s: float) -> None:
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        while True:
            print(json.dumps(source.look()), flush=True)
            time.sleep(interval_s)


def _settled(source: Source, interval_s: float) -> Report:
    for _ in range(source.warm_up):
        source.look()
        time.sleep(interval_s)
    return source.look()


def _tell(report: Report, form: str) -> None:
    if form == "json":
        print(json.dumps(report))
    else:
        from nova_vp.cli import screen

        screen.print_once(view(report))


@contextlib.contextmanager
def _source(conf: cfg.ConfigOpts) -> Iterator[Source]:
    """The agent's eyes where one runs, our own where none does."""
    folder = RunFolder(conf.agent.run_directory)
    if _is_agent_running(folder):
        yield _Agents(folder)
        return
    with wiring.standalone(conf) as own:
        yield _Own(own)


def _is_agent_running(folder: RunFolder) -> bool:
    try:
        return is_agent_running(folder.path)
    except PermissionError as exc:
        raise NotAllowed(
            f"this user cannot read {folder.path}, the run directory of vp-agent: run this command "
            "as root (`sudo vp-agent top`)"
        ) from exc


class _Agents:
    """What the running agent sees."""

    warm_up = 0

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    def look(self) -> Report:
        try:
            told: Report = ask(self._folder, "status")
        except NoAgent as exc:
            if isinstance(exc.__cause__, PermissionError):
                raise NotAllowed(
                    f"vp-agent runs on this host, but only its user and root can use "
                    f"{self._folder.socket}: run this command as root (`sudo vp-agent top`)"
                ) from exc
            raise
        return {**told, "watched_by": "vp-agent"}


class _Own:
    """What this process sees."""

    def __init__(self, own: Standalone) -> None:
        self._own = own
        self.warm_up = own.warm_up

    def look(self) -> Report:
        return {**self._own.look(time.monotonic()), "watched_by": BY_ITSELF}
