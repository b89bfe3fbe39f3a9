# SPDX-License-Identifier: Apache-2.0
"""Latency of requests that this host itself makes of a server's web service."""

from collections.abc import Mapping
from urllib.parse import SplitResult

from vp_agent.latency.base import (
    Asked,
    LatencySource,
    Measured,
    SourceError,
    sampled,
    samples_in,
    settings_of,
)
from vp_agent.latency.http_get import get, url_in

SUCCESS = range(200, 300)


class HttpProbe:
    def __init__(self, url: SplitResult, samples: int) -> None:
        self._url = url
        self._target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        self._samples = samples

    def read(self, asked: Asked) -> Measured:
        """A request that is not answered in time took as long as was waited, and ends the round."""
        return Measured(sampled(self._request, self._samples).latency_ms(asked), None)

    def _request(self) -> None:
        """What is not done may be refused very fast."""
        status = get(self._url, self._target).status
        if status not in SUCCESS:
            raise SourceError(
                f"{self._url.netloc} answers with HTTP status {status}; give a URL that it answers "
                "with 2xx"
            )


def create(given: Mapping[str, str]) -> LatencySource:
    """`url`, `samples` (requests in each round, 20). Raises WrongSetting."""
    settings = settings_of(given, ["url"], {"samples": "20"})
    return HttpProbe(url_in(settings["url"]), samples_in(settings["samples"]))
