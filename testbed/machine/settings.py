# SPDX-License-Identifier: Apache-2.0
"""Folders, names and deadlines of the machine with real systemd, each written once."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MACHINE = ROOT / "testbed" / "machine"
CACHE = ROOT / ".cache" / "machine"
GUEST_PACKAGES = MACHINE / "packages.txt"
DEFAULT_NAME = "machine"


@dataclass(frozen=True)
class Place:
    """Where what belongs to one machine lies. `name` is its host name, too."""

    name: str = DEFAULT_NAME

    @property
    def run(self) -> Path:
        """Gone when it is down."""
        return CACHE / "run" / self.name

    @property
    def groups(self) -> Path:
        return self.run / "groups"

    @property
    def upper(self) -> Path:
        return self.run / "upper"

    @property
    def work(self) -> Path:
        return self.run / "work"

    @property
    def merged(self) -> Path:
        return self.run / "root"

    @property
    def group_name(self) -> str:
        return f"nova-vp-machine-{self.name}"

    @property
    def console_log(self) -> Path:
        return CACHE / f"console-{self.name}.log"


SUITES = {"12": "bookworm", "13": "trixie"}
"""Debian's releases, the first of which is made unless told otherwise."""
CIDR, NAMESERVER = "10.78.0.0/24", "10.78.0.3"

MASKED = (
    "systemd-modules-load.service",
    "systemd-sysctl.service",
    "systemd-udevd.service",
    "systemd-udev-trigger.service",
    "systemd-udevd-control.socket",
    "systemd-udevd-kernel.socket",
    "systemd-timesyncd.service",
    "systemd-networkd.service",
    "systemd-resolved.service",
    "console-getty.service",
    "container-getty@.service",
    "getty@.service",
)
"""Units that would change kernel, clock or devices of this host, or wait for a console."""

BOOT_DEADLINE_S = 60.0
END_DEADLINE_S = 20.0
