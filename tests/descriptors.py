# SPDX-License-Identifier: Apache-2.0
"""The open files of this process. Others of its tests leave some to the garbage collector, so that
a test counts what is its own."""

import os
from pathlib import Path

OF_PERF = "anon_inode:[perf_event]"


def own_fds(target: Path | str) -> int:
    """How many lead to that target, or below it."""
    folder = Path("/proc/self/fd")
    count = 0
    for name in os.listdir(folder):
        try:
            leads_to = os.readlink(folder / name)
        except FileNotFoundError:  # The one that lists them.
            continue
        count += leads_to == str(target) or leads_to.startswith(f"{target}/")
    return count
