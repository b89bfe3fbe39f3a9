# SPDX-License-Identifier: Apache-2.0
"""A second implementation of what we ask of systemd: `SetUnitProperties` of its manager, on a
system bus of its own (a real dbus-daemon), for scopes below a folder of cgroups.

As systemd it answers first and writes then, lets uid 0 alone change a unit, keeps what it was asked
in its own record and writes that again at a daemon-reload. It leaves out: all other methods and
properties, drop-ins on disk, polkit, jobs, other units than scopes, and the property of the other
cgroup version (systemd converts it).
"""

import contextlib
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from jeepney import HeaderFields, MessageType, new_error, new_method_return
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import DBusConnection, Proxy, open_dbus_connection

from tests.waiting import wait_until

NAME = "org.freedesktop.systemd1"
RANGES = {"CPUWeight": (1, 10_000), "CPUShares": (2, 262_144)}
Changes = list[tuple[str, str, int]]
WRITES_AFTER_S = 0.02
"""Its answer: longer than it takes to look."""
BUS = """\
<busconfig>
  <type>system</type>
  <listen>{listen}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/>
  </policy>
</busconfig>
"""


class Groups(Protocol):
    property_name: str
    """Of a scope's weight, on this version of cgroups."""
    slices: Path
    """The folder that stands for machine.slice."""

    def write(self, scope: Path, number: int) -> None: ...


class SystemdManager:
    def __init__(self, folder: Path, groups: Groups) -> None:
        self.address = f"unix:path={folder}/bus"
        self.booted = folder / "run-systemd-system"
        """There while it runs, as /run/systemd/system is."""
        self.master_uid = 0
        """Who alone may change a unit."""
        self._folder = folder
        self._groups = groups
        self._asked: dict[tuple[str, str], int] = {}

    def __enter__(self) -> "SystemdManager":
        self.booted.mkdir(parents=True)
        config = self._folder / "bus.conf"
        config.write_text(BUS.format(listen=self.address))
        self._bus = subprocess.Popen(["dbus-daemon", "--nofork", f"--config-file={config}"])
        connection = wait_until(self._connected, "the bus to answer")
        Proxy(message_bus, connection).RequestName(NAME)
        self._thread = threading.Thread(target=self._serve, args=(connection,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bus.terminate()
        self._bus.wait()
        self._thread.join()
        self.booted.rmdir()

    def daemon_reload(self) -> None:
        for (unit, name), number in self._asked.items():
            self._write(unit, name, number)

    def start_scope(self, unit: str, name: str, number: int) -> None:
        """Its cgroup is there, and this is what it was started with."""
        self._asked[unit, name] = number

    def stop_scope(self, unit: str) -> None:
        self._asked = {key: number for key, number in self._asked.items() if key[0] != unit}

    def _connected(self) -> DBusConnection | None:
        """Its socket has a name some time before it takes connections."""
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            return open_dbus_connection(self.address)
        return None

    def _serve(self, connection: DBusConnection) -> None:
        with connection:
            while True:
                try:
                    message = connection.receive()
                except ConnectionError:  # The bus has ended.
                    return
                if message.header.message_type is not MessageType.method_call:
                    continue
                error, changes = self._judged(connection, message)
                if error:
                    connection.send(new_error(message, *error))
                    continue
                connection.send(new_method_return(message))
                self._asked |= {(unit, name): number for unit, name, number in changes}
                threading.Timer(WRITES_AFTER_S, self.daemon_reload).start()

    def _judged(
        self, connection: DBusConnection, message: Any
    ) -> tuple[tuple[str, str, tuple[str]] | None, Changes]:
        """What is wrong with a call, or what it asks for."""
        fields = message.header.fields
        asked = fields[HeaderFields.interface], fields[HeaderFields.member]
        if asked != (f"{NAME}.Manager", "SetUnitProperties"):
            return _error("org.freedesktop.DBus.Error.UnknownMethod", f"no {asked}"), []
        unit, is_runtime, properties = message.body
        if self._uid_of(connection, fields[HeaderFields.sender]) != self.master_uid:
            return _error("org.freedesktop.DBus.Error.AccessDenied", "Access denied"), []
        if unit not in {known for known, _ in self._asked}:
            return _error(f"{NAME}.NoSuchUnit", f"Unit {unit} not found."), []
        for name, (kind, number) in properties:
            least, most = RANGES[name]
            if not is_runtime or kind != "t" or not least <= number <= most:
                return _error("org.freedesktop.DBus.Error.InvalidArgs", f"{name}={number}"), []
        return None, [(unit, name, number) for name, (_, number) in properties]

    def _uid_of(self, connection: DBusConnection, sender: str) -> int:
        return int(Proxy(message_bus, connection).GetConnectionUnixUser(sender)[0])

    def _write(self, unit: str, name: str, number: int) -> None:
        assert name == self._groups.property_name
        self._groups.write(self._groups.slices / unit, number)


def _error(name: str, words: str) -> tuple[str, str, tuple[str]]:
    return name, "s", (words,)
