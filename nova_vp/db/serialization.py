# SPDX-License-Identifier: Apache-2.0
"""Reports as they are kept: small, and readable by whoever knows this page alone.

The latest of a host: its text, compressed. A minute of its history: compressed JSON, [format, mode,
[projects], [[uuid, which project, state, interference, numbers]]]. Numbers are in the order of
METRICS and have four digits, which is more than a chart shows. Behind them, where earlier releases
look for nothing: the shares of its performance lost, and of its CPU time waited; nan: unknown.
"""

import json
import zlib
from collections.abc import Mapping
from math import isnan, nan
from operator import itemgetter
from typing import Any

from nova_vp.core.types.policy import known_mode
from nova_vp.db.records import HostMinute, VpMinute
from nova_vp.degradation import degradation_of
from nova_vp.wire import compact

FORMAT = 1

METRICS = (
    "mpki",
    "l2_mpki",
    "memory_factor",
    "cpi",
    "cpu_cores",
    "misses_per_s",
    "remote_ratio",
    "running_ratio",
)


LOSSES = 2
_NUMBERS = " ".join(["%.4g"] * (len(METRICS) + LOSSES))


_values = itemgetter(*METRICS)


def pack_text(text: str) -> bytes:
    """Fast rather than small: it is written again every minute."""
    return zlib.compress(text.encode(), level=1)


def unpack_text(packed: bytes) -> str:
    return zlib.decompress(packed).decode()


def pack(report: Mapping[str, Any]) -> bytes:
    """Of a valid `wire.REPORT_TOPIC` message."""
    projects = {project: i for i, project in enumerate({v["project_id"] for v in report["vps"]})}
    vps = [
        [
            vp["uuid"].lower(),
            projects[vp["project_id"]],
            vp["state"],
            vp["interference"] and vp["interference"]["kind"],
            _NUMBERS % (*_values(vp["metrics"]), *_losses(report, vp)) if vp["metrics"] else "",
        ]
        for vp in report["vps"]
    ]
    text = compact([FORMAT, known_mode(report["mode"]).value, list(projects), vps])
    return zlib.compress(text.encode())


def _losses(report: Mapping[str, Any], vp: Mapping[str, Any]) -> tuple[float, float]:
    lost, use = degradation_of(report, vp), vp.get("cpu_use")
    lost_ratio = nan if lost is None or lost.ratio is None else lost.ratio
    return lost_ratio, use["waiting_ratio"] if use else nan


def _vp_minute(
    uuid: str, project_id: str, state: int | None, kind: str | None, text: str
) -> VpMinute:
    numbers = [float(number) for number in text.split()]
    metrics = dict(zip(METRICS, numbers, strict=False))
    losses = [None if isnan(number) else number for number in numbers[len(METRICS) :]]
    return VpMinute(uuid, project_id, state, kind, metrics, *losses)


def unpack(packed: bytes, wanted: str | None = None) -> HostMinute:
    """`wanted`: the UUID, in lower case, of the one VP that matters.

    Raises ValueError for a format that a later release wrote.
    """
    written, *rest = json.loads(zlib.decompress(packed))
    if written != FORMAT:
        raise ValueError(f"history of format {written}; this release reads format {FORMAT}")
    mode, projects, vps = rest
    return HostMinute(
        mode,
        tuple(
            _vp_minute(uuid, projects[project], state, interference, numbers)
            for uuid, project, state, interference, numbers in vps
            if wanted in (None, uuid)
        ),
    )
