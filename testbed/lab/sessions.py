# SPDX-License-Identifier: Apache-2.0
"""Clients of an application in guests: sessions that send one request after another and measure.

`python -m testbed.lab.sessions ADDRESS --mix 'GET /browse=85' --mix 'POST /bid=15'` prints what
each class of requests came to, as JSON. Each session has a connection of its own and waits for each
answer. The order of its requests is random, and the same in each run.
"""

import argparse
import http.client
import json
import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from statistics import fmean, pstdev
from typing import NamedTuple

SESSIONS, THINK_S = 24, 0.02
ANSWER_WITHIN_S = 30.0
AGAIN_S = 0.2
"""After a request that was not answered."""


class Request(NamedTuple):
    """As in the first line of HTTP; its class is the first word of the path."""

    method: str
    path: str

    @classmethod
    def parse(cls, text: str) -> "Request":
        """Of `GET /browse`. Raises ValueError."""
        method, _, path = text.partition(" ")
        if not method.isupper() or not path.startswith("/"):
            raise ValueError(f"{text!r}: write a request as 'GET /browse'")
        return cls(method, path)

    @property
    def kind(self) -> str:
        return self.path.strip("/").partition("/")[0]


class Answer(NamedTuple):
    kind: str
    at_s: float
    """Of `time.monotonic`, when it was there."""
    took_s: float


@dataclass(frozen=True, slots=True)
class Served:
    """Of one class of requests, or of all."""

    per_s: float
    p50_ms: float
    p95_ms: float
    mean_ms: float
    deviation_ms: float
    """Standard deviation."""


Mix = Mapping[Request, float]
"""The share of each, of whatever they add up to."""


@dataclass
class Sessions:
    """Begun by `with`; the mix may be changed meanwhile."""

    address: str
    mix: Mix
    count: int = SESSIONS
    think_s: float = THINK_S
    """In the mean, from an answer to the next request of a session."""
    port: int = 80
    answers: list[Answer] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Why each request failed that was not answered by 200."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> "Sessions":
        for seed in range(self.count):
            thread = threading.Thread(target=self._run, args=(Random(seed),), daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, dice: Random) -> None:
        client = http.client.HTTPConnection(self.address, self.port, timeout=ANSWER_WITHIN_S)
        while not self._stop.is_set():
            mix = self.mix
            [request] = dice.choices(list(mix), list(mix.values()))
            began_s = time.monotonic()
            problem = _ask(client, request)
            if problem:
                self.failed.append(problem)
                client.close()
                self._stop.wait(AGAIN_S)
            else:
                now_s = time.monotonic()
                self.answers.append(Answer(request.kind, now_s, now_s - began_s))
                self._stop.wait(dice.expovariate(1 / self.think_s) if self.think_s else 0.0)
        client.close()

    def served(self, from_s: float, until_s: float) -> dict[str, Served]:
        """By class, of answers between these moments; of all of them by an empty name."""
        late = [one for one in self.answers if from_s <= one.at_s < until_s]
        kinds = sorted({one.kind for one in late})
        found = {"": served_of(late, until_s - from_s)}
        for kind in kinds:
            found[kind] = served_of([one for one in late if one.kind == kind], until_s - from_s)
        return found


def _ask(client: http.client.HTTPConnection, request: Request) -> str:
    """Why it failed; empty: it did not."""
    try:
        client.request(request.method, request.path)
        with client.getresponse() as answer:
            answer.read()
            return "" if answer.status == 200 else f"{answer.status} {answer.reason}"
    except (OSError, http.client.HTTPException) as exc:
        return str(exc) or type(exc).__name__


def served_of(answers: Iterable[Answer], span_s: float) -> Served:
    times_ms = sorted(1000 * one.took_s for one in answers)
    if not times_ms:
        return Served(0.0, math.nan, math.nan, math.nan, math.nan)
    return Served(
        len(times_ms) / span_s,
        percentile(times_ms, 0.5),
        percentile(times_ms, 0.95),
        fmean(times_ms),
        pstdev(times_ms),
    )


def percentile(ordered: Sequence[float], ratio: float) -> float:
    """The smallest of which so many are not above it."""
    return ordered[max(math.ceil(ratio * len(ordered)) - 1, 0)]


def _share(text: str) -> tuple[Request, float]:
    request, _, share = text.rpartition("=")
    try:
        return Request.parse(request), float(share)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(f"{text!r}: write 'GET /browse=85'") from exc


def main() -> None:
    parser = argparse.ArgumentParser(prog="sessions", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("address", help="Address of the tier that takes the requests")
    parser.add_argument(
        "--mix", action="append", type=_share, required=True, help="A request and its share"
    )
    parser.add_argument("--sessions", type=int, default=SESSIONS, help=f"At once ({SESSIONS})")
    parser.add_argument("--seconds", type=float, default=20.0, help="How long (20)")
    given = parser.parse_args()
    began_s = time.monotonic()
    with Sessions(given.address, dict(given.mix), given.sessions) as sessions:
        time.sleep(given.seconds)
        served = sessions.served(began_s, time.monotonic())
    if not sessions.answers:
        parser.exit(1, f"no request was answered: {sessions.failed[-1]}\n")
    told = {kind or "all": asdict(one) for kind, one in served.items()}
    print(json.dumps({**told, "failed": len(sessions.failed)}, indent=2))


if __name__ == "__main__":
    main()
