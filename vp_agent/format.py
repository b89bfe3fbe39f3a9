# SPDX-License-Identifier: Apache-2.0
"""What a knob is turned to, in short text: the same in the report, the log and `vp-agent status`.

Pure, and for people: no program reads it back.
"""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from nova_vp.core.types.knob import (
    NO_CPU_WEIGHT,
    NO_EMULATOR_WEIGHT,
    NO_MEMORY_SIZE,
    WEIGHT_RANGES,
    Cpus,
    CpuWeight,
    EmulatorWeight,
    Knob,
    LlcShare,
    MembwShare,
    MemorySize,
    Quota,
    Shares,
    Value,
)
from nova_vp.cpuset import format_cpus

LONGEST = 255
"""What a message may carry."""


def knob_text(knob: Knob, value: Value) -> str:
    return _cut(_TEXTS[knob](value))


def cpu_list(cpus: Iterable[int]) -> str:
    """`0-3,8`."""
    return _cut(format_cpus(cpus))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rsplit(",", 1)[0] + "…"


def _placement(value: Value) -> str:
    """`0-3`, or `vCPU 0: 0-1, vCPU 1-2: 2-3` where they do not all run alike."""
    by_vcpu = cast(Cpus, value)
    vcpus_on: dict[frozenset[int], list[int]] = {}
    for vcpu, cpus in enumerate(by_vcpu):
        vcpus_on.setdefault(cpus, []).append(vcpu)
    if len(vcpus_on) < 2:
        return ", ".join(map(format_cpus, vcpus_on))
    return ", ".join(
        f"vCPU {format_cpus(vcpus)}: {format_cpus(cpus)}" for cpus, vcpus in vcpus_on.items()
    )


def _cap(value: Value) -> str:
    quota = cast(Quota, value)
    return "none" if quota.quota_us < 0 else f"{_percent(quota.cores)} of each vCPU"


def _weight(value: Value) -> str:
    """`2048 (default 1024)`: a number of one host says little on another one."""
    weight = cast(CpuWeight | EmulatorWeight, value)
    if weight in (NO_CPU_WEIGHT, NO_EMULATOR_WEIGHT):
        return "unknown"
    return f"{weight.number} (default {WEIGHT_RANGES[weight.unit].default})"


def _memory(value: Value) -> str:
    """`node 0 60 %, node 1 40 %`."""
    shares = cast(Shares, value)
    return ", ".join(f"node {node} {_percent(share)}" for node, share in shares) or "unknown"


def _llc(value: Value) -> str:
    return _share(cast(LlcShare, value).ratio, "cache")


def _membw(value: Value) -> str:
    return _share(cast(MembwShare, value).ratio, "memory bandwidth")


def _memory_size(value: Value) -> str:
    size = cast(MemorySize, value)
    return "unknown" if size == NO_MEMORY_SIZE else f"{size.kib / 1024:.0f} MiB"


def _share(ratio: float, whole: str) -> str:
    return f"{_percent(ratio)} of the {whole}" if ratio < 1 else "none"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.3g} %"


_TEXTS = {
    Knob.PLACEMENT: _placement,
    Knob.CPU_CAP: _cap,
    Knob.CPU_WEIGHT: _weight,
    Knob.MEMORY: _memory,
    Knob.LLC: _llc,
    Knob.MEMBW: _membw,
    Knob.MEMORY_SIZE: _memory_size,
    Knob.EMULATOR_WEIGHT: _weight,
}


def limits_line(limits: Mapping[str, Any]) -> str:
    """From the fields of `Limits`."""
    node, link = limits["node_misses_per_s"], limits["link_misses_per_s"]
    remote = f"remote latency {limits['remote_penalty_ratio']:.2f} x local"
    if node is None:
        return f"limits: not calibrated (`vp-agent calibrate`); {remote}"
    bears = f"limits: {_millions(node)} misses/s per NUMA node"
    if link is not None:
        bears += f", {_millions(link)} misses/s per link"
    return f"{bears}; {remote}"


def _millions(count: float) -> str:
    return f"{count / 1e6:.1f} M"
