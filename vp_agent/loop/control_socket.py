# SPDX-License-Identifier: Apache-2.0
"""The agent's control socket: the operator's commands on the host itself, without any bus.

One JSON object per line and connection, each way. The socket lies in the run folder, for root
(or the agent's user) alone; the lock beside it keeps a second agent off the host, and the
heartbeat in it tells `vp-agent release --expired` whether the leases still stand.
"""

import contextlib
import json
import logging
import os
import socket
import socketserver
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nova_vp.cloud_modes import NOT_SET
from nova_vp.core.types.policy import Mode
from nova_vp.printable import printable
from nova_vp.service import listening
from nova_vp.service.run_dir import BEAT, boot_clock_s, silent_for_s
from vp_agent.commands import (
    MOST_WHY,
    CannotOverride,
    NotAdvising,
    NotInForce,
    NotRejectable,
    UnknownAction,
)
from vp_agent.loop import request_log
from vp_agent.loop.command_handler import RELEASE_TIMEOUT_S, CommandHandler
from vp_agent.loop.host_lock import HostLock
from vp_agent.loop.override_request import carry_out
from vp_agent.loop.recorder import CannotRecord

LOG = logging.getLogger(__name__)
MAX_LINE_BYTES = 4096
CLIENT_TIMEOUT_S = 10.0
ASKED_S = 60.0
"""For so long after the libvirt hook asked for a look, who arrives may not be there to be seen."""
_QUESTIONS = frozenset({"status"})
"""They change nothing, and are asked every second."""

_REFUSALS = (
    *(CannotOverride, CannotRecord, NotAdvising, NotInForce, NotRejectable, UnknownAction),
    OSError,
)
"""What is told with its message alone."""


class NoAgent(Exception):
    """No agent answers on this host's socket. The message says how to start one."""


class Refused(Exception):
    """The agent said no; its reason is the message."""


class AlreadyRunning(Exception):
    """Another agent holds this host's lock."""


class RunFolder:
    """Lock, heartbeat and socket of the one agent of this host."""

    def __init__(self, folder: str) -> None:
        self.path = Path(folder)
        self.socket = self.path / "agent.sock"
        self._lock = HostLock(self.path)
        self._beat = self.path / BEAT
        self._is_failing = False

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Raises AlreadyRunning. The kernel lets go of the lock however the process ends."""
        self.path.mkdir(parents=True, exist_ok=True)
        if not self._lock.take():
            raise AlreadyRunning(
                f"an agent already runs on this host (it holds {self._lock.path}); "
                "stop it first, or query it with `vp-agent status`"
            )
        try:
            yield
        finally:
            self._lock.release()

    def beat(self) -> None:
        """The leases of what is applied are renewed. Boot-time clock: no jump fools it.

        Never raises: where the folder refuses, the leases run out while the agent goes on.
        """
        self._lock.show()
        try:
            self._write_beat(f"{boot_clock_s():020.6f}\n".encode())
            self._is_failing = False
        except OSError as exc:
            if not self._is_failing:
                LOG.error(
                    "heartbeat not written, `vp-agent release --expired` will revert all: %s",
                    exc,
                )
            self._is_failing = True

    def forget_beat(self) -> None:
        """Nobody holds anything any more: nobody need look whether the agent still lives."""
        self._beat.unlink(missing_ok=True)

    def was_asked_lately(self) -> bool:
        """The libvirt hook asked `release --expired` to look: by a heartbeat of the host's boot,
        with the time at which it asked behind it."""
        try:
            _, asked_at_s = self._beat.read_text().split()
            ago_s = boot_clock_s() - float(asked_at_s)
        except (OSError, ValueError):
            return False
        return 0 <= ago_s < ASKED_S

    def _write_beat(self, text: bytes) -> None:
        """In place: whoever reads meanwhile must not find it empty, and a full disk lets us."""
        fd = os.open(self._beat, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(fd, text, 0)
        finally:
            os.close(fd)

    def silent_for_s(self) -> float | None:
        """Seconds since the last heartbeat of this boot, or None if there was none."""
        return silent_for_s(self.path)


class _Listener(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128


class Server:
    """Answers the socket on a thread of its own until closed."""

    def __init__(
        self,
        folder: RunFolder,
        control: CommandHandler,
        status: Callable[[], Any],
        record: Callable[[str], str],
    ) -> None:
        """`record`: into that file, or no more if it is empty; its answer is the file of until
        now. Raises CannotRecord."""
        self._path = folder.socket
        self._path.unlink(missing_ok=True)
        answers: Mapping[str, Callable[[str], Any]] = {
            "status": lambda _: status(),
            "mode": lambda value: control.set_mode(_mode(value)),
            "accept": control.accept,
            "reject": lambda value: control.reject(*_rejection(value)),
            "undo": control.undo,
            "override": lambda value: carry_out(control.servers, value),
            "record": record,
            "release": lambda _: control.release(),
        }

        class Handler(socketserver.StreamRequestHandler):
            timeout = CLIENT_TIMEOUT_S

            def handle(self) -> None:
                # Clients that never send, or do not wait for the answer, are nobody's news.
                with contextlib.suppress(OSError):
                    answer = _answer(answers, self.rfile.readline(MAX_LINE_BYTES))
                    self.wfile.write(json.dumps(answer).encode() + b"\n")

        old = os.umask(0o177)
        try:
            self._server = _Listener(str(self._path), Handler)
        finally:
            os.umask(old)
        listening.serve(self._server, "control")

    def close(self) -> None:
        listening.stop(self._server)
        self._path.unlink(missing_ok=True)


def _answer(answers: Mapping[str, Callable[[str], Any]], line: bytes) -> dict[str, Any]:
    try:
        order = json.loads(line)
        name, value = order["do"], str(order.get("value", ""))
        do = answers[name]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {"error": f"unknown command; known commands: {', '.join(answers)}"}
    if name not in _QUESTIONS:
        request_log.note(request_log.LOCAL, name, value=value)
    try:
        return {"ok": do(value)}
    except _REFUSALS as exc:
        return {"error": str(exc)}
    except Exception as exc:  # a fault of ours: who asked shall not take it for one of his own
        LOG.exception("request=%s order=%s failed", request_log.LOCAL, name)
        return {"error": f"{name} failed in the agent ({type(exc).__name__}: {exc}); see its log"}


def _rejection(value: str) -> tuple[str, str, str]:
    """Which proposal, who rejects it, and why: `ID REASON`, where the reason may be missing."""
    action_id, _, why = value.partition(" ")
    return action_id, request_log.LOCAL, printable(why, MOST_WHY)


def _mode(value: str) -> Mode | None:
    if value == NOT_SET:
        return None
    try:
        return Mode(value)
    except ValueError:
        known = ", ".join([*(mode.value for mode in Mode), NOT_SET])
        raise CannotOverride(f"{value[:80]!r} is not a mode: use one of {known}") from None


def ask(folder: RunFolder, do: str, value: str = "") -> Any:
    """One order to the running agent. Raises NoAgent or Refused."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(RELEASE_TIMEOUT_S + CLIENT_TIMEOUT_S)
            sock.connect(str(folder.socket))
            sock.sendall(json.dumps({"do": do, "value": value}).encode() + b"\n")
            with sock.makefile("rb") as file:
                answer = json.loads(file.readline())
    except (OSError, ValueError) as exc:
        raise NoAgent(
            f"no agent answers at {folder.socket} ({exc}); "
            "start it with `systemctl start vp-agent` (or `vp-agent run`)"
        ) from exc
    if "error" in answer:
        raise Refused(answer["error"])
    return answer["ok"]
