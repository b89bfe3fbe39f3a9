# SPDX-License-Identifier: Apache-2.0
"""How far a host's guests fell behind their modelled clock: whether a measurement counts.

A guest whose host CPU could not keep up runs slower than the model says, for a reason that has
nothing to do with caches. Measurements with more than five hundredths of debt are repeated.
"""

import json
import subprocess

from devstack.lab import cloud, settings

MAX_RATIO = 0.05
WINDOW_MS = 2000


def worst_debt_ratio(host: str) -> float:
    """The largest share of a window that any vCPU of the host lost."""
    vpmu = settings.ROOT / "devstack" / "vpmu" / "vpmu"
    folder = f"/proc/{cloud.host_pid(host)}/root/run/vpmu"
    done = subprocess.run(
        [
            str(vpmu),
            *("--dir", folder, "watch", "--json"),
            *("--count", "1", "--interval-ms", str(WINDOW_MS)),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return max((row["debt_ratio"] or 0.0 for row in rows), default=0.0)
