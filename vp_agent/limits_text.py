# SPDX-License-Identifier: Apache-2.0
"""What this host's memory bears, as one line for `vp-agent status` and `vp-agent calibrate`."""

from collections.abc import Mapping
from typing import Any


def limits_line(limits: Mapping[str, Any]) -> str:
    """From the fields of `Limits`."""
    node, link = limits["node_misses_per_s"], limits["link_misses_per_s"]
    remote = f"remote memory {limits['remote_penalty_ratio']:.2f} times as slow"
    if node is None:
        return f"limits: not calibrated (`vp-agent calibrate`); {remote}"
    bears = f"limits: a node bears {_millions(node)} misses/s"
    if link is not None:
        bears += f", a link {_millions(link)} misses/s"
    return f"{bears}; {remote}"


def _millions(count: float) -> str:
    return f"{count / 1e6:.1f} M"
