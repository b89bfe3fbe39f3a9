# SPDX-License-Identifier: Apache-2.0
"""The scope that systemd keeps for a machine: which one it is, and its CPU weight.

What is written into a scope's cgroup past systemd lasts until systemd writes its own value again
(`systemctl daemon-reload`), so it is asked, by the same call as libvirt makes and, as for libvirt,
until the scope ends. `set_weight` also runs in the privileged helper (`vp_agent.privsep_root`),
which is told a process, never a unit.
"""

import errno
import os
from contextlib import closing
from pathlib import Path
from typing import Any

from jeepney import DBusAddress, DBusErrorResponse, new_method_call
from jeepney.auth import AuthenticationError
from jeepney.bus import get_bus
from jeepney.io.blocking import DBusConnection, prep_socket
from jeepney.wrappers import unwrap_msg

from vp_agent.drivers.cgroups import CpuGroup, machine_group_of

BOOTED = Path("/run/systemd/system")
"""There on hosts that systemd runs, and on no others: sd_booted(3)."""
DEADLINE_S = 5.0
"""Of each answer: systemd is slow while it reloads."""
_SCOPE = ".scope"
_MANAGER = DBusAddress(
    "/org/freedesktop/systemd1",
    bus_name="org.freedesktop.systemd1",
    interface="org.freedesktop.systemd1.Manager",
)
_NO_SUCH_UNIT = "org.freedesktop.systemd1.NoSuchUnit"
_REFUSED = (
    "org.freedesktop.DBus.Error.AccessDenied",
    "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired",
)


class _Connection(DBusConnection):  # type: ignore[misc]  # jeepney is not typed.
    """Its own greeting has no deadline."""

    def receive(self, *, timeout: float | None = None) -> Any:
        return super().receive(timeout=DEADLINE_S if timeout is None else timeout)


def unit_of(group: CpuGroup) -> str | None:
    """The scope of a machine's group; None where systemd manages none."""
    name = os.path.basename(group.path)
    return name if name.endswith(_SCOPE) and BOOTED.is_dir() else None


def set_weight(pid: int, started: int, number: int) -> None:
    """Of the scope of this very process's machine; systemd writes it a moment after its answer.

    Raises OSError: ESRCH, NoCpuGroup, EPERM, or that systemd cannot be asked.
    """
    group = machine_group_of(pid, started)
    unit = unit_of(group)
    if unit is None:
        raise ProcessLookupError(f"{group.path} is no scope of systemd's any more")
    name = "CPUWeight" if group.is_unified else "CPUShares"
    _call("SetUnitProperties", "sba(sv)", (unit, True, [(name, ("t", number))]))


def _call(method: str, signature: str, body: tuple[Any, ...]) -> None:
    message = new_method_call(_MANAGER, method, signature, body)
    try:
        bus = prep_socket(get_bus("SYSTEM"), timeout=DEADLINE_S)
        # A connection that is not greeted leaves its socket open.
        with closing(bus), _Connection(bus) as connection:
            unwrap_msg(connection.send_and_get_reply(message))
    except DBusErrorResponse as exc:
        raise _translated(exc) from exc
    except (AuthenticationError, OSError) as exc:
        code = getattr(exc, "errno", None) or errno.ETIMEDOUT
        why = exc if str(exc) else f"not within {DEADLINE_S:g} s"
        raise OSError(code, f"systemd or the system bus does not answer: {why}") from exc


def _translated(exc: DBusErrorResponse) -> OSError:
    said = " ".join(map(str, exc.data)) or exc.name
    if exc.name == _NO_SUCH_UNIT:
        return ProcessLookupError(said)
    return OSError(errno.EPERM if exc.name in _REFUSED else errno.EIO, said)
