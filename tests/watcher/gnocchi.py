# SPDX-License-Identifier: Apache-2.0
"""As much of the Gnocchi API as Watcher's data source asks for: its status, and the measures of one
metric of one resource, aggregated over the span asked for.

Kinder than a real one: a sample a second instead of one in minutes, and the aggregate covers the
span exactly instead of whole granules.
"""

import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from tests.loopback import served

METRIC = "cpu_l3_cache"
EVERY_S = 1.0
MEASURES = re.compile(rf"/v1/resource/generic/([0-9a-f-]+)/metric/{METRIC}/measures")


class Measures:
    """By server, taken on a thread of its own until closed."""

    def __init__(self, take: Callable[[], dict[str, float]]) -> None:
        self._take = take
        self._samples: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="measures", daemon=True)
        self._thread.start()

    def add(self, server_id: str, at: float, value: float) -> None:
        self._samples[server_id].append((at, value))

    def mean(self, server_id: str, begin: float, end: float) -> float | None:
        inside = [value for at, value in self._samples[server_id] if begin <= at <= end]
        return sum(inside) / len(inside) if inside else None

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            for server_id, value in self._take().items():
                self.add(server_id, time.time(), value)


@contextmanager
def serving(measures: Measures) -> Iterator[str]:
    """Its URL."""
    with served(lambda environ, start: _answer(measures, environ, start)) as url:
        yield url


def _answer(measures: Measures, environ: Any, start_response: Any) -> Iterable[bytes]:
    path = environ["PATH_INFO"].rstrip("/")
    body: Any = None
    if path == "/v1/status":
        body = {"storage": {"summary": {"metrics": 0, "measures": 0}}}
    elif path == "/v1/metric":
        body = [{"name": METRIC}]
    elif asked := MEASURES.fullmatch(path):
        body = _measures(measures, asked[1], parse_qs(environ["QUERY_STRING"]))
    status = "200 OK" if body is not None else "404 Not Found"
    text = json.dumps(body if body is not None else {"cause": "not here"}).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(text)))]
    start_response(status, headers)
    return [text]


def _measures(measures: Measures, server_id: str, query: dict[str, list[str]]) -> Any:
    begin, end = _moment(query["start"][0]), _moment(query["stop"][0])
    mean = measures.mean(server_id, begin, end)
    if mean is None:
        return []
    at = datetime.fromtimestamp(begin, UTC).isoformat()
    return [[at, float(query["granularity"][0]), mean]]


def _moment(text: str) -> float:
    """Watcher's times are UTC and do not say so."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
