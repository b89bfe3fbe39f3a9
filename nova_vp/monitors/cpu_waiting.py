# SPDX-License-Identifier: Apache-2.0
"""CPU waiting: a server that waits for CPUs for a while borrows one, and gives back what it leaves
idle.

Source: thesis 2013, 4.3.2 and 4.5.1: reactive monitors that watch the utilisation of islands.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nova_vp.core.types.overlay import Nack, Verb
from nova_vp.monitors.base import Wanted

TARGET_UNIT = "waiting_ratio"
"""Of an overlay's target that this monitor acts on."""


@dataclass(frozen=True, slots=True)
class WaitingSettings:
    waiting_ratio: float = 0.2
    """Of the CPU time that it wants, from which a server borrows."""
    idle_cores: float = 1.5
    """That its CPUs have left, from which it gives back what it borrowed."""
    samples: int = 3
    """In a row, before either."""
    most_cpus: int = 2
    """Borrowed for one server."""
    lease_s: float = 60.0
    retry_s: float = 5.0
    """After a refusal."""


class CpuWaiting:
    def __init__(self, settings: WaitingSettings | None = None) -> None:
        self._settings = settings or WaitingSettings()
        self._waits: dict[str, int] = {}
        self._idles: dict[str, int] = {}
        self._borrowed: dict[str, int] = {}
        self._ends_s: dict[str, float] = {}
        self._not_before_s: dict[str, float] = {}

    def see(
        self, server: str, waiting_ratio: float, idle_cores: float, target: float | None = None
    ) -> None:
        """One sample: how long it waited, and what the CPUs that it may use had left. `target`: the
        ratio of its overlay, in place of that of the settings."""
        settings = self._settings
        is_waiting = waiting_ratio >= (settings.waiting_ratio if target is None else target)
        is_idle = idle_cores >= settings.idle_cores and not is_waiting
        self._waits[server] = self._waits.get(server, 0) + 1 if is_waiting else 0
        self._idles[server] = self._idles.get(server, 0) + 1 if is_idle else 0

    def forget(self, server: str) -> None:
        """It is not there any more."""
        for known in (self._waits, self._idles, self._borrowed, self._ends_s, self._not_before_s):
            known.pop(server, None)

    def wanted(self, now_s: float) -> Sequence[Wanted]:
        settings, calls = self._settings, []
        for server, waits in self._waits.items():
            if now_s >= self._ends_s.get(server, now_s):
                self._borrowed[server] = 0
            has = self._borrowed[server]
            if has and self._idles[server] >= settings.samples:
                calls.append(Wanted(Verb.RELEASE, server))
            elif waits >= settings.samples and self._may_borrow(server, now_s):
                calls.append(Wanted(Verb.BORROW, server, cpus=1, lease_s=settings.lease_s))
        return calls

    def _may_borrow(self, server: str, now_s: float) -> bool:
        has_room = self._borrowed[server] < self._settings.most_cpus
        return has_room and now_s >= self._not_before_s.get(server, 0.0)

    def answered(self, call: Wanted, nack: Nack | None, now_s: float) -> None:
        server, settings = call.server, self._settings
        self._waits[server] = 0
        if call.verb is Verb.RELEASE:
            self._borrowed[server] = 0
        elif nack is not None:
            self._not_before_s[server] = now_s + settings.retry_s
        else:
            self._borrowed[server] += 1
            self._ends_s[server] = now_s + settings.lease_s
