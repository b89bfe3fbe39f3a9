# SPDX-License-Identifier: Apache-2.0
"""The command line of the machine with real systemd: parses, locks, calls, explains failures."""

import argparse
import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from testbed.lab.errors import LabError
from testbed.machine import machine, settings
from testbed.machine.settings import Place

LOCK = settings.CACHE / "lock"


@contextmanager
def locked() -> Iterator[None]:
    """One command at a time; the kernel frees the lock of a killed one."""
    settings.CACHE.mkdir(parents=True, exist_ok=True)
    with LOCK.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def up(arguments: argparse.Namespace) -> int:
    with locked():
        began_s = time.monotonic()
        neighbour = Place(arguments.beside) if arguments.beside else None
        if machine.up(Place(arguments.name), arguments.debian, neighbour):
            print(f"machine: up after {time.monotonic() - began_s:.1f} s")
        else:
            print("machine: was up already")
    return 0


def down(arguments: argparse.Namespace) -> int:
    with locked():
        was_up = machine.down(Place(arguments.name))
    print("machine: down" if was_up else "machine: was down already")
    return 0


def shell(arguments: argparse.Namespace) -> int:
    argv = machine.enter(Place(arguments.name), arguments.command or ["bash", "-l"])
    os.execvp(argv[0], argv)


def main() -> int:
    parser = argparse.ArgumentParser(prog="machine", description=__doc__)
    parser.add_argument(
        "--name", default=settings.DEFAULT_NAME, help="Which machine: its host name, for several"
    )
    commands = parser.add_subparsers(required=True)
    started = commands.add_parser("up", help="Start the machine, unless it is up")
    started.add_argument(
        "--debian", choices=settings.SUITES, default=next(iter(settings.SUITES)), help="Release"
    )
    started.add_argument("--beside", metavar="NAME", help="Share the network of this machine")
    started.set_defaults(call=up)
    entered = commands.add_parser("shell", help="Run a command in it as root; a shell without one")
    entered.add_argument("command", nargs=argparse.REMAINDER)
    entered.set_defaults(call=shell)
    ended = commands.add_parser("down", help="End the machine; nothing of it is left")
    ended.set_defaults(call=down)
    arguments = parser.parse_args()
    try:
        return int(arguments.call(arguments))
    except LabError as exc:
        print(f"machine: {exc.explain()}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
