# SPDX-License-Identifier: Apache-2.0
"""Folders, names and deadlines of the machine with real systemd, each written once."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MACHINE = ROOT / "testbed" / "machine"
CACHE = ROOT / ".cache" / "machine"
GUEST_PACKAGES = MACHINE / "packages.txt"
RUN = CACHE / "run"
"""What belongs to the machine that runs now; gone when it is down."""
GROUPS = RUN / "groups"
UPPER, WORK, MERGED = RUN / "upper", RUN / "work", RUN / "root"
CONSOLE_LOG = CACHE / "console.log"

NAME = "nova-vp-machine"
SUITES = {"12": "bookworm", "13": "trixie"}
"""Debian's releases, the first of which is made unless told otherwise."""
CIDR, NAMESERVER = "10.78.0.0/24", "10.78.0.3"

MASKED = (
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
