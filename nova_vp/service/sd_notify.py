# SPDX-License-Identifier: Apache-2.0
"""What a service tells systemd of itself: that it is ready, and that it still works.

sd_notify(3) without a library: one datagram. Where no systemd started us there is nobody to tell.
"""

import contextlib
import os
import socket

READY, WATCHDOG, STOPPING = "READY=1", "WATCHDOG=1", "STOPPING=1"
_VARIABLE = "NOTIFY_SOCKET"


def notify(*states: str) -> None:
    """Never waits and never raises: systemd, which hears nothing then, does what the unit says."""
    address = os.environ.get(_VARIABLE, "")
    if not address:
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"  # Linux's abstract names.
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.sendto("\n".join(states).encode(), address)
