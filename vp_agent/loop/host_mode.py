# SPDX-License-Identifier: Apache-2.0
"""The mode of this host: the tightest of what is set for the cloud, its aggregates, and itself.

That of the cloud and of aggregates vp-scheduler tells, in which aggregates the host is the facts of
Nova say; the host's own is set by vp-api or by `vp-agent mode`. All of it is kept in the state
folder, so that a restart or an absent vp-scheduler changes nothing.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from nova_vp import wire
from nova_vp.cloud_modes import NO_MODES, CloudModes, modes_text, read_modes
from nova_vp.core.types.mode_levels import ModeLevel, SetMode, effective
from nova_vp.core.types.policy import Mode
from vp_agent.loop.latest_message import LatestMessage
from vp_agent.loop.state import StateFolder
from vp_agent.loop.told_facts import ToldFacts

LOG = logging.getLogger(__name__)


class ToldModes(NamedTuple):
    version: int = 0
    """0: nobody told anything."""
    modes: CloudModes = NO_MODES
    checksum: str = NO_MODES.checksum


NO_TOLD_MODES = ToldModes()
_OBSERVE = CloudModes(Mode.OBSERVE)
LOST_MODES = ToldModes(0, _OBSERVE, _OBSERVE.checksum)
"""What was told is lost, and may have been the tightest."""


class HostModes(NamedTuple):
    """As reports have it."""

    told: ToldModes
    levels: tuple[SetMode, ...]
    """Those that are set and hold for this host, the broadest first."""
    knows_aggregates: bool
    """False: those of all aggregates hold."""

    @property
    def source(self) -> SetMode:
        return effective(self.levels)


NO_HOST_MODES = HostModes(NO_TOLD_MODES, (), False)


class HostMode:
    def __init__(
        self,
        state: StateFolder,
        default: Mode | None,
        facts: ToldFacts | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`default`: the host's own, if none was ever set here. `facts`: None: nobody tells them.
        `clock`: seconds since 1970."""
        self._state = state
        self._facts = facts
        self._lock = threading.Lock()
        self._own = state.mode(default)
        self._latest = LatestMessage("modes of the cloud", self._kept(), self._write, clock)

    def take(self, text: object) -> None:
        """What is set for the cloud and for aggregates. Older messages than the one in use are
        ignored. Raises wire.BadMessage, and OSError where the state folder refuses: nothing has
        changed then."""
        version, modes = read_modes(text)
        with self._lock:
            self._latest.take(version, lambda known: ToldModes(known, modes, modes.checksum))

    def set_own(self, mode: Mode | None) -> None:
        """None: the host has no mode of its own any more. Raises OSError."""
        with self._lock:
            self._state.set_mode(mode)
            self._own = mode

    def force_own(self, mode: Mode) -> None:
        """Until the next start, although it cannot be saved."""
        with self._lock:
            self._own = mode

    def now(self) -> HostModes:
        facts = self._facts.told if self._facts else None
        is_known = facts is not None and facts.read_at > 0
        aggregates = facts.facts.aggregates if facts is not None and is_known else None
        with self._lock:
            own = (SetMode(self._own, ModeLevel.HOST),) if self._own else ()
            told = self._latest.content
            return HostModes(told, told.modes.of_host(aggregates) + own, is_known)

    def _write(self, told: ToldModes) -> None:
        self._state.set_modes(modes_text(told.version, told.modes))

    def _kept(self) -> ToldModes:
        text = self._state.modes()
        if text is None:
            return NO_TOLD_MODES
        try:
            version, modes = read_modes(text)
        except wire.BadMessage as exc:
            LOG.error(
                "modes.json is not readable (%s): observing until vp-scheduler tells the modes of"
                " the cloud; without a vp-scheduler, delete the file and restart",
                exc,
            )
            return LOST_MODES
        return ToldModes(version, modes, modes.checksum)
