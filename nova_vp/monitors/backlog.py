# SPDX-License-Identifier: Apache-2.0
"""Network backlog: packets wait for a server that does not run, so it is triggered.

Source: the x86-IXP paper, 3.2: 128 KiB in the buffer of a receiver. Packets that were lost since
say the same, and too late.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nova_vp.core.types.overlay import Nack, Verb
from nova_vp.monitors.base import Wanted


@dataclass(frozen=True, slots=True)
class BacklogSettings:
    limit_kib: float = 128.0
    """Waiting for one server, from which it is triggered."""
    lease_s: float = 0.25
    """Of each trigger: as short as it takes to empty the buffer, since credit is short."""
    retry_s: float = 0.25
    """After a refusal."""


class NetworkBacklog:
    def __init__(self, settings: BacklogSettings | None = None) -> None:
        self._settings = settings or BacklogSettings()
        self._behind: dict[str, bool] = {}
        self._lost: dict[str, int] = {}
        self._not_before_s: dict[str, float] = {}

    def see(self, server: str, waiting_kib: float, lost: int) -> None:
        """`lost`: packets for it that were dropped, ever."""
        is_losing = lost > self._lost.get(server, lost)
        self._lost[server] = lost
        self._behind[server] = waiting_kib > self._settings.limit_kib or is_losing

    def forget(self, server: str) -> None:
        """It is not there any more."""
        self._behind.pop(server, None)
        self._lost.pop(server, None)
        self._not_before_s.pop(server, None)

    def wanted(self, now_s: float) -> Sequence[Wanted]:
        return [
            Wanted(Verb.TRIGGER, server, lease_s=self._settings.lease_s)
            for server, is_behind in self._behind.items()
            if is_behind and now_s >= self._not_before_s.get(server, 0.0)
        ]

    def answered(self, call: Wanted, nack: Nack | None, now_s: float) -> None:
        span_s = self._settings.lease_s if nack is None else self._settings.retry_s
        self._not_before_s[call.server] = now_s + span_s
