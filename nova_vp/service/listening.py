# SPDX-License-Identifier: Apache-2.0
"""Socket servers on threads that sleep until somebody comes.

Left to itself, the standard library's wakes twice a second to see whether it is to end.
"""

import socket
import socketserver
import threading

_LOOKS_EVERY_S = 3600.0
"""Whether it is to end: `stop` wakes it."""


def serve(server: socketserver.TCPServer, name: str) -> None:
    """On a thread of that name, until `stop`."""
    threading.Thread(
        target=server.serve_forever, args=(_LOOKS_EVERY_S,), name=name, daemon=True
    ).start()


def stop(server: socketserver.TCPServer) -> None:
    """Returns when it has ended."""
    server.socket.shutdown(socket.SHUT_RDWR)  # Whoever waits for it to be readable wakes.
    server.shutdown()
    server.server_close()
