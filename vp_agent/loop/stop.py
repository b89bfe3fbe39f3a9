# SPDX-License-Identifier: Apache-2.0
"""What ends the agent, for a thread that waits for more than that."""

import threading
from collections.abc import Callable


class Stop(threading.Event):
    """Wakes whoever waits for other things too."""

    def __init__(self) -> None:
        super().__init__()
        self._listeners: list[Callable[[], None]] = []

    def tell(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def set(self) -> None:
        super().set()
        for listener in self._listeners:
            listener()
