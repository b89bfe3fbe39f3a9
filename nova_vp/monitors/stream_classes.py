# SPDX-License-Identifier: Apache-2.0
"""Stream classes: a server that receives a fast stream is tuned up, one with a slow one down.

Source: the x86-IXP paper, 3.2: bit rate and frame rate, by receiver; and more threads of the
network processor for the receiver of a fast stream, in tandem. Where a stream is fast by one of the
rates and slow by the other, its server has what it has without any call.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nova_vp.core.types.overlay import CallResource, Direction, Nack, Verb
from nova_vp.monitors.base import Wanted


@dataclass(frozen=True, slots=True)
class StreamSettings:
    fast_kbit_s: float = 500.0
    fast_fps: float = 24.0
    """From both of them on a stream is fast; below both it is slow."""
    slow_ratio: float = 0.9
    """Of each of them, below which a stream that was fast by it is so no more: measured rates vary
    around those that are sent."""
    steps: int = 1
    """Of `tune` of the CPU, up or down."""
    io_steps: int = 0
    """Of `tune` of `io`, in the same direction."""
    renew_s: float = 100.0
    """How often what a server was granted is renewed: well within its lease."""
    retry_s: float = 5.0
    """After a refusal."""


class StreamClasses:
    def __init__(self, settings: StreamSettings | None = None) -> None:
        self._settings = settings or StreamSettings()
        self._is_fast: dict[str, tuple[bool, bool]] = {}
        """By bit rate, and by frame rate."""
        self._ways: dict[str, int] = {}
        """1: up; -1: down; 0: neither."""
        self._steps: dict[str, dict[CallResource, int]] = {}
        """By which each is tuned: below 0, down."""
        self._renewed_at_s: dict[str, float] = {}
        """Of servers that were granted something."""
        self._not_before_s: dict[str, float] = {}

    def see(self, server: str, kbit_s: float, fps: float) -> None:
        """Of the stream that it receives; 0 where it ended."""
        settings = self._settings
        was_fast = self._is_fast.get(server, (False, False))
        by_bits = kbit_s >= settings.fast_kbit_s * self._kept_ratio(was_fast[0])
        by_frames = fps >= settings.fast_fps * self._kept_ratio(was_fast[1])
        self._is_fast[server] = (by_bits, by_frames)
        if fps <= 0.0 or by_bits is not by_frames:
            self._ways[server] = 0
        else:
            self._ways[server] = 1 if by_bits else -1

    def _kept_ratio(self, was_fast: bool) -> float:
        return self._settings.slow_ratio if was_fast else 1.0

    def forget(self, server: str) -> None:
        """It is not there any more."""
        self._is_fast.pop(server, None)
        self._ways.pop(server, None)
        self._steps.pop(server, None)
        self._renewed_at_s.pop(server, None)
        self._not_before_s.pop(server, None)

    def wanted(self, now_s: float) -> Sequence[Wanted]:
        calls = []
        for server, way in self._ways.items():
            if now_s < self._not_before_s.get(server, 0.0):
                continue
            if self._is_due(server, now_s):
                calls.append(Wanted(Verb.RENEW, server))
            calls += self._tunes(server, CallResource.CPU, way * self._settings.steps)
            calls += self._tunes(server, CallResource.IO, way * self._settings.io_steps)
        return calls

    def _is_due(self, server: str, now_s: float) -> bool:
        if not any(self._steps.get(server, {}).values()):
            return False
        return now_s - self._renewed_at_s[server] >= self._settings.renew_s

    def _tunes(self, server: str, resource: CallResource, steps: int) -> list[Wanted]:
        missing = steps - self._steps.get(server, {}).get(resource, 0)
        direction = Direction.UP if missing > 0 else Direction.DOWN
        return [Wanted(Verb.TUNE, server, direction, resource=resource)] * abs(missing)

    def answered(self, call: Wanted, nack: Nack | None, now_s: float) -> None:
        server = call.server
        if nack is Nack.NOTHING_TO_RENEW:  # It ended, whatever the reason: begin anew.
            self._steps.pop(server, None)
        elif nack is not None:
            self._not_before_s[server] = now_s + self._settings.retry_s
        else:
            self._renewed_at_s[server] = now_s
            if call.verb is Verb.TUNE:
                has = self._steps.setdefault(server, {})
                step = 1 if call.direction is Direction.UP else -1
                has[call.resource] = has.get(call.resource, 0) + step
