# SPDX-License-Identifier: Apache-2.0
"""HTTP requests with an end: a deadline from the lookup of the name to the end of the answer, and a
bound of its size."""

import functools
import http.client
import io
import re
import socket
import ssl
import time
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from vp_agent.latency.base import MOST_BYTES, TIMEOUT_S, SourceError, WrongSetting
from vp_agent.latency.connect import Pieces, connected, left_s

_CHUNK = 1 << 16
_CONNECTIONS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
_SENDABLE = re.compile(r"[!-~]*")


class Answer(NamedTuple):
    status: int
    body: bytes


class _Until(io.RawIOBase):
    """What a socket receives until a deadline, however slowly it comes, and in a bounded number of
    pieces."""

    def __init__(self, sock: socket.socket, until_s: float) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._until_s = until_s
        self._pieces = Pieces()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._pieces.count()
        self._sock.settimeout(left_s(self._until_s))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, until_s: float, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp.close()
        self.fp = io.BufferedReader(_Until(sock, until_s))


def url_in(text: str) -> SplitResult:
    """Raises WrongSetting."""
    try:
        url = urlsplit(text)
        (url.hostname or "").encode("idna")  # As the lookup of the name does.
        is_url = url.scheme in _CONNECTIONS and url.hostname and (url.port or True)
    except ValueError:
        is_url = False
    if is_url and "@" in url.netloc:
        # Neither is written anywhere: faults name the address.
        raise WrongSetting("url: leave out user and password; requests are sent without them")
    if not is_url:
        raise WrongSetting(f"url={text}: give the form http://host:port/path")
    if not _SENDABLE.fullmatch(url.path + url.query):
        raise WrongSetting(f"url={text}: write blanks and letters beyond ASCII as %20 and the like")
    return url


def get(url: SplitResult, target: str) -> Answer:
    """`target`: path and query. Raises SourceError, TimeoutError if it is not answered in time."""
    until_s = time.monotonic() + TIMEOUT_S
    connection = _CONNECTIONS[url.scheme](url.hostname or "", url.port, timeout=TIMEOUT_S)
    connection.response_class = functools.partial(_Response, until_s)
    try:
        connection.sock = _link(url, until_s)
        connection.request("GET", target, headers={"Accept": "application/json"})
        response = connection.getresponse()
        return Answer(response.status, _read(response))
    except TimeoutError:
        raise
    except (OSError, http.client.HTTPException) as exc:
        raise SourceError(f"{url.netloc}: {type(exc).__name__} {str(exc)[:200]}") from exc
    finally:
        connection.close()


def _link(url: SplitResult, until_s: float) -> socket.socket:
    host, is_secure = url.hostname or "", url.scheme == "https"
    link = connected(host, url.port or (443 if is_secure else 80), until_s)
    try:
        link.settimeout(left_s(until_s))
        # The timeout is that of the whole handshake.
        return (
            ssl.create_default_context().wrap_socket(link, server_hostname=host)
            if is_secure
            else link
        )
    except OSError:
        link.close()
        raise


def _read(response: http.client.HTTPResponse) -> bytes:
    """Of a chunked answer one chunk at a time, however small, and however many came at once."""
    body, pieces = b"", Pieces()
    while chunk := response.read1(_CHUNK):
        pieces.count()
        body += chunk
        if len(body) > MOST_BYTES:
            raise SourceError(f"the answer is larger than {MOST_BYTES} bytes")
    if response.length:
        raise SourceError(f"the answer ended {response.length} bytes early")
    return body
