# SPDX-License-Identifier: Apache-2.0
"""Latency of requests that this host itself makes of a memcached, and the load it tells of."""

import contextlib
import socket
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from vp_agent.latency.base import (
    TIMEOUT_S,
    Asked,
    LatencySource,
    Measured,
    Samples,
    SourceError,
    WrongSetting,
    sampled,
    samples_in,
    settings_of,
)
from vp_agent.latency.connect import Pieces, connected

_KEY = b"get nova-vp-latency\r\n"
_STATS = b"stats\r\n"
_END = b"END\r\n"
_MOST_BYTES = 1 << 16
_ERRORS = (b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR")
_COUNTED = frozenset({b"cmd_get", b"cmd_set", b"cmd_touch"})


class _Count(NamedTuple):
    requests: int
    at_s: float


class Memcached:
    def __init__(self, host: str, port: int, samples: int) -> None:
        self._address = (host, port)
        self._samples = samples
        self._last: _Count | None = None

    def read(self, asked: Asked) -> Measured:
        """A request that is not answered in time took as long as was waited, and ends the round."""
        last, self._last = self._last, None  # Of a round that fails nobody knows what it counts.
        load = None
        try:
            with self._connected() as link:
                samples = sampled(lambda: _ask(link, _KEY), self._samples)
                if not samples.is_cut:
                    self._last = _count(_ask(link, _STATS))
                    load = _load(last, self._last, len(samples.took_ms))
        except TimeoutError:
            samples = Samples([TIMEOUT_S * 1000], is_cut=True)
        except OSError as exc:
            raise SourceError(f"memcached at {self._address[0]}:{self._address[1]}: {exc}") from exc
        return Measured(samples.latency_ms(asked), load)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[socket.socket]:
        with connected(*self._address, time.monotonic() + TIMEOUT_S) as link:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield link


def _load(last: _Count | None, now: _Count, own: int) -> float | None:
    """Requests per second since the last round, without those of this probe."""
    if last is None or now.requests < last.requests or now.at_s <= last.at_s:
        return None  # The first one, or memcached was restarted.
    return max(0, now.requests - last.requests - own) / (now.at_s - last.at_s)


def _ask(link: socket.socket, request: bytes) -> bytes:
    """Raises OSError, SourceError."""
    until_s = time.monotonic() + TIMEOUT_S
    link.settimeout(TIMEOUT_S)
    link.sendall(request)
    answer, pieces = b"", Pieces()
    while not answer.endswith(_END):
        pieces.count()
        link.settimeout(max(0.001, until_s - time.monotonic()))
        more = link.recv(_MOST_BYTES)
        answer += more
        if not more or len(answer) > _MOST_BYTES or answer.startswith(_ERRORS):
            raise SourceError(f"no answer of memcached: {answer[:80]!r}")
        if time.monotonic() >= until_s:
            raise TimeoutError("it is still answering")
    return answer


def _count(stats: bytes) -> _Count:
    words = [line.split() for line in stats.split(b"\r\n")]
    try:
        counts = [int(line[2]) for line in words if len(line) == 3 and line[1] in _COUNTED]
    except ValueError as exc:
        raise SourceError("no answer of memcached: its counts are no numbers") from exc
    if len(counts) != len(_COUNTED):
        raise SourceError("no answer of memcached: its counts are missing")
    return _Count(sum(counts), time.monotonic())


def create(given: Mapping[str, str]) -> LatencySource:
    """`address` (host:port), `samples` (requests in each round, 100). Raises WrongSetting."""
    settings = settings_of(given, ["address"], {"samples": "100"})
    host, _, port = settings["address"].rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise WrongSetting(f"address={settings['address']}: give the form host:port")
    return Memcached(host.strip("[]"), int(port), samples_in(settings["samples"]))
