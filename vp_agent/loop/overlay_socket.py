# SPDX-License-Identifier: Apache-2.0
"""The socket for monitors on the host itself: calls of overlays, many on one connection.

One JSON object per line, each way, in order. The kernel lets in root, the agent's user and its
group; whoever is let in may call for any overlay of the host, since applications of tenants are not
on the host: they call vp-api.
"""

import contextlib
import json
import logging
import os
import socket
import socketserver
import struct
import threading
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from nova_vp import wire
from nova_vp.core.types.overlay import Call, CallAnswer
from nova_vp.overlay_message import read_call
from nova_vp.printable import printable

LOG = logging.getLogger(__name__)
FILE = "overlay.sock"
MAX_LINE_BYTES = 4096
MOST_CONNECTIONS = 32
IDLE_S = 3600.0
_FIELDS = (
    "id",
    "overlay_id",
    "verb",
    "resource",
    "direction",
    "server_id",
    "cpus",
    "island",
    "lease_s",
)
_PEER = struct.Struct("iII")


class Peer(NamedTuple):
    pid: int
    uid: int
    gid: int


class OverlaySocket:
    def __init__(self, folder: Path, answer: Callable[[Call], CallAnswer]) -> None:
        """Answers on threads of its own until closed. `answer` is thread-safe, and may wait."""
        self._path = folder / FILE
        self._path.unlink(missing_ok=True)
        places = threading.BoundedSemaphore(MOST_CONNECTIONS)

        class Handler(socketserver.StreamRequestHandler):
            timeout = IDLE_S

            def handle(self) -> None:
                with contextlib.suppress(OSError):  # Whoever goes away is nobody's news.
                    if places.acquire(blocking=False):
                        try:
                            _serve(self, answer)
                        finally:
                            places.release()
                    else:
                        _tell(self, {"error": f"{MOST_CONNECTIONS} monitors are connected already"})

        old = os.umask(0o117)
        try:
            self._server = _Listener(str(self._path), Handler)
        finally:
            os.umask(old)
        threading.Thread(target=self._server.serve_forever, name="overlays", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._path.unlink(missing_ok=True)


class _Listener(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64


def _serve(
    handler: socketserver.StreamRequestHandler, answer: Callable[[Call], CallAnswer]
) -> None:
    LOG.info("a monitor is connected: %s", _peer_of(handler.connection))
    while line := handler.rfile.readline(MAX_LINE_BYTES):
        _tell(handler, _answered(line, answer))
        if not line.endswith(b"\n"):
            return  # The rest of what is too long is no call.


def _tell(handler: socketserver.StreamRequestHandler, told: Mapping[str, Any]) -> None:
    handler.wfile.write(json.dumps(told).encode() + b"\n")


def _peer_of(connection: socket.socket) -> Peer:
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return Peer(*_PEER.unpack(raw))


def _answered(line: bytes, answer: Callable[[Call], CallAnswer]) -> dict[str, Any]:
    try:
        call = _read(line)
    except (wire.BadMessage, ValueError, RecursionError) as exc:
        return {"error": printable(str(exc), 300)}
    told = answer(call)
    nack = told.nack.value if told.nack else None
    return {"id": call.id, "nack": nack, "detail": told.detail, "lease_s": told.lease_s}


def _read(line: bytes) -> Call:
    """Raises ValueError, wire.BadMessage."""
    told = json.loads(line)
    if not isinstance(told, dict) or not told.keys() <= set(_FIELDS):
        raise ValueError(f"a call is a JSON object with {', '.join(_FIELDS)}")
    # By the schema of the calls on the bus.
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
