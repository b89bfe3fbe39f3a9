# SPDX-License-Identifier: Apache-2.0
"""Latency of requests that this host itself makes of a server's web service."""

from collections.abc import Mapping
from urllib.parse import SplitResult

from vp_agent.latency.base import (
    TIMEOUT_S,
    LatencySource,
    Measured,
    SourceError,
    percentile_of,
    samples_in,
    settings_of,
)
from vp_agent.latency.http_get import get, url_in

SERVER_ERROR = 500


class HttpProbe:
    def __init__(self, url: SplitResult, samples: int) -> None:
        self._url = url
        self._target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        self._samples = samples

    def read(self, percentile: float) -> Measured:
        """A request that is not answered in time took as long as was waited, and ends the round:
        that many seconds are more than any target that this probe can judge."""
        took_ms: list[float] = []
        for _ in range(self._samples):
            try:
                answer = get(self._url, self._target)
            except TimeoutError:
                return Measured(TIMEOUT_S * 1000, None)
            if answer.status >= SERVER_ERROR:
                raise SourceError(f"{self._url.netloc} answers with HTTP status {answer.status}")
            took_ms.append(answer.took_s * 1000)
        return Measured(percentile_of(took_ms, percentile), None)


def create(given: Mapping[str, str]) -> LatencySource:
    """`url`, `samples` (requests in each round, 20). Raises WrongSetting."""
    settings = settings_of(given, ["url"], {"samples": "20"})
    return HttpProbe(url_in(settings["url"]), samples_in(settings["samples"]))
