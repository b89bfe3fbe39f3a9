# SPDX-License-Identifier: Apache-2.0
"""What a latency source is (stevedore namespace `vp_agent.latency`), and what the operator sets.

A source runs in a thread of its own. One that hangs or lies costs the reports of its own server:
no tick waits for it, and its numbers are judged as those of an application are.
"""

import math
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

NAMESPACE = "vp_agent.latency"
TIMEOUT_S = 2.0
"""For each answer of what a source asks."""
ROUND_S = 5.0
"""For all requests of one round."""
MOST_BYTES = 1 << 20
"""Of one answer."""
MOST_PIECES = 1024
"""Of one answer: reading a piece costs the same CPU for one byte as for many, and a server could
send single bytes for as long as it is listened to. MOST_BYTES in TCP segments are fewer."""


class SourceError(Exception):
    """There is no latency now. The text says why, for the log."""


class WrongSetting(ValueError):
    """A line of `[agent] latency_sources` is not valid. The text says what is expected."""


class Measured(NamedTuple):
    latency_ms: float
    load: float | None
    """None: this source does not know it."""


class Asked(NamedTuple):
    """What of a server's latency is asked for."""

    percentile: float
    target_ms: float | None
    """None: it has none."""


class LatencySource(Protocol):
    def read(self, asked: Asked) -> Measured:
        """The latency at that percentile of what was measured since the last call. Waits some
        seconds at most. Raises SourceError."""


class SourceLine(NamedTuple):
    """One value of `[agent] latency_sources`."""

    server: str
    driver: str
    settings: Mapping[str, str]


Create = Callable[[Mapping[str, str]], LatencySource]
"""What an entry point names. Raises WrongSetting for settings that it does not take."""


def parse_line(text: str) -> SourceLine:
    """Of `server=UUID driver=NAME key=value ...`, quoted as in a shell. Raises WrongSetting."""
    try:
        words = [word.partition("=") for word in shlex.split(text)]
        settings = {name: value for name, is_given, value in words if is_given}
        if len(settings) != len(words):
            raise ValueError("write each setting once, as key=value")
        server = str(UUID(settings.pop("server", "")))
        return SourceLine(server, settings.pop("driver"), settings)
    except (ValueError, KeyError) as exc:
        raise WrongSetting(
            f"{text!r}: {exc}; write server=UUID driver=NAME and the settings of the driver, as "
            "key=value"
        ) from exc


def settings_of(
    given: Mapping[str, str], required: Iterable[str], optional: Mapping[str, str]
) -> dict[str, str]:
    """With the defaults of those that are not given. Raises WrongSetting."""
    required = set(required)
    missing, unknown = required - given.keys(), given.keys() - required - optional.keys()
    if missing or unknown:
        known = ", ".join(sorted(required)) + "".join(f", {name} (optional)" for name in optional)
        wrong = ", ".join(sorted(missing | unknown))
        raise WrongSetting(f"{wrong}: the settings of this driver are {known}")
    return {**optional, **given}


def samples_in(text: str) -> int:
    """Raises WrongSetting."""
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise WrongSetting(f"samples={text}: give a whole number from 1 to 1000")
    return int(text)


class Samples(NamedTuple):
    """Latencies of requests that a source made itself."""

    took_ms: Sequence[float]
    is_cut: bool
    """The last one was not answered in time: it took as long as was waited, or longer."""

    def latency_ms(self, asked: Asked) -> float:
        """Raises SourceError: nobody knows whether the target was kept."""
        found = percentile_of(self.took_ms, asked.percentile)
        if self.is_cut and found >= TIMEOUT_S * 1000 and (asked.target_ms or 0.0) > found:
            raise SourceError(
                f"no answer within {TIMEOUT_S:g} s, and the target is {asked.target_ms:g} ms"
            )
        return found


def sampled(request: Callable[[], object], most: int) -> Samples:
    """Of one request after the other, until there are so many, one is not answered in time, or
    another one might end after the round. `request` raises TimeoutError, SourceError, OSError."""
    last_s = time.monotonic() + ROUND_S - TIMEOUT_S
    took_ms: list[float] = []
    while len(took_ms) < most:
        begun_s = time.monotonic()
        if took_ms and begun_s > last_s:
            break
        try:
            request()
        except TimeoutError:
            return Samples([*took_ms, TIMEOUT_S * 1000], is_cut=True)
        took_ms.append((time.monotonic() - begun_s) * 1000)
    return Samples(took_ms, is_cut=False)


def percentile_of(latencies_ms: Sequence[float], percentile: float) -> float:
    """The smallest that so many percent do not exceed (nearest rank)."""
    rank = math.ceil(percentile / 100 * len(latencies_ms))
    return sorted(latencies_ms)[rank - 1]
