# SPDX-License-Identifier: Apache-2.0
"""The command line of an emulated machine: parses, locks, calls, explains failures."""

import argparse
import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from testbed.emulated import channel
from testbed.emulated.machine import Machine
from testbed.lab.errors import LabError

COMMAND_DEADLINE_S = 3600.0


class Command:
    """Each method is a command, and returns its exit status."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def up(self, _: argparse.Namespace) -> int:
        with self._locked("up"):
            if self._machine.find_pid() is None:
                self._boot(dies_with_caller=False).close()
        return 0

    def down(self, _: argparse.Namespace) -> int:
        """Needs no lock: it is what ends a command that hangs."""
        self.tell("down" if self._machine.end() else "was down already")
        return 0

    def run(self, arguments: argparse.Namespace) -> int:
        with self._locked("run " + " ".join(arguments.command), arguments.wait):
            is_ours = self._machine.find_pid() is None
            line = self._boot(dies_with_caller=True) if is_ours else self._connect()
            try:
                return line.run(arguments.command, arguments.timeout)
            finally:
                if is_ours:
                    self._machine.end()
                else:
                    line.close()

    def shell(self, _: argparse.Namespace) -> int:
        channel.shell(self._machine)
        return 0

    def status(self, _: argparse.Namespace) -> int:
        pid = self._machine.find_pid()
        print(f"up, QEMU is pid {pid}" if pid else "down")
        return 0 if pid else 1

    def tell(self, text: str) -> None:
        print(f"{self._machine.command}: {text}", file=sys.stderr)

    @contextmanager
    def _locked(self, command: str, wait_s: float = 0.0) -> Iterator[None]:
        """One command at a time; the kernel frees the lock of a killed one."""
        name = self._machine.command
        self._machine.cache.mkdir(parents=True, exist_ok=True)
        end_s = time.monotonic() + wait_s
        with (self._machine.cache / "lock").open("a+") as file:
            while not _has_locked(file):
                if time.monotonic() > end_s:
                    file.seek(0)
                    raise LabError(
                        f"another command is at work ({file.read().strip() or 'starting'}); wait "
                        f"for it (run --wait), or end the machine under it with `{name} down`"
                    )
                time.sleep(0.2)
            file.truncate(0)
            file.write(f"`{name} {command}`, pid {os.getpid()}")
            file.flush()
            try:
                yield
            finally:
                file.truncate(0)

    def _boot(self, *, dies_with_caller: bool) -> channel.Channel:
        self._machine.build()
        began_s = time.monotonic()
        try:
            self._machine.start(dies_with_caller=dies_with_caller)
            line = self._connect()
        except BaseException:
            self._machine.end()
            raise
        self.tell(f"up after {time.monotonic() - began_s:.1f} s")
        return line

    def _connect(self) -> channel.Channel:
        """Past what the command of an earlier near end still sends."""
        line = channel.Channel(self._machine)
        line.wait_until_ready(self._machine.boot_deadline_s)
        return line


def _has_locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def parse(machine: Machine, command: Command) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=machine.command, description=machine.about)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, call, text in (
        ("up", command.up, "boot the machine and leave it running"),
        ("down", command.down, "end it at once, whatever runs in it"),
        ("shell", command.shell, "a root shell in it"),
        ("status", command.status, "whether it runs (exit status 1 if not)"),
        ("run", command.run, "run a command in this checkout; boots and ends it if it is down"),
    ):
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(call=call)
    text = f"end the command after so long (default {COMMAND_DEADLINE_S:.0f})"
    added.add_argument("--timeout", type=float, default=COMMAND_DEADLINE_S, metavar="S", help=text)
    text = "wait so long for another command to end (default: refuse at once)"
    added.add_argument("--wait", type=float, default=0.0, metavar="S", help=text)
    added.add_argument("command", nargs="+", metavar="-- COMMAND")
    return parser.parse_args()


def main(machine: Machine) -> int:
    command = Command(machine)
    arguments = parse(machine, command)
    try:
        return int(arguments.call(arguments))
    except LabError as error:
        command.tell(error.explain())
    except KeyboardInterrupt:
        command.tell("interrupted")
    return 125
