# SPDX-License-Identifier: Apache-2.0
"""How many calls of overlays one process has under way, so that a silent host or one project keeps
nobody else waiting. In memory."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

AT_ONCE = 2
"""Calls of one project that wait for agents."""
SILENT_S = 10.0
"""So long after a host did not answer nobody is made to wait for it again."""


class TooManyWait(Exception):
    """Of one project."""

    def __init__(self) -> None:
        super().__init__(f"{AT_ONCE} calls of your project wait for an answer.")


class OverlayWaits:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: Counter[str] = Counter()
        self._silent: dict[str, float] = {}
        """When a host did not answer."""

    @contextmanager
    def one_of(self, project_id: str) -> Iterator[None]:
        """Raises TooManyWait."""
        with self._lock:
            if self._waiting[project_id] >= AT_ONCE:
                raise TooManyWait
            self._waiting[project_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting[project_id] -= 1
                if not self._waiting[project_id]:
                    del self._waiting[project_id]

    def is_silent(self, host: str, now_s: float) -> bool:
        with self._lock:
            return 0 <= now_s - self._silent.get(host, float("-inf")) < SILENT_S

    def note_silent(self, host: str, now_s: float) -> None:
        with self._lock:
            recent = {h: at for h, at in self._silent.items() if 0 <= now_s - at < SILENT_S}
            self._silent = {**recent, host: now_s}
