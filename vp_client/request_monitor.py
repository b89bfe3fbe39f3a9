# SPDX-License-Identifier: Apache-2.0
"""Monitors inside an application: that of request classes counts requests and calls the overlay on
a thread of its own; all others are run by `make_calls`.

What follows from what was seen is decided in `nova_vp.monitors`.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType

from nova_vp.core.types.overlay import Nack, Verb
from nova_vp.monitors.base import Monitor, Wanted, make_in_order
from nova_vp.monitors.request_classes import RequestClasses, RequestSettings
from vp_client.errors import VpError
from vp_client.overlay import CallResult, Overlay

LOG = logging.getLogger(__name__)
LOOK_S = 5.0
_KNOWN = {one.value: one for one in Nack}


def make_calls(overlay: Overlay, monitor: Monitor) -> bool:
    """Make the calls that any monitor wants now, and tell it the answers. Returns whether one was
    granted. What vp-api does not answer the monitor takes for a refusal."""
    calls = monitor.wanted(time.monotonic())
    return make_in_order(monitor, calls, lambda call: _nack_of(overlay, call), time.monotonic)


def _nack_of(overlay: Overlay, wanted: Wanted) -> Nack | None:
    try:
        result = _call(overlay, wanted)
    except VpError as exc:
        LOG.warning("the overlay is not called now: %s", exc)
        return Nack.HOST_REFUSED
    return None if result.granted else _KNOWN.get(result.nack or "", Nack.HOST_REFUSED)


def _call(overlay: Overlay, wanted: Wanted) -> CallResult:
    server = wanted.server
    if wanted.verb is Verb.BORROW:
        return overlay.borrow(wanted.cpus, server, wanted.lease_s)
    if wanted.verb is Verb.TRIGGER:
        return overlay.trigger(server, wanted.lease_s)
    if wanted.verb is Verb.RENEW:
        return overlay.renew(server, wanted.lease_s)
    if wanted.verb is Verb.RELEASE:
        return overlay.release(server)
    return overlay.tune(wanted.resource.value, wanted.direction.value, server, wanted.lease_s)


class RequestMonitor:
    """Count each request as it arrives, from any thread; within the `with` block the overlay is
    called every five seconds. At its end all that was granted goes back.

    No error of vp-api reaches the application: what is not answered is tried again later.
    """

    def __init__(
        self,
        overlay: Overlay,
        servers_of: Mapping[str, Sequence[str]],
        settings: RequestSettings | None = None,
    ) -> None:
        """`overlay` is called by this monitor alone. `servers_of`: by class, the ids of the servers
        that its requests keep busy."""
        self._overlay = overlay
        self._monitor = RequestClasses(servers_of, settings)
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._has_grants = False
        self._thread = threading.Thread(target=self._run, name="vp-overlay", daemon=True)

    def count(self, request_class: str) -> None:
        with self._lock:
            self._counts[request_class] += 1

    def look(self) -> None:
        """Once, for applications that have a loop of their own instead of the `with` block."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        self._monitor.see(counts, time.monotonic())
        self._has_grants = make_calls(self._overlay, self._monitor) or self._has_grants

    def _run(self) -> None:
        while not self._is_over.wait(LOOK_S):
            self.look()

    def __enter__(self) -> "RequestMonitor":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()
        if self._has_grants:
            try:
                self._overlay.release()
            except VpError as error:
                LOG.warning("what was granted ends with its lease: %s", error)
