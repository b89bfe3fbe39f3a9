# SPDX-License-Identifier: Apache-2.0
"""`/metrics` and `/health` of one process, over HTTP on a port of their own.

Rendering is done here, on the thread of whoever asks, from what the process has published; nothing
of its own work waits for it. There is no access control: the address is the operator's choice.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from socket import AF_INET, AF_INET6
from socketserver import TCPServer
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler
from wsgiref.types import StartResponse, WSGIApplication

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from nova_vp.service import listening
from nova_vp.service.health import MEDIA_TYPE, Look, document

LOG = logging.getLogger(__name__)
CLIENT_TIMEOUT_S = 5.0
OFF = 0


class _Handler(WSGIRequestHandler):
    timeout = CLIENT_TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:
        """A scrape is no news."""


class _Server(ThreadingWSGIServer):
    allow_reuse_address = True

    def server_bind(self) -> None:
        """HTTPServer would ask the DNS for the name of the machine, for as long as that takes."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        LOG.debug("a client of the metrics' port went away", exc_info=True)


class MetricsServer:
    """Serves until closed."""

    def __init__(self, address: str, port: int, registry: CollectorRegistry, look: Look) -> None:
        """Listens from now on. Raises OSError."""
        server = type(
            "_Of", (_Server,), {"address_family": AF_INET6 if ":" in address else AF_INET}
        )
        self._server = server((address, port), _Handler)
        self._server.set_app(_application(registry, look))
        listening.serve(self._server, "metrics")

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        listening.stop(self._server)


def expose(
    address: str, port: int, registry: CollectorRegistry, look: Look, option: str
) -> MetricsServer | None:
    """None with port 0, and where the port is not to be had: the process is worth running without.
    `option` names the setting to look at."""
    if port == OFF:
        return None
    try:
        return MetricsServer(address, port, registry, look)
    except OSError as exc:
        LOG.error("no metrics and no health on port %d: %s; see %s", port, exc, option)
        return None


def _application(registry: CollectorRegistry, look: Look) -> WSGIApplication:
    metrics: WSGIApplication = make_wsgi_app(registry)
    release = metadata.version("nova-vp")

    def health(_: Mapping[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        found = look()
        status = "503 Service Unavailable" if found.http_status == 503 else "200 OK"
        body = json.dumps(document(found, release, datetime.now(UTC))).encode()
        start_response(status, [("Content-Type", MEDIA_TYPE), ("Cache-Control", "no-store")])
        return [body]

    def application(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            return metrics(environ, start_response)
        if path == "/health" and environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return health(environ, start_response)
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"GET /metrics or /health\n"]

    return application
