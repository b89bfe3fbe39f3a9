# SPDX-License-Identifier: Apache-2.0
"""The socket for monitors on the host itself: calls of overlays, many on one connection.

One JSON object per line, each way, in order. The kernel lets in root, the agent's user and its
group; whoever is let in may call for any overlay of the host, also for its servers on other hosts,
since applications of tenants are not on the host: they call vp-api. A monitor that stands still in
a line, or reads no answers, is hung up on, and no process has all places: one with a fault keeps no
other one away.
"""

import contextlib
import functools
import json
import logging
import os
import socket
import socketserver
import struct
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from nova_vp import wire
from nova_vp.core.types.overlay import Call, CallAnswer, CallResource, Direction, Verb
from nova_vp.overlay_message import read_call
from nova_vp.printable import printable
from nova_vp.service import listening
from nova_vp.wire.overlays import MOST_CPUS, MOST_LEASE_S, OVERLAY_CALL_SCHEMA
from nova_vp.wire.validation import Schema, SchemaError
from vp_agent.loop.monitor_calls import MonitorCall

LOG = logging.getLogger(__name__)
FILE = "overlay.sock"
MAX_LINE_BYTES = 4096
MOST_CONNECTIONS = 32
MOST_OF_ONE = 16
"""Connections of one process."""
IDLE_S = 3600.0
"""Between two calls."""
BEGUN_S = 10.0
"""For the rest of a line that has begun, and until answers are read."""
_FIELDS = {
    "id": "up to 64 letters, digits and _ . : -",
    "overlay_id": "the id of an overlay, see `openstack vp overlay list`",
    "verb": ", ".join(one.value for one in Verb),
    "resource": ", ".join(one.value for one in CallResource),
    "direction": ", ".join(one.value for one in Direction),
    "server_id": "the id of a server, or null",
    "cpus": f"a whole number up to {MOST_CPUS}",
    "island": "the name of an island, see `vp-agent status`",
    "lease_s": f"seconds, more than 0 and up to {MOST_LEASE_S:g}, or null",
    "everywhere": "true or false; true only without server_id",
}
"""Of a call, and what each takes."""
_NEEDED = frozenset({"overlay_id", "verb"})
_PEER = struct.Struct("iII")


class Peer(NamedTuple):
    pid: int
    uid: int
    gid: int


class NotServed(Exception):
    """Why a monitor is served no more, or not at all."""


class OverlaySocket:
    def __init__(self, folder: Path, answer: Callable[[MonitorCall], CallAnswer]) -> None:
        """Answers on threads of its own until closed. `answer` is thread-safe, and may wait."""
        self._path = folder / FILE
        self._path.unlink(missing_ok=True)
        places = _Places()

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                monitor: socket.socket = self.request
                with contextlib.suppress(OSError):  # Whoever goes away is nobody's news.
                    peer = _peer_of(monitor)
                    try:
                        with places.taken_by(peer.pid):
                            LOG.info("a monitor is connected: %s", peer)
                            _serve(monitor, answer)
                    except NotServed as exc:
                        _tell(monitor, {"error": str(exc)})

        old = os.umask(0o117)
        try:
            self._server = _Listener(str(self._path), Handler)
        finally:
            os.umask(old)
        listening.serve(self._server, "overlays")

    def close(self) -> None:
        listening.stop(self._server)
        self._path.unlink(missing_ok=True)


class _Listener(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64


class _Places:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_pid: Counter[int] = Counter()

    @contextlib.contextmanager
    def taken_by(self, pid: int) -> Iterator[None]:
        """Raises NotServed."""
        with self._lock:
            if self._by_pid.total() >= MOST_CONNECTIONS:
                raise NotServed(
                    f"{MOST_CONNECTIONS} monitors are connected already: close one of them"
                )
            if self._by_pid[pid] >= MOST_OF_ONE:
                raise NotServed(
                    f"{MOST_OF_ONE} connections of process {pid} are served already: close one"
                )
            self._by_pid[pid] += 1
        try:
            yield
        finally:
            with self._lock:
                self._by_pid[pid] -= 1
                self._by_pid = +self._by_pid


def _serve(monitor: socket.socket, answer: Callable[[MonitorCall], CallAnswer]) -> None:
    """Until it hangs up. Raises NotServed, OSError."""
    for line in _lines(monitor):
        _tell(monitor, _answered(line, answer))


def _lines(monitor: socket.socket) -> Iterator[bytes]:
    """Raises NotServed, OSError."""
    text = b""
    while text := _whole_line(monitor, text):
        line, _, text = text.partition(b"\n")
        if len(line) >= MAX_LINE_BYTES:
            raise NotServed(f"a line has at most {MAX_LINE_BYTES} bytes")
        yield line


def _whole_line(monitor: socket.socket, text: bytes) -> bytes:
    """What it has sent, once there is a line in it or no more will come."""
    until_s = time.monotonic() + BEGUN_S
    while b"\n" not in text and len(text) <= MAX_LINE_BYTES:
        monitor.settimeout(max(until_s - time.monotonic(), 0.001) if text else IDLE_S)
        try:
            more = monitor.recv(MAX_LINE_BYTES)
        except TimeoutError:
            within = f"end of line within {BEGUN_S:g} s" if text else f"call within {IDLE_S:g} s"
            raise NotServed(f"no {within}") from None
        if not more:
            break
        if not text:
            until_s = time.monotonic() + BEGUN_S
        text += more
    return text


def _tell(monitor: socket.socket, told: Mapping[str, Any]) -> None:
    monitor.settimeout(BEGUN_S)
    monitor.sendall(json.dumps(told).encode() + b"\n")


def _peer_of(connection: socket.socket) -> Peer:
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return Peer(*_PEER.unpack(raw))


def _answered(line: bytes, answer: Callable[[MonitorCall], CallAnswer]) -> dict[str, Any]:
    try:
        asked = _read(line)
    except ValueError as exc:
        return {"error": printable(str(exc), 300)}
    told = answer(asked)
    nack = told.nack.value if told.nack else None
    return {"id": told.call_id, "nack": nack, "detail": told.detail, "lease_s": told.lease_s}


def _read(line: bytes) -> MonitorCall:
    """Raises ValueError, which says what to write."""
    try:
        told = json.loads(line, parse_constant=_no_number)
    except (ValueError, RecursionError) as exc:
        raise ValueError(f"write a call as JSON in one line: {exc}") from exc
    if not isinstance(told, dict):
        raise ValueError(f"a call is a JSON object with {', '.join(_FIELDS)}")
    if unknown := told.keys() - _FIELDS.keys():
        raise ValueError(f"no field {min(unknown)}: a call has {', '.join(_FIELDS)}")
    told = {name: value for name, value in told.items() if value is not None}
    everywhere = told.pop("everywhere", False)
    if not isinstance(everywhere, bool) or (everywhere and told.get("server_id")):
        raise ValueError(f"everywhere: give {_FIELDS['everywhere']}")
    try:
        return MonitorCall(_well_formed(told), everywhere)
    except (wire.BadMessage, ValueError) as exc:  # The latter of a number like 1e999.
        why = str(exc).removeprefix(f"{wire.OVERLAY_CALL}: ")
        raise ValueError(_wrong_field(told) or why) from exc


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _well_formed(told: Mapping[str, Any]) -> Call:
    """By the schema of the calls on the bus. Raises wire.BadMessage."""
    return read_call(
        wire.compact(
            {
                "v": wire.VERSION,
                "id": told.get("id") or f"local-{uuid.uuid4()}",
                "overlay_id": told.get("overlay_id"),
                "project_id": "local",
                "verb": told.get("verb"),
                "resource": told.get("resource", "cpu"),
                "direction": told.get("direction", "up"),
                "server": told.get("server_id"),
                "cpus": told.get("cpus", 0),
                "island": told.get("island", ""),
                "lease_s": told.get("lease_s"),
                "sent_at_ms": 0,
            }
        )
    ).call


def _wrong_field(told: Mapping[str, Any]) -> str | None:
    given = {name for name, value in told.items() if value is not None}
    if not told.get("id"):
        given -= {"id"}  # It gets one.
    for name, what in _FIELDS.items():
        try:
            if name in given | _NEEDED:
                _shape_of(name).check(told.get(name))
        except SchemaError:
            return f"{name}: give {what}"
    return None


@functools.cache
def _shape_of(name: str) -> Schema:
    fields = OVERLAY_CALL_SCHEMA["properties"]
    return Schema(fields["server" if name == "server_id" else name])
