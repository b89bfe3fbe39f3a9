# SPDX-License-Identifier: Apache-2.0
"""How many calls of overlays one vp-api process has under way, so that a silent host or one project
keeps nobody else waiting. In memory."""

import threading
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from vp_api.project_rate import ProjectRate, TooMany

AT_ONCE = 2
"""Calls of one project that wait for agents."""
SILENT_S = 10.0
"""So long after a host did not answer nobody is made to wait for it again."""


class HostSilent(Exception):
    """A host did not answer a moment ago."""


class OverlayLimits:
    """Thread-safe."""

    def __init__(self) -> None:
        self.rate = ProjectRate("calls and changes of overlays", "overlay_requests_per_s")
        self._lock = threading.Lock()
        self._waiting: Counter[str] = Counter()
        self._silent: dict[str, float] = {}
        """When a host did not answer."""

    @contextmanager
    def waiting(self, project_id: str, hosts: Collection[str], now_s: float) -> Iterator[None]:
        """Raises TooMany and HostSilent."""
        with self._lock:
            self._silent = {
                host: at for host, at in self._silent.items() if 0 <= now_s - at < SILENT_S
            }
            if not self._silent.keys().isdisjoint(hosts):
                raise HostSilent
            if self._waiting[project_id] >= AT_ONCE:
                raise TooMany(f"{AT_ONCE} calls of your project wait for an answer.", 1.0)
            self._waiting[project_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting[project_id] -= 1
                if not self._waiting[project_id]:
                    del self._waiting[project_id]

    def note_silent(self, host: str, now_s: float) -> None:
        with self._lock:
            self._silent[host] = now_s
