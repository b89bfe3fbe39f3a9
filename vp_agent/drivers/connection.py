# SPDX-License-Identifier: Apache-2.0
"""The agent's one connection to libvirt: opened when needed, again after libvirtd came back.

Errors of libvirt become driver errors here and nowhere else. Events arrive on a thread of their own
and are only handed on; nothing is read in it, so that a slow guest cannot hold up the others.
"""

import contextlib
import enum
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import libvirt

from vp_agent.drivers.base import ApplyFailed, DriverError, GuestGone, HostUnavailable
from vp_agent.drivers.journal_entry import NAMESPACE
from vp_agent.drivers.monitor_calls import MonitorCalls

Answer = TypeVar("Answer")


class Changed(enum.Enum):
    """What of a guest."""

    LIFE = "life"
    """Start, stop, reboot, suspend."""
    XML = "xml"
    JOURNAL = "journal"
    """Of its XML our entry alone."""


Listener = Callable[[str | None, Changed], None]
"""Called with a guest's UUID; None: any guest may have changed."""

KEEPALIVE_S = 5
KEEPALIVE_MISSES = 3
OPEN_TIMEOUT_S = 10.0
_GONE = (libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID)
_TRANSPORT = (libvirt.VIR_FROM_RPC, libvirt.VIR_FROM_REMOTE)
_NO_LIBVIRT = (libvirt.VIR_ERR_NO_CONNECT, libvirt.VIR_ERR_INVALID_CONN, libvirt.VIR_ERR_RPC)

_event_loop_lock = threading.Lock()
_event_loop: threading.Thread | None = None


def run_event_loop() -> None:
    """libvirt knows one event loop per process; it must run before a connection is opened."""
    global _event_loop
    with _event_loop_lock:
        if _event_loop is None:
            libvirt.virEventRegisterDefaultImpl()
            # Expected errors are raised; without a handler libvirt prints them as well.
            libvirt.registerErrorHandler(lambda *_: None, None)
            _event_loop = threading.Thread(target=_loop, name="libvirt-events", daemon=True)
            _event_loop.start()


def _loop() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


class Opening:
    """One try to connect. libvirt has no deadline for that, and a libvirtd that hangs would hold
    the tick, and with it the undo at a stop, for as long as it hangs."""

    def __init__(self, uri: str, timeout_s: float, *, is_read_only: bool) -> None:
        self._connection: Future[Any] = Future()
        self._until_s = time.monotonic() + timeout_s
        opens = libvirt.openReadOnly if is_read_only else libvirt.open
        threading.Thread(
            target=self._open, args=(opens, uri), name="libvirt-open", daemon=True
        ).start()

    def _open(self, opens: Callable[[str], Any], uri: str) -> None:
        try:
            self._connection.set_result(opens(uri))
        except libvirt.libvirtError as exc:
            self._connection.set_exception(exc)

    def result(self) -> Any:
        """Raises libvirtError, or TimeoutError; then it goes on and may be asked again."""
        return self._connection.result(max(0.0, self._until_s - time.monotonic()))


class Connection:
    def __init__(
        self, uri: str, open_timeout_s: float = OPEN_TIMEOUT_S, *, is_read_only: bool = False
    ) -> None:
        """`is_read_only`: libvirt itself refuses every change."""
        self._uri = uri
        self._is_read_only = is_read_only
        self._open_timeout_s = open_timeout_s
        self._opening: Opening | None = None
        self._connection: Any = None
        self._subscriptions: list[int] = []
        self._listeners: list[Listener] = []
        self._migrating: set[str] = set()
        self.monitor = MonitorCalls()
        """What reaches a guest's QEMU goes through this."""

    def listen(self, listener: Listener) -> None:
        """`listener` is called from the event thread and must only take a note."""
        self._listeners.append(listener)

    def call(self, ask: Callable[[Any], Answer]) -> Answer:
        """`ask` with the open connection, and once more with a new one if libvirtd was restarted
        meanwhile. Raises HostUnavailable, GuestGone or ApplyFailed."""
        try:
            return ask(self._connection or self._open())
        except libvirt.libvirtError as exc:
            if not _is_of_transport(exc):
                raise _translated(exc) from exc
            self.close()
        try:
            return ask(self._open())
        except libvirt.libvirtError as exc:
            raise self._unavailable(exc) if _is_of_transport(exc) else _translated(exc) from exc

    def change(self, uuid: str, act: Callable[[Any], Answer]) -> Answer:
        """`act` on a guest, unless a job runs there, or its QEMU hangs in a call of ours: libvirt
        would hold us for 30 seconds."""
        self.monitor.check(uuid)

        def ask(connection: Any) -> Answer:
            domain = connection.lookupByUUIDString(uuid)
            if _is_busy(domain):
                raise ApplyFailed(
                    f"server {uuid} is in a libvirt job (migration, backup); it is tried again "
                    "once the job has ended"
                )
            return act(domain)

        return self.call(ask)

    def is_migrating(self, uuid: str) -> bool:
        """Free of cost unless an event said so; then libvirt is asked until it has ended."""
        if uuid not in self._migrating:
            return False
        return self.check_migrating(uuid)

    def check_migrating(self, uuid: str) -> bool:
        """Asks libvirt: for guests whose events we cannot have seen."""
        is_busy = self.call(lambda c: _is_busy(c.lookupByUUIDString(uuid)))
        if is_busy:
            self._migrating.add(uuid)
        else:
            self._migrating.discard(uuid)
        return is_busy

    def close(self) -> None:
        """The next `call` opens it again."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        # A callback holds a reference, and with it the socket; a dead connection refuses all this.
        with contextlib.suppress(libvirt.libvirtError):
            connection.unregisterCloseCallback()
            for subscription in self._subscriptions:
                connection.domainEventDeregisterAny(subscription)
        with contextlib.suppress(libvirt.libvirtError):
            connection.close()

    def _open(self) -> Any:
        run_event_loop()
        try:
            connection = self._connect()
            connection.setKeepAlive(KEEPALIVE_S, KEEPALIVE_MISSES)
            connection.registerCloseCallback(self._on_close, None)
            self._subscribe(connection)
        except libvirt.libvirtError as exc:
            raise self._unavailable(exc) from exc
        self._connection = connection
        self._tell(None, Changed.LIFE)
        return connection

    def _connect(self) -> Any:
        self._opening = self._opening or Opening(
            self._uri, self._open_timeout_s, is_read_only=self._is_read_only
        )
        try:
            connection = self._opening.result()
        except TimeoutError as exc:
            raise self._unavailable("it accepts connections and hangs") from exc
        except libvirt.libvirtError:
            self._opening = None
            raise
        self._opening = None
        return connection

    def _subscribe(self, connection: Any) -> None:
        callbacks = {
            libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE: self._on_lifecycle,
            libvirt.VIR_DOMAIN_EVENT_ID_REBOOT: self._on_lifecycle,
            libvirt.VIR_DOMAIN_EVENT_ID_TUNABLE: self._on_xml,
            libvirt.VIR_DOMAIN_EVENT_ID_METADATA_CHANGE: self._on_metadata,
            libvirt.VIR_DOMAIN_EVENT_ID_BALLOON_CHANGE: self._on_xml,
            libvirt.VIR_DOMAIN_EVENT_ID_MIGRATION_ITERATION: self._on_migration,
        }
        self._subscriptions = [
            connection.domainEventRegisterAny(None, event, callback, None)
            for event, callback in callbacks.items()
        ]

    def _on_lifecycle(self, _connection: Any, domain: Any, *_details: Any) -> None:
        self._tell(domain.UUIDString(), Changed.LIFE)

    def _on_xml(self, _connection: Any, domain: Any, *_details: Any) -> None:
        self._tell(domain.UUIDString(), Changed.XML)

    def _on_metadata(
        self, _connection: Any, domain: Any, _kind: int, namespace: str | None, _opaque: Any
    ) -> None:
        is_ours = namespace == NAMESPACE
        self._tell(domain.UUIDString(), Changed.JOURNAL if is_ours else Changed.XML)

    def _on_migration(self, _connection: Any, domain: Any, *_details: Any) -> None:
        self._migrating.add(domain.UUIDString())

    def _on_close(self, _connection: Any, _reason: int, _opaque: Any) -> None:
        self._tell(None, Changed.LIFE)

    def _tell(self, uuid: str | None, what: Changed) -> None:
        for listener in self._listeners:
            listener(uuid, what)

    def _unavailable(self, why: libvirt.libvirtError | str) -> HostUnavailable:
        return HostUnavailable(
            f"libvirt at {self._uri} does not answer ({why}): check that libvirtd runs and that "
            "this user may connect (group libvirt)"
        )


def _is_busy(domain: Any) -> bool:
    try:
        return bool(domain.jobInfo()[0] != libvirt.VIR_DOMAIN_JOB_NONE)
    except libvirt.libvirtError as exc:
        # "migration statistics are available only on the source host": it is just arriving.
        if exc.get_error_code() == libvirt.VIR_ERR_OPERATION_UNSUPPORTED:
            return True
        raise


def _is_of_transport(exc: libvirt.libvirtError) -> bool:
    return exc.get_error_code() in _NO_LIBVIRT or exc.get_error_domain() in _TRANSPORT


def _translated(exc: libvirt.libvirtError) -> DriverError:
    if exc.get_error_code() in _GONE:
        return GuestGone(f"the server is no longer running: {exc}")
    return ApplyFailed(f"libvirt refused: {exc}; it is tried again, see libvirtd's log")
