# SPDX-License-Identifier: Apache-2.0
"""The overlays that this host was told of, in a file of the state folder: a restart knows them.

They arrive on other threads, each message with all of them; the tick asks what holds.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from nova_vp import wire
from nova_vp.core.types.overlay import Overlay
from nova_vp.overlay_message import checksum, overlays_text, read_overlays
from vp_agent.loop.latest_message import LatestMessage
from vp_agent.loop.state import StateFolder

LOG = logging.getLogger(__name__)
FILE = "overlays.json"


class ToldOverlays(NamedTuple):
    version: int
    by_id: Mapping[str, Overlay]
    checksum: str


def _told(version: int, overlays: tuple[Overlay, ...]) -> ToldOverlays:
    return ToldOverlays(version, {one.id: one for one in overlays}, checksum(overlays))


NO_OVERLAYS = _told(0, ())


class HostOverlays:
    def __init__(self, state: StateFolder, clock: Callable[[], float] = time.time) -> None:
        """`clock`: seconds since 1970."""
        self._state = state
        self._lock = threading.Lock()
        self._latest = LatestMessage("overlays", self._read(), self._write, clock)

    @property
    def told(self) -> ToldOverlays:
        return self._latest.content

    @property
    def by_id(self) -> Mapping[str, Overlay]:
        return self.told.by_id

    def take(self, text: object) -> int | None:
        """None: they hold. Else they are ignored, and this is the newer version that holds. Raises
        wire.BadMessage and OSError."""
        version, overlays = read_overlays(text)
        with self._lock:
            return self._latest.take(version, lambda known: _told(known, overlays))

    def _write(self, told: ToldOverlays) -> None:
        self._state.set_message(FILE, overlays_text(told.version, told.by_id.values()))

    def _read(self) -> ToldOverlays:
        text = self._state.message(FILE)
        if text is None:
            return NO_OVERLAYS
        try:
            version, overlays = read_overlays(text)
        except wire.BadMessage as exc:
            LOG.warning("%s is not readable (%s): no overlays until they are told anew", FILE, exc)
            return NO_OVERLAYS
        return _told(version, overlays)
