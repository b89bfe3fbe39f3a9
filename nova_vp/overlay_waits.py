# SPDX-License-Identifier: Apache-2.0
"""How many calls of overlays one process has under way, so that a silent host or one project keeps
nobody else waiting. In memory."""

import threading
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager

AT_ONCE = 2
"""Calls of one project that wait for agents."""
AT_ONCE_OF_HOST = 3
"""Calls that wait for one host."""
SLOW_S = 2.0
"""A host that takes so long counts as silent."""
SILENT_S = 10.0
"""So long after a host did not answer nobody is made to wait for it again."""


class TooManyWait(Exception):
    """Of one project, or for one host."""


class OverlayWaits:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_project: Counter[str] = Counter()
        self._of_host: Counter[str] = Counter()
        self._silent: dict[str, float] = {}
        """When a host did not answer."""

    @contextmanager
    def one_of(self, project_id: str, hosts: Collection[str]) -> Iterator[None]:
        """A call of the project that waits for these hosts. Raises TooManyWait."""
        with self._lock:
            if self._of_project[project_id] >= AT_ONCE:
                raise TooManyWait(f"{AT_ONCE} calls of your project wait for an answer.")
            if any(self._of_host[host] >= AT_ONCE_OF_HOST for host in hosts):
                raise TooManyWait("Other calls wait for a host of this one.")
            self._count(project_id, hosts, 1)
        try:
            yield
        finally:
            with self._lock:
                self._count(project_id, hosts, -1)

    def _count(self, project_id: str, hosts: Collection[str], by: int) -> None:
        self._of_project[project_id] += by
        self._of_host.update(dict.fromkeys(hosts, by))
        # Those that are 0 are left out.
        self._of_project, self._of_host = +self._of_project, +self._of_host

    def is_silent(self, host: str, now_s: float) -> bool:
        with self._lock:
            return 0 <= now_s - self._silent.get(host, float("-inf")) < SILENT_S

    def note_silent(self, host: str, now_s: float) -> None:
        with self._lock:
            recent = {h: at for h, at in self._silent.items() if 0 <= now_s - at < SILENT_S}
            self._silent = {**recent, host: now_s}
