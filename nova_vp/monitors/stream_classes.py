# SPDX-License-Identifier: Apache-2.0
"""Stream classes: a server that receives a fast stream is tuned up, one with a slow one down.

Source: the x86-IXP paper, 3.2: bit rate and frame rate, by receiver. A stream that is fast by one
of them and slow by the other changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nova_vp.core.types.overlay import Direction, Nack, Verb
from nova_vp.monitors.base import Wanted


@dataclass(frozen=True, slots=True)
class StreamSettings:
    fast_kbit_s: float = 500.0
    fast_fps: float = 24.0
    """From both of them on a stream is fast; below both it is slow."""
    steps: int = 1
    """Of `tune`, up or down."""
    renew_s: float = 100.0
    """How often what a server was granted is renewed: well within its lease."""
    retry_s: float = 5.0
    """After a refusal."""


class StreamClasses:
    def __init__(self, settings: StreamSettings | None = None) -> None:
        self._settings = settings or StreamSettings()
        self._asked: dict[str, int] = {}
        self._steps: dict[str, int] = {}
        self._renewed_at_s: dict[str, float] = {}
        """Of servers that were granted something."""
        self._not_before_s: dict[str, float] = {}

    def see(self, server: str, kbit_s: float, fps: float) -> None:
        """Of the stream that it receives; 0 where it ended."""
        settings = self._settings
        is_fast = (kbit_s >= settings.fast_kbit_s, fps >= settings.fast_fps)
        if fps <= 0.0 or len(set(is_fast)) == 2:
            self._asked[server] = 0
        else:
            self._asked[server] = settings.steps if all(is_fast) else -settings.steps

    def forget(self, server: str) -> None:
        """It is not there any more."""
        for known in (self._asked, self._steps, self._renewed_at_s, self._not_before_s):
            known.pop(server, None)

    def wanted(self, now_s: float) -> Sequence[Wanted]:
        calls = []
        for server, asked in self._asked.items():
            has = self._steps.get(server, 0)
            if now_s < self._not_before_s.get(server, 0.0):
                continue
            if asked != has:
                direction = Direction.UP if asked > has else Direction.DOWN
                calls += [Wanted(Verb.TUNE, server, direction)] * abs(asked - has)
            elif has and now_s - self._renewed_at_s[server] >= self._settings.renew_s:
                calls.append(Wanted(Verb.RENEW, server))
        return calls

    def answered(self, call: Wanted, nack: Nack | None, now_s: float) -> None:
        server = call.server
        if nack is Nack.NOTHING_TO_RENEW:  # It ended, whatever the reason: begin anew.
            self._steps[server] = 0
        elif nack is not None:
            self._not_before_s[server] = now_s + self._settings.retry_s
        else:
            self._renewed_at_s[server] = now_s
            if call.verb is Verb.TUNE:
                step = 1 if call.direction is Direction.UP else -1
                self._steps[server] = self._steps.get(server, 0) + step
