# SPDX-License-Identifier: Apache-2.0
"""Limits of a guest: which stand, what they come to together, and which of them is binding.

Any controller may limit CPU, cache and memory bandwidth. What holds is the tightest claim, but
never less than the guest's floor, and never more than Nova gave.
"""

import math
from collections.abc import Iterable, Mapping
from typing import cast

from nova_vp.core.model.cpu_cap import quota_of
from nova_vp.core.types.claim import Claim, ClaimKey, Setting
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import (
    WEIGHT_RANGES,
    Applied,
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
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.topology import Topology

LIMITS = frozenset({Knob.CPU_CAP, Knob.LLC, Knob.MEMBW})
PLACES = frozenset({Knob.PLACEMENT, Knob.MEMORY})
"""vCPUs and memory belong together: who moves the one decides on the other."""

SUSPENDED = Quota(1000, 1_000_000)
"""The least CPU that the kernel grants: who may be suspended keeps 1 ms of each second."""

REST = 0.02
"""Share of a guest's memory that may stay where it is."""

Claims = Mapping[ClaimKey, tuple[Claim, ...]]


def size(value: Value) -> float:
    """Of a limit: cores of each vCPU, or a share of the host's cache or bandwidth."""
    if isinstance(value, Quota):
        return value.cores
    return cast(LlcShare | MembwShare, value).ratio


def binding(claims: Iterable[Claim]) -> Claim | None:
    """The tightest; of two alike the one that stands longer."""
    return min(claims, key=lambda one: (size(one.value), one.changed_at_s), default=None)


def holding(knob: Knob, claims: Iterable[Claim]) -> Claim | None:
    """The one that counts: of a limit the binding one, else that of its owner."""
    return binding(claims) if knob in LIMITS else next(iter(claims), None)


def value_from_nova(guest: Guest, knob: Knob, applied: Applied | None) -> Value:
    """What stood there before us."""
    held = applied.of(knob) if applied else None
    return held.original if held else value_now(guest, knob)


def value_now(guest: Guest, knob: Knob) -> Value:
    """What stands on the host, as read back in this tick."""
    match knob:
        case Knob.PLACEMENT:
            return guest.cpus
        case Knob.CPU_CAP:
            return guest.quota
        case Knob.MEMORY:
            return guest.memory_shares
        case Knob.CPU_WEIGHT:
            return guest.cpu_weight
        case Knob.LLC:
            return guest.llc
        case Knob.MEMORY_SIZE:
            return guest.memory_size
        case Knob.EMULATOR_WEIGHT:
            return guest.emulator_weight
        case _:
            return guest.membw


def floor_of(guest: Guest, knob: Knob, nova: Value, policy: Policy) -> Value:
    """What no composition of claims goes below; for the CPU of a guest that is never capped, all
    that Nova gave."""
    if knob is Knob.LLC:
        return LlcShare(policy.llc_floor_ratio)
    if knob is Knob.MEMBW:
        return MembwShare(policy.membw_floor_ratio)
    if guest.is_suspendable:
        return SUSPENDED
    own = cast(Quota, nova)
    return own if guest.cap_floor_ratio is None else quota_of(own, guest.cap_floor_ratio)


def compose(
    guest: Guest, knob: Knob, claims: Iterable[Claim], nova: Value, policy: Policy
) -> Value:
    """What holds: min(Nova's value, max(floor, tightest claim)); of a knob with one owner, what
    that one claims."""
    tightest = holding(knob, claims)
    if knob not in LIMITS:
        return tightest.value if tightest else nova
    if tightest is None or size(tightest.value) >= size(nova):
        return nova
    floor = floor_of(guest, knob, nova, policy)
    if size(floor) <= size(tightest.value):
        return tightest.value
    return floor if size(floor) < size(nova) else nova


def of_controller(claims: Iterable[Claim], name: str) -> Claim | None:
    """What one controller claims of a knob."""
    return next((one for one in claims if one.controller == name), None)


def differs(one: Value, other: Value) -> bool:
    """Memory is where it is wanted once all but a rest of it is: some pages cannot move."""
    if one == other or not one or not other or not _is_memory(one):
        return one != other
    there = dict(cast(Shares, other))
    return any(abs(share - there.get(node, 0.0)) > REST for node, share in cast(Shares, one))


def _is_memory(value: Value) -> bool:
    return isinstance(value[0], tuple)


def is_valid(setting: Setting, guest: Guest, topology: Topology) -> bool:
    """Whether it is a value that this guest can have: within Nova's CPUs, nodes that there are,
    shares above nothing."""
    value = setting.value
    match setting.knob:
        case Knob.PLACEMENT:
            return _is_place(cast(Cpus, value), guest, topology)
        case Knob.MEMORY:
            shares = cast(Shares, value)
            nodes = {node for node, _ in shares}
            if not nodes <= set(topology.nodes) or any(share < 0 for _, share in shares):
                return False
            return math.isclose(sum(share for _, share in shares), 1.0, abs_tol=1e-6)
        case Knob.CPU_CAP:
            quota = cast(Quota, value)
            return quota.quota_us > 0 and quota.period_us > 0
        case Knob.CPU_WEIGHT | Knob.EMULATOR_WEIGHT:
            weight = cast(CpuWeight | EmulatorWeight, value)
            return WEIGHT_RANGES[weight.unit].takes(weight.number)
        case Knob.MEMORY_SIZE:
            return _is_memory_size(cast(MemorySize, value), guest)
        case _:
            return 0.0 < cast(LlcShare | MembwShare, value).ratio <= 1.0


def _is_memory_size(value: MemorySize, guest: Guest) -> bool:
    """At most the flavor's, and never less than it uses: its kernel would kill for the rest."""
    if guest.balloon_obstacle or guest.memory_used_kib is None:
        return False
    return guest.memory_used_kib < value.kib <= guest.memory_kib


def _is_place(cpus: Cpus, guest: Guest, topology: Topology) -> bool:
    """One set for all vCPUs, or one each that are not all alike: that is how it is read back."""
    bound = (guest.allowed_cpus | guest.beyond_island) & topology.cpus
    if not cpus or not all(one and one <= bound for one in cpus):
        return False
    return len(cpus) == 1 or (len(cpus) == guest.vcpus and len(set(cpus)) > 1)
