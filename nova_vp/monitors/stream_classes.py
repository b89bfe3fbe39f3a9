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
    retry_s: float = 5.0
    """After a refusal."""


class StreamClasses:
    def __init__(self, settings: StreamSettings | None = None) -> None:
        self._settings = settings or StreamSettings()
        self._asked: dict[str, int] = {}
        self._steps: dict[str, int] = {}
        self._not_before_s: dict[str, float] = {}

    def see(self, server: str, kbit_s: float, fps: float) -> None:
        """Of the stream that it receives; 0 where it ended."""
        settings = self._settings
        is_fast = (kbit_s >= settings.fast_kbit_s, fps >= settings.fast_fps)
        if fps <= 0.0 or len(set(is_fast)) == 2:
            self._asked[server] = 0
        else:
            self._asked[server] = settings.steps if all(is_fast) else -settings.steps

    def wanted(self, now_s: float) -> Sequence[Wanted]:
        calls = []
        for server, asked in self._asked.items():
            steps = asked - self._steps.get(server, 0)
            if steps and now_s >= self._not_before_s.get(server, 0.0):
                direction = Direction.UP if steps > 0 else Direction.DOWN
                calls += [Wanted(Verb.TUNE, server, direction)] * abs(steps)
        return calls

    def answered(self, call: Wanted, nack: Nack | None, now_s: float) -> None:
        if nack is not None:
            self._not_before_s[call.server] = now_s + self._settings.retry_s
        else:
            step = 1 if call.direction is Direction.UP else -1
            self._steps[call.server] = self._steps.get(call.server, 0) + step
