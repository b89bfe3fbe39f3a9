# SPDX-License-Identifier: Apache-2.0
"""The software PMU's own word on a server, from its command."""

import json
import subprocess

from testbed.lab import cloud
from testbed.lab.lag_meter import VPMU


def memory_factor(host: str, instance_name: str) -> float:
    """Of its first vCPU, over the next second."""
    folder = f"/proc/{cloud.host_pid(host)}/root/run/vpmu"
    done = subprocess.run(
        [str(VPMU), "--dir", folder, "watch", instance_name, "--json", "--count", "1"],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[0])["memory_factor"]
