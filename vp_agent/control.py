# SPDX-License-Identifier: Apache-2.0
"""The operator's hand on a running agent: mode, accepted proposals, release; and what it shows.

Orders arrive on other threads and are taken up by the next tick; the last decision is kept for
whoever asks. Nothing here decides or touches a guest.
"""

import logging
import threading
from dataclasses import dataclass

from nova_vp.core.model import Decision, Mode
from vp_agent.commands import NotAdvising, UnknownAction
from vp_agent.state import StateFolder

LOG = logging.getLogger(__name__)
RELEASE_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Orders:
    mode: Mode
    approved: frozenset[str]


class Control:
    """Implements `Commands`."""

    def __init__(self, state: StateFolder, default_mode: Mode) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._mode = state.mode(default_mode)
        self._approved: frozenset[str] = frozenset()
        self._decision: Decision | None = None
        self._release_wanted = threading.Event()
        self._release_done = threading.Event()
        self._release_ok = False

    def orders(self) -> Orders:
        with self._lock:
            return Orders(self._mode, self._approved)

    def set_mode(self, mode: Mode) -> None:
        with self._lock:
            self._state.set_mode(mode)
            self._hold(mode)

    def _hold(self, mode: Mode) -> None:
        self._mode = mode
        self._approved = frozenset()

    def accept(self, action_id: str) -> None:
        with self._lock:
            if self._mode is not Mode.ADVISE:
                raise NotAdvising(
                    f"the mode is {self._mode.value}: proposals are accepted in mode advise only; "
                    "set it with `openstack vp host set HOST --mode advise` or "
                    "`vp-agent mode advise`"
                )
            standing = [a.id for a in self._decision.proposals] if self._decision else []
            if action_id not in standing:
                listed = ", ".join(standing) or "none"
                raise UnknownAction(f"no proposal {action_id!r} stands now; standing: {listed}")
            self._approved |= {action_id}

    def show(self, decision: Decision) -> None:
        """Keep the decision for those who ask; forget approvals whose proposal is gone."""
        with self._lock:
            self._decision = decision
            self._approved &= {action.id for action in decision.proposals}

    def last(self) -> Decision | None:
        with self._lock:
            return self._decision

    def release(self) -> bool:
        """Switch to observe and give every guest back. Blocks until the tick has done it."""
        try:
            self.set_mode(Mode.OBSERVE)
        except OSError as exc:
            LOG.error("mode observe is forgotten at the next start, it cannot be saved: %s", exc)
            with self._lock:
                self._hold(Mode.OBSERVE)
        self._release_done.clear()
        self._release_wanted.set()
        return self._release_done.wait(RELEASE_TIMEOUT_S) and self._release_ok

    def release_requested(self) -> bool:
        return self._release_wanted.is_set()

    def released(self, is_complete: bool) -> None:
        self._release_ok = is_complete
        self._release_wanted.clear()
        self._release_done.set()
