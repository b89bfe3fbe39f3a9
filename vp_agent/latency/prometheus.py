# SPDX-License-Identifier: Apache-2.0
"""Latency, and load, as a Prometheus server tells them for a query."""

import json
import math
from collections.abc import Mapping
from urllib.parse import SplitResult, urlencode

from vp_agent.latency.base import (
    Asked,
    LatencySource,
    Measured,
    SourceError,
    WrongSetting,
    settings_of,
)
from vp_agent.latency.http_get import get, url_in

_UNITS = {"s": 1000.0, "ms": 1.0}
_OK = 200


class Prometheus:
    def __init__(self, url: SplitResult, query: str, load_query: str, ms_per_unit: float) -> None:
        self._url = url
        self._query = query
        self._load_query = load_query
        self._ms_per_unit = ms_per_unit

    def read(self, asked: Asked) -> Measured:
        """Of the percentile that the query has: the operator writes both."""
        latency_ms = self._value(self._query) * self._ms_per_unit
        return Measured(latency_ms, self._value(self._load_query) if self._load_query else None)

    def _value(self, query: str) -> float:
        path = f"{self._url.path.rstrip('/')}/api/v1/query?{urlencode({'query': query})}"
        try:
            answer = get(self._url, path)
        except TimeoutError as exc:
            raise SourceError(f"{self._url.netloc} does not answer in time") from exc
        if answer.status != _OK:
            said = answer.body[:200].decode("utf-8", "replace")
            raise SourceError(f"{self._url.netloc}: HTTP status {answer.status}: {said}")
        return _number(answer.body, query)


def _number(body: bytes, query: str) -> float:
    """Raises SourceError unless the query has one value."""
    try:
        data = json.loads(body)["data"]
        rows = [data] if data["resultType"] == "scalar" else data["result"]
        pairs = [row["result"] if row is data else row["value"] for row in rows]
        values = [float(value) for _, value in pairs]
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise SourceError(f"no answer of Prometheus: {type(exc).__name__}") from exc
    if len(values) != 1:
        raise SourceError(f"{query}: {len(values)} series, and one is needed; use sum() or max()")
    if not math.isfinite(values[0]):
        raise SourceError(f"{query}: {values[0]}: nothing was measured lately")
    return values[0]


def create(given: Mapping[str, str]) -> LatencySource:
    """`url`, `query`, `load_query`, `unit` (of the query: s or ms). Raises WrongSetting."""
    settings = settings_of(given, ["url", "query"], {"load_query": "", "unit": "s"})
    unit = settings["unit"]
    if unit not in _UNITS:
        raise WrongSetting(f"unit={unit}: give one of {', '.join(_UNITS)}")
    if not settings["query"]:
        raise WrongSetting("query=: give the query that has the latency")
    url = url_in(settings["url"])
    if url.query or url.fragment:
        raise WrongSetting(f"url={settings['url']}: give it without what follows ? or #")
    return Prometheus(url, settings["query"], settings["load_query"], _UNITS[unit])
