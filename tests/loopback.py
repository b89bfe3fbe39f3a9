# SPDX-License-Identifier: Apache-2.0
"""A WSGI application on a port of its own, for clients that only speak HTTP."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from waitress.server import create_server


@contextlib.contextmanager
def served(application: Any, threads: int = 4) -> Iterator[str]:
    """The URL it answers at, until the block ends."""
    server = create_server(application, host="127.0.0.1", port=0, threads=threads)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.effective_port}"
    finally:
        # Its thread may do it, and close the trigger, before this one has pulled it.
        with contextlib.suppress(OSError):
            server.trigger.pull_trigger(lambda: _close(server))
        thread.join(timeout=10)
        server.task_dispatcher.shutdown()


def _close(server: Any) -> None:
    """In the server's own thread: its loop ends once nothing is left to serve."""
    for channel in list(server.active_channels.values()):
        channel.handle_close()
    server.close()
