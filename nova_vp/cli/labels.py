# SPDX-License-Identifier: Apache-2.0
"""What an operator reads for each code of a decision: tables, one plain phrase per code.

Programs read the codes, which `nova_vp/core/types` defines; a test finds those without words.
A code in no table, of an agent newer than the reader, is told as it is. What tenants read is in
`vp_api/views/tenant.py`.
"""

from collections.abc import Mapping
from typing import Any

from nova_vp.core.types.action import Result
from nova_vp.core.types.reason import TRIED

REASONS = {
    "home-on-arrival": "it had no cache of its own and got the one that suits all best",
    "move-aggressor": "its misses hurt a neighbour, so it goes to another cache",
    "move-victim": "neighbours hurt it, so it goes to another cache",
    "separate-on-hot-node": "it loads a hot node heavily; less hurt is predicted with it elsewhere",
    "rearrange-predicted-hurt": "less hurt is predicted on the whole with it elsewhere",
    "swap-places": "no place was free, so two servers change places",
    "bring-memory-and-cpus-together": "its memory and its CPUs were on different nodes",
    "partition-cache-or-bandwidth": "its misses hurt a neighbour, so it may fill less of the cache",
    "cap-aggressor": "its misses hurt a neighbour and no place helps, so it gets less CPU",
    "renew-cap": "the neighbour still needs it, so its cap lasts longer",
    "lift-cap": "the neighbour is well, so its cap is raised step by step",
    "more-cpu": "it uses nearly all the CPU that it was given",
    "cpu-given-back": "it no longer needs the CPU that it was given on top",
    "undo-ineffective": "an earlier action mended nothing, so it is undone",
    "undo-ordered": "somebody had an earlier action undone",
    "reapply-lost-placement": "what was applied got lost, in a reboot say, and is applied again",
}

REJECTIONS = {
    "no-free-cpu": "no CPU is free there",
    "more-crowded": "CPUs are more crowded there",
    "shares-every-domain-with-the-victim": "it shares every cache with the victim",
    "predicted-hurt-not-lower": "the predicted hurt is not lower",
    "would-hurt-others-too-much": "others would be hurt too much",
    "predicted-gain-too-small": "the predicted gain is too small",
    "would-favour-one-over-another": "it would favour one at another's expense",
    "guest-unmanaged": "it is to be left alone",
    "flavor-allows-no-cap": "its flavor allows no cap",
    "cap-at-its-floor": "it is at the floor of its flavor already",
    "reverse-move-within-hold": "it would go back to where it came from too soon",
    "moved-recently": "it was moved a moment ago",
    "move-budget-spent": "the host has made its moves for this minute",
    "ineffective-before": "it mended nothing before",
    "another-controller-owns-the-knob": "another controller has a say in it",
    "another-domain-hurts-less": "the predicted hurt is lower elsewhere",
    "undone-by-order": "somebody had the like undone a moment ago",
}

KINDS = {
    "cache": "neighbours evict its data from the last-level cache",
    "memory-controller": "neighbours keep the memory controller busy that serves it",
    "interconnect": "neighbours keep the interconnect busy that leads to its memory",
    "remote-latency": "its memory lies on another node than its CPUs",
    "cpu": "it wants more CPU than it was given",
}

POINTS = {
    "cache": "cache",
    "memory-controller": "memory",
    "interconnect": "link",
    "remote-latency": "far",
    "cpu": "cpu",
}
"""Where a server is hurt, short enough for a column."""

RESULTS = {
    "applied": "it was done",
    "failed": "it could not be done",
    "mended": "it helped",
    "ineffective": "it did not help, and was undone",
    "unjudged": "it was done, and whether it helped could not be told",
    "undone": "it was undone, as somebody ordered",
}

_JUDGED = frozenset(reason.value for reason in TRIED)

INCOMPLETES = {
    "first-sample": "it has just been met",
    "counters-unreadable": "its counters cannot be read",
    "counters-restarted": "its counters have begun anew",
    "vcpu-missing": "not all of its vCPUs are counted",
    "multiplexed": "it was counted for too small a part of the time",
    "idle": "it does too little to be judged",
    "late": "the last sample came too late",
    "not-running": "it does not run",
}
"""Why a server has no sample."""

RUNGS = {
    "raise-cap": "raising its cap",
    "local-cpu": "CPUs of the same node",
    "remote-cpu": "CPUs of another node",
    "move-vcpus": "moving its vCPUs",
    "swap": "swapping places",
    "move-vcpus-and-memory": "moving its vCPUs and memory",
    "move-memory": "moving its memory",
    "partition": "limiting its share of the cache",
    "cap": "capping its CPU",
}


def reason(code: str) -> str:
    return REASONS.get(code, code)


def result(code: str) -> str:
    return RESULTS.get(code, code)


def outcome(action: Mapping[str, Any]) -> str:
    """Its result. Only some actions have to prove themselves, and until then they stand."""
    told = result(action["result"])
    return f"{told}, and is being judged" if is_judged(action) else told


def is_judged(action: Mapping[str, Any]) -> bool:
    """It was done, and must still prove itself."""
    return action["result"] == Result.APPLIED.value and action["reason"] in _JUDGED


def kind(code: str) -> str:
    return KINDS.get(code, code)


def refusal(rung: str, why: str) -> str:
    """`moving its vCPUs: no CPU is free there`."""
    return f"{RUNGS.get(rung, rung)}: {REJECTIONS.get(why, why)}"


def small(value: float) -> str:
    """Three digits, and no power of ten: what is next to nothing is 0."""
    if abs(value) >= 999.5:
        return f"{value:.0f}"
    return f"{round(value, 4) + 0.0:.3g}"  # No -0 either.
