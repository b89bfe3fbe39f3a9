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
from nova_vp.server_override import remembered_version
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
        self._clock = clock
        self._lock = threading.Lock()
        self._told = self._read()

    @property
    def told(self) -> ToldOverlays:
        return self._told

    @property
    def by_id(self) -> Mapping[str, Overlay]:
        return self._told.by_id

    def take(self, text: object) -> int | None:
        """None: they hold. Else they are ignored, and this is the newer version that holds. Raises
        wire.BadMessage and OSError."""
        version, overlays = read_overlays(text)
        with self._lock:
            in_use = self._remembered(self._told.version)
            self._told = self._told._replace(version=in_use)
            if version < in_use:
                return in_use
            told = _told(self._remembered(version), overlays)
            if told != self._told:
                self._state.set_orders(FILE, overlays_text(told.version, overlays))
                self._told = told
        return None

    def _remembered(self, version: int) -> int:
        """None that is further ahead than any that a service gives: it would outlast them all."""
        return remembered_version(version, int(self._clock() * 1000))

    def _read(self) -> ToldOverlays:
        text = self._state.orders(FILE)
        if text is None:
            return NO_OVERLAYS
        try:
            version, overlays = read_overlays(text)
        except wire.BadMessage as exc:
            LOG.warning("%s is not readable (%s): no overlays until they are told anew", FILE, exc)
            return NO_OVERLAYS
        return _told(self._remembered(version), overlays)
