# SPDX-License-Identifier: Apache-2.0
"""What an operator reads for each code of a decision: tables, one plain phrase per code.

Programs read the codes, which `nova_vp/core/types` defines; a test finds those without words. A
reason has its phrase in its own row. A code that is in none, of an agent newer than the reader, is
told as it is. What tenants read is in `vp_api/views/tenant.py`.
"""

from collections.abc import Mapping
from typing import Any

from nova_vp import controllers
from nova_vp.core.signals.detect_cpu import Unjudged
from nova_vp.core.types.action import Result
from nova_vp.core.types.detection import Kind

REJECTIONS = {
    "no-free-cpu": "no CPU is free there",
    "more-crowded": "the CPUs there are more loaded",
    "shares-every-domain-with-the-victim": "it shares every cache with the victim",
    "predicted-hurt-not-lower": "the predicted degradation is not lower",
    "would-hurt-others-too-much": "other servers would lose too much",
    "predicted-gain-too-small": "the predicted gain is too small",
    "would-favour-one-over-another": "it would favour one server at the expense of another",
    "guest-unmanaged": "the server is unmanaged",
    "server-refuses-help": "it would help a server that is opted out",
    "value-out-of-bounds": "the server cannot have that value",
    "host-has-no-such-knob": "the host cannot change this setting",
    "flavor-allows-no-cap": "its flavor does not allow a cap",
    "server-is-latency-critical": "it is latency-critical: only its pollution permit limits it",
    "cap-at-its-floor": "its cap is already at the floor of its flavor",
    "reverse-move-within-hold": "it left that place too recently",
    "moved-recently": "it was moved too recently",
    "host-refused-recently": "the host did not apply it a moment ago",
    "move-budget-spent": "the host has reached its limit of moves per minute",
    "victim-budget-spent": "the host has reached its limit of actions per hour for the victim",
    "project-budget-spent": "the host has reached its limit of actions per hour for the victim's "
    "project",
    "victim-gained-nothing": "several actions on other servers did not help the victim",
    "ineffective-before": "the same action had no effect before",
    "another-controller-owns-the-knob": "another controller owns this setting",
    "another-domain-hurts-less": "the predicted degradation is lower in another cache",
    "undone-by-order": "an operator reverted a similar action recently",
    "rejected-by-an-operator": "an operator rejected it recently",
    "limit-still-needed": "the controller that set the limit still needs it",
}

MODE_SOURCES = {
    "cloud": "set for the cloud",
    "aggregate": "set for the host aggregate",
    "host": "set for this host",
    "server": "set for this server",
    "default": "no mode is set",
}
"""Where a mode comes from, by `nova_vp.core.types.mode_levels.ModeLevel`."""

KINDS = {
    "cache": "neighbours evict its data from the last-level cache",
    "memory-controller": "neighbours overload the memory controller that serves it",
    "interconnect": "neighbours overload the link between its CPUs and its memory",
    "remote-latency": "its memory is on another NUMA node than its CPUs",
    "cpu": "it waits for CPUs that others use, or needs more CPU than it is allotted",
    "host-cpu": "processes of its host use its CPUs, or steal does. No server is changed",
}

POINTS = {
    "cache": "cache",
    "memory-controller": "memory",
    "interconnect": "link",
    "remote-latency": "remote",
    "cpu": "cpu",
    "host-cpu": "host",
}
"""The resource through which a server is degraded, short enough for a column."""

RESULTS = {
    "applied": "it was applied",
    "failed": "it could not be applied",
    "mended": "the degradation ended",
    "ineffective": "it had no effect and was reverted",
    "unjudged": "it was applied; its effect could not be measured",
    "undone": "an operator reverted it",
    "rejected": "an operator rejected it; it was not applied",
}


INCOMPLETES = {
    "first-sample": "only one sample exists so far",
    "counters-unreadable": "its counters cannot be read",
    "counters-restarted": "its counters were reset",
    "vcpu-missing": "not all of its vCPUs are counted",
    "multiplexed": "its counters ran for too small a part of the time",
    "idle": "it is idle",
    "late": "the last sample came too late",
    "not-running": "it is not running",
}
"""Why a server has no sample."""

UNJUDGED = {
    Unjudged.UNKNOWN: "its CPU times are unknown",
    Unjudged.FEW: "too few samples exist so far",
    Unjudged.IDLE: "it is idle",
    Unjudged.THROTTLED: "a quota throttles it for longer than it waits",
}
"""Why nobody can say whether a server waits for CPU too long."""

RUNGS = {
    "raise-cap": "raising its cap",
    "local-cpu": "a CPU of the same NUMA node",
    "remote-cpu": "a CPU of another NUMA node",
    "move-vcpus": "moving its vCPUs",
    "swap": "swapping places",
    "move-vcpus-and-memory": "moving its vCPUs and memory",
    "move-memory": "moving its memory",
    "partition": "limiting its share of the cache",
    "cap": "capping its CPU",
}


def mode_source(level: str, name: str = "") -> str:
    """Where a mode comes from. `name`: of the aggregate."""
    return f"{MODE_SOURCES.get(level, level)} {name}".rstrip()


def reason(code: str) -> str:
    """As the controller that has it declares it; of one that is not installed here, the code."""
    known = controllers.reasons().get(code)
    return known.label if known else code


def result(code: str) -> str:
    return RESULTS.get(code, code)


def outcome(action: Mapping[str, Any]) -> str:
    """Its result. Only some actions have to prove themselves, and until then they stand."""
    told = result(action["result"])
    return f"{told}; its effect is being measured" if is_judged(action) else told


def is_judged(action: Mapping[str, Any]) -> bool:
    """It was done, and must still prove itself."""
    known = controllers.reasons().get(action["reason"])
    is_verified = known is not None and known.is_verified
    return action["result"] == Result.APPLIED.value and is_verified


def kind(code: str) -> str:
    return KINDS.get(code, code)


def rise(kind: str, rise_per_s: float) -> str:
    """What a suspect does to a victim of that kind, by its number in the report."""
    if kind == Kind.CPU.value:
        return f"{small(rise_per_s)} of its CPUs in use"
    return f"{rise_per_s / 1e6:.3g} M more misses/s than before"


def refusal(rung: str, why: str) -> str:
    """`moving its vCPUs: no CPU is free there`."""
    return f"{RUNGS.get(rung, rung)}: {REJECTIONS.get(why, why)}"


_CPU_USES = {
    "waiting_ratio": "waiting for a CPU",
    "throttled_ratio_ours": "throttled by a cap of nova-vp",
    "throttled_ratio_nova": "throttled by the quota of its flavor",
}


def cpu_use(ratios: Mapping[str, float], at_least: float = 0.0) -> str:
    """Shares of the CPU time that a server wants; smaller ones are left out."""
    return ", ".join(
        f"{ratios[name]:.0%} {text}" for name, text in _CPU_USES.items() if ratios[name] >= at_least
    )


def figures(controller: str, told: Mapping[str, float | str | None]) -> str:
    """What a controller tells of a server, as it words it where it is installed."""
    known = {one.name: one.label for one in controllers.figures(controller)}
    return ", ".join(
        f"{known.get(name, name)} {value if isinstance(value, str) else small(value)}"
        for name, value in told.items()
        if value is not None
    )


def with_letter(value: float) -> str | None:
    """Three digits and a letter; None: it is below a thousand."""
    rounded = float(f"{value:.3g}")  # 999,600 is 1 M, not 1e+03 k.
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(rounded) >= size:
            return f"{rounded / size:.3g} {letter}"
    return None


def small(value: float) -> str:
    """Three digits, and no power of ten: what is next to nothing is 0."""
    if abs(value) >= 999.5:
        return f"{value:.0f}"
    return f"{round(value, 4) + 0.0:.3g}"  # No -0 either.
