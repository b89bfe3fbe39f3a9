# SPDX-License-Identifier: Apache-2.0
"""HTTP requests with an end: a deadline for the whole answer, and a bound of its size."""

import http.client
import time
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from vp_agent.latency.base import MOST_BYTES, TIMEOUT_S, SourceError, WrongSetting

_CHUNK = 1 << 16
_CONNECTIONS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


class Answer(NamedTuple):
    status: int
    body: bytes
    took_s: float


def url_in(text: str) -> SplitResult:
    """Raises WrongSetting."""
    try:
        url = urlsplit(text)
        is_url = url.scheme in _CONNECTIONS and url.hostname and (url.port or True)
    except ValueError:
        is_url = False
    if not is_url:
        raise WrongSetting(f"url={text}: give the form http://host:port/path")
    return url


def get(url: SplitResult, target: str) -> Answer:
    """`target`: path and query. Raises SourceError, TimeoutError if it is not answered in time."""
    begun_s = time.monotonic()
    connection = _CONNECTIONS[url.scheme](url.hostname or "", url.port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", target, headers={"Accept": "application/json"})
        response = connection.getresponse()
        body = _read(connection, response, begun_s + TIMEOUT_S)
        return Answer(response.status, body, time.monotonic() - begun_s)
    except TimeoutError:
        raise
    except (OSError, http.client.HTTPException) as exc:
        raise SourceError(f"{url.netloc}: {type(exc).__name__} {str(exc)[:200]}") from exc
    finally:
        connection.close()


def _read(
    connection: http.client.HTTPConnection, response: http.client.HTTPResponse, until_s: float
) -> bytes:
    body = b""
    while chunk := response.read1(_CHUNK):
        body += chunk
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("it is still answering")
        if len(body) > MOST_BYTES:
            raise SourceError(f"the answer is larger than {MOST_BYTES} bytes")
        if connection.sock is not None:
            connection.sock.settimeout(left_s)
    return body
