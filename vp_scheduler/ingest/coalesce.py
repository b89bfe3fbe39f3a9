# SPDX-License-Identifier: Apache-2.0
"""Work on a thread of its own, done once for all who ask for it at about the same time.

All processes of a scheduler start, and ask, at once; what each answer is sent to is everybody.
"""

import threading
from collections.abc import Callable

GATHER_S = 1.0
"""For so long others may join who has asked."""


class Coalescer:
    def __init__(
        self, name: str, work: Callable[[bool], None], every_s: float | None = None
    ) -> None:
        """`work` is told whether somebody asked, or `every_s` passed. It must not raise."""
        self._work = work
        self._every_s = every_s
        self._changed = threading.Condition()
        self._is_asked = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask(self) -> None:
        with self._changed:
            self._is_asked = True
            self._changed.notify()

    def close(self, timeout_s: float) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while self._wait(lambda: self._is_asked, self._every_s):
            if not self._wait(lambda: False, GATHER_S):
                return
            with self._changed:
                is_asked, self._is_asked = self._is_asked, False
            self._work(is_asked)

    def _wait(self, condition: Callable[[], bool], timeout_s: float | None) -> bool:
        """False: it is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or condition(), timeout_s)
            return not self._is_closed
