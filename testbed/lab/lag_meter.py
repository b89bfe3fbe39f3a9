# SPDX-License-Identifier: Apache-2.0
"""How far a host's guests fell behind their modelled clock: whether a measurement counts.

A guest whose host CPU could not keep up runs slower than the model says, for a reason that has
nothing to do with caches. Measurements with more than five hundredths of debt are repeated.
"""

import json
import subprocess
import threading
import time
from collections import defaultdict
from dataclasses import dataclass

from testbed.lab import cloud, settings

MAX_RATIO = 0.05
VPMU = settings.ROOT / "testbed" / "vpmu" / "vpmu"


@dataclass(frozen=True, slots=True)
class Second:
    monotonic_s: float
    vcpu: tuple[str, int]
    ratio: float


class LagMeter:
    """Follows the debt of every vCPU of a host, or of one server of it, second by second, until
    closed.
    """

    def __init__(self, host: str, instance: str = "") -> None:
        folder = f"/proc/{cloud.host_pid(host)}/root/run/vpmu"
        argv = [str(VPMU), "--dir", folder, "watch", *([instance] if instance else [])]
        argv += ["--json", "--interval-ms", "1000"]
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        self._seconds: list[Second] = []
        self._thread = threading.Thread(target=self._read, name="debt", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            row = json.loads(line)
            vcpu = (row["vm"], row["vcpu"])
            taken_s = row["monotonic_ns"] / 1e9
            self._seconds.append(Second(taken_s, vcpu, row["debt_ratio"] or 0.0))

    def worst_ratio(self, begin_s: float, end_s: float) -> float:
        """Mean debt of the vCPU that has most of it, between two moments of the monotonic clock."""
        ratios: dict[tuple[str, int], list[float]] = defaultdict(list)
        for second in self._seconds:
            if begin_s < second.monotonic_s <= end_s + 1:
                ratios[second.vcpu].append(second.ratio)
        return max((sum(r) / len(r) for r in ratios.values()), default=0.0)

    def recent_ratio(self, span_s: float) -> float:
        now_s = time.monotonic()
        return self.worst_ratio(now_s - span_s, now_s)

    def close(self) -> None:
        self._process.terminate()
        self._thread.join()
        self._process.communicate()
