# SPDX-License-Identifier: Apache-2.0
"""The command line of the NUMA lab: parses, locks, calls, explains failures."""

import argparse
import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from testbed.lab.errors import LabError
from testbed.numa import channel, machine, settings

LOCK = settings.CACHE / "lock"


@contextmanager
def locked(command: str, wait_s: float = 0.0) -> Iterator[None]:
    """One command at a time; the kernel frees the lock of a killed one."""
    settings.CACHE.mkdir(parents=True, exist_ok=True)
    end_s = time.monotonic() + wait_s
    with LOCK.open("a+") as file:
        while not _has_locked(file):
            if time.monotonic() > end_s:
                file.seek(0)
                raise LabError(
                    f"another command is at work ({file.read().strip() or 'starting'}); wait for "
                    "it (run --wait), or end the machine under it with `numa-lab down`"
                )
            time.sleep(0.2)
        file.truncate(0)
        file.write(f"`numa-lab {command}`, pid {os.getpid()}")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def _has_locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def boot(*, dies_with_caller: bool) -> channel.Channel:
    machine.build()
    began_s = time.monotonic()
    try:
        machine.start(dies_with_caller=dies_with_caller)
        line = channel.Channel()
        line.wait_until_ready(settings.BOOT_DEADLINE_S)
    except BaseException:
        machine.end()
        raise
    print(f"numa-lab: up after {time.monotonic() - began_s:.1f} s", file=sys.stderr)
    return line


def up(_: argparse.Namespace) -> int:
    with locked("up"):
        if machine.find_pid() is None:
            boot(dies_with_caller=False).close()
    return 0


def down(_: argparse.Namespace) -> int:
    """Needs no lock: it is what ends a command that hangs."""
    print("numa-lab: down" if machine.end() else "numa-lab: was down already", file=sys.stderr)
    return 0


def run(arguments: argparse.Namespace) -> int:
    with locked("run " + " ".join(arguments.command), arguments.wait):
        is_ours = machine.find_pid() is None
        try:
            line = boot(dies_with_caller=True) if is_ours else channel.Channel()
            return line.run(arguments.command, arguments.timeout)
        finally:
            if is_ours:
                machine.end()
            else:
                line.close()


def shell(_: argparse.Namespace) -> int:
    channel.shell()
    return 0


def status(_: argparse.Namespace) -> int:
    pid = machine.find_pid()
    print(f"up, QEMU is pid {pid}" if pid else "down")
    return 0 if pid else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="numa-lab", description="An emulated machine with four NUMA nodes and cgroup v2."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, call, text in (
        ("up", up, "boot the machine and leave it running"),
        ("down", down, "end it at once, whatever runs in it"),
        ("shell", shell, "a root shell in it"),
        ("status", status, "whether it runs (exit status 1 if not)"),
        ("run", run, "run a command in it, in this checkout; boots and ends it if it is down"),
    ):
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(call=call)
    deadline_s = settings.COMMAND_DEADLINE_S
    text = f"end the command after so long (default {deadline_s:.0f})"
    added.add_argument("--timeout", type=float, default=deadline_s, metavar="S", help=text)
    text = "wait so long for another command to end (default: refuse at once)"
    added.add_argument("--wait", type=float, default=0.0, metavar="S", help=text)
    added.add_argument("command", nargs="+", metavar="-- COMMAND")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    try:
        return arguments.call(arguments)
    except LabError as error:
        print(f"numa-lab: {error.explain()}", file=sys.stderr)
    except KeyboardInterrupt:
        print("numa-lab: interrupted", file=sys.stderr)
    return 125


if __name__ == "__main__":
    sys.exit(main())
