# SPDX-License-Identifier: Apache-2.0
"""The near end of `run`: one command to the machine, its output and status back.

What is said here is described in agent.py, the far end.
"""

import json
import os
import select
import socket
import struct
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from testbed.emulated.machine import ROOT, Machine
from testbed.lab.errors import LabError

LOOK_S = 0.5
"""How often a wait looks whether the machine still runs."""


class Frame(NamedTuple):
    kind: bytes
    payload: bytes


class Channel:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._socket = connect(machine, "commands")
        self._pending = b""

    def close(self) -> None:
        """What still runs in the machine by this channel is killed by its agent."""
        self._socket.close()

    def wait_until_ready(self, deadline_s: float) -> None:
        self._send({})
        for frame in self._frames(deadline_s, "get ready"):
            if frame.kind == b"r":
                return

    def run(self, argv: Sequence[str], deadline_s: float) -> int:
        """The exit status of `argv`, whose output goes to ours as it comes."""
        request = {"cwd": str(ROOT), "checkout": str(ROOT), "env": self._machine.environment()}
        self._send({"argv": list(argv), **request})
        outputs = {b"o": sys.stdout.buffer, b"e": sys.stderr.buffer}
        for frame in self._frames(deadline_s, "end `" + " ".join(argv) + "`"):
            if frame.kind == b"x":
                return int(frame.payload)
            outputs[frame.kind].write(frame.payload)
            outputs[frame.kind].flush()
        raise AssertionError("frames end by an error only")

    def _send(self, request: object) -> None:
        self._socket.sendall(json.dumps(request).encode() + b"\n")

    def _frames(self, deadline_s: float, what: str) -> Iterator[Frame]:
        end_s = time.monotonic() + deadline_s
        while True:
            while frame := self._take():
                yield frame
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                text = f"the machine did not {what} within {deadline_s:.0f} s"
                raise LabError(text, self._machine.console_log)
            if select.select([self._socket], [], [], min(left_s, LOOK_S))[0]:
                self._receive(what)

    def _receive(self, what: str) -> None:
        try:
            more = self._socket.recv(65536)
        except ConnectionResetError:
            more = b""
        if not more:
            log = self._machine.console_log
            qemu_log = self._machine.qemu_log
            if qemu_log.exists() and qemu_log.read_text():
                log = qemu_log
            raise LabError(f"the machine went down before it could {what}", log)
        self._pending += more

    def _take(self) -> Frame | None:
        if len(self._pending) < 5:
            return None
        (length,) = struct.unpack(">I", self._pending[1:5])
        if len(self._pending) < 5 + length:
            return None
        frame = Frame(self._pending[:1], self._pending[5 : 5 + length])
        self._pending = self._pending[5 + length :]
        return frame


def connect(machine: Machine, name: str, deadline_s: float = 10.0) -> socket.socket:
    """By way of a folder's descriptor: a checkout's path may be longer than a socket's."""
    end_s = time.monotonic() + deadline_s
    while True:
        try:
            folder = os.open(machine.run, os.O_PATH)
        except FileNotFoundError:
            raise LabError(f"the machine is down; `{machine.command} up` starts it") from None
        try:
            one = socket.socket(socket.AF_UNIX)
            one.connect(f"/proc/self/fd/{folder}/{name}")
            return one
        except (FileNotFoundError, ConnectionRefusedError):
            one.close()
            if machine.find_pid() is None or time.monotonic() > end_s:
                raise LabError("QEMU does not start", machine.qemu_log) from None
            time.sleep(0.02)
        finally:
            os.close(folder)


def shell(machine: Machine) -> None:
    """This terminal becomes the machine's console, until Ctrl-]."""
    line = connect(machine, "shell")
    keyboard = sys.stdin.fileno()
    is_terminal = os.isatty(keyboard)
    before = termios.tcgetattr(keyboard) if is_terminal else None
    print(f"{machine.command}: the machine's console; Ctrl-] leaves it", file=sys.stderr)
    try:
        if is_terminal:
            tty.setraw(keyboard)
            size = os.get_terminal_size()
            if size.lines:
                line.sendall(f"stty rows {size.lines} cols {size.columns}\n".encode())
        _relay(line, keyboard)
    finally:
        if before is not None:
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _relay(line: socket.socket, keyboard: int) -> None:
    while True:
        ready = select.select([line, keyboard], [], [])[0]
        if line in ready:
            data = line.recv(65536)
            if not data:
                return
            os.write(sys.stdout.fileno(), data)
        if keyboard in ready:
            data = os.read(keyboard, 1024)
            if not data or b"\x1d" in data:
                return
            line.sendall(data)
