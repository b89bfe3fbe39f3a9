# SPDX-License-Identifier: Apache-2.0
"""Two agents that report under one host name: a cloned image, or `[agent] host` copied.

Each run of an agent has an epoch, larger than that of the run before it, and of two agents only the
one with the larger epoch is believed. A message of the smaller epoch may be a late one of a run
that has ended; messages live for three minutes. So who is heard for longer than that beside a
larger epoch, which is heard after it again, is another agent.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nova_vp import wire

LOG = logging.getLogger(__name__)
TOLD_EVERY_S = 3600.0
MAX_HOSTS = 20_000


@dataclass(frozen=True, slots=True)
class _Heard:
    epoch: int
    first_s: float
    """When the largest epoch was heard first."""
    other_epoch: int = 0
    """A smaller one that was heard too late for a run that has ended; 0: none."""
    told_s: float | None = None


class SameName:
    """Takes every report of every host, from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._heard: dict[str, _Heard] = {}

    def heard(self, report: Mapping[str, Any]) -> None:
        host, now_s = report["host"], self._clock()
        with self._lock:
            before = self._heard.get(host)
            if before is None and len(self._heard) >= MAX_HOSTS:
                return
            self._heard[host] = self._next(host, before, report["epoch"], now_s)

    def _next(self, host: str, before: _Heard | None, epoch: int, now_s: float) -> _Heard:
        if before is None or epoch > before.epoch:
            return _Heard(epoch, now_s, told_s=before.told_s if before else None)
        if epoch < before.epoch:
            is_late = now_s > before.first_s + wire.EXPIRE_S
            return replace(before, other_epoch=epoch) if is_late else before
        if not before.other_epoch:
            return before
        return replace(before, other_epoch=0, told_s=self._tell(host, before, now_s))

    def _tell(self, host: str, before: _Heard, now_s: float) -> float:
        if before.told_s is not None and now_s < before.told_s + TOLD_EVERY_S:
            return before.told_s
        LOG.warning(
            "host=%s two agents report under this name (epochs %d and %d): only the later is "
            "believed. Set [agent] host of each to its nova-compute's [DEFAULT] host, and give "
            "each a key of its own",
            host,
            before.other_epoch,
            before.epoch,
        )
        return now_s
