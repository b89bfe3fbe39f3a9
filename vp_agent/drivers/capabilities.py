# SPDX-License-Identifier: Apache-2.0
"""Which Linux capabilities this process holds: what it lacks goes through a privileged helper."""

from pathlib import Path

CAP_DAC_OVERRIDE = 1
CAP_NET_RAW = 13
CAP_SYS_PTRACE = 19
CAP_SYS_NICE = 23


def has_capability(number: int) -> bool:
    status = Path("/proc/self/status").read_text()
    effective = next(line for line in status.splitlines() if line.startswith("CapEff"))
    return bool(int(effective.split()[1], 16) >> number & 1)
