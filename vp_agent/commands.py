# SPDX-License-Identifier: Apache-2.0
"""What an operator can tell a running agent, whichever way the order comes in (bus or socket)."""

from typing import Protocol

from nova_vp.core.model import Mode


class UnknownAction(Exception):
    """No proposal of that id stands now. The message lists those that do."""


class NotAdvising(Exception):
    """Proposals can be accepted in mode `advise` only. The message says how to get there."""


class Commands(Protocol):
    """Thread-safe; takes effect with the next tick."""

    def set_mode(self, mode: Mode) -> None:
        """Remembered across restarts. Raises OSError where the state folder refuses."""

    def accept(self, action_id: str) -> None:
        """Raises UnknownAction or NotAdvising."""
