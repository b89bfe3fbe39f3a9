# SPDX-License-Identifier: Apache-2.0
"""The libvirtd of this machine itself, as systemd runs it, in the place of a private one.

For the machine of `testbed/cgroup2`, which is there for nothing else: its guests are in scopes of
machine.slice, by systemd-machined, and run as Debian's user of QEMU under AppArmor.
"""

import subprocess
from pathlib import Path

from testbed.cgroup2.settings import MACHINE
from tests.libvirt_host import LibvirtHost

UNITS = ("libvirtd.socket", "libvirtd-ro.socket", "libvirtd-admin.socket", "libvirtd.service")
IS_HERE = MACHINE.marker
FIRMWARE = Path("/var/lib/libvirt/images")
"""Where QEMU's user may read."""


class SystemLibvirt(LibvirtHost):
    def __init__(self) -> None:
        super().__init__(Path("/"))
        self.uri = "qemu:///system"

    def start(self) -> "SystemLibvirt":
        self.start_libvirtd()
        return self

    def stop(self) -> None:
        """It stays, as it was found."""

    def inside(self) -> list[str]:
        return []

    def stop_libvirtd(self) -> None:
        """Its sockets would start it again."""
        systemctl("stop", *UNITS)

    def start_libvirtd(self) -> None:
        systemctl("start", *UNITS)
        self._wait_for_libvirtd()

    def reload(self) -> None:
        systemctl("daemon-reload")


def systemctl(*words: str) -> None:
    subprocess.run(["systemctl", *words], check=True)
