# SPDX-License-Identifier: Apache-2.0
"""What each best-effort server gets of what latency-critical ones leave, and its claims.

Servers that share the CPU are weighed by their priority, and none gets more than it can use. Beside
several latency-critical servers the one that leaves it least rules.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from nova_vp.core.controllers.base import View
from nova_vp.core.controllers.latency.declaration import (
    LIMIT,
    NAME,
    PARTITION,
    SUSPEND,
    WEIGHT,
    LatencySettings,
    Loop,
    Ruling,
    Watch,
)
from nova_vp.core.controllers.latency.seen import OwnCores, own_quota
from nova_vp.core.model.limits import SUSPENDED
from nova_vp.core.types.claim import ClaimGroup, PredictedLoss, Setting
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import (
    NO_CPU_WEIGHT,
    SETTABLE_CPU_WEIGHTS,
    CpuWeight,
    Knob,
    LlcShare,
    MembwShare,
    Quota,
    Value,
    WeightUnit,
)
from nova_vp.core.types.reason import Reason

LEAST_QUOTA_US = 1000
"""Of each vCPU: the source's minimum (3.1.1)."""
PERIOD_US = 100_000
LC_SHARES = 200_000
"""The source's (4.1.3); the least of the host's range for best-effort servers."""
LC_WEIGHT = 7629
"""The same number of shares as systemd converts it for cgroup version 2."""


NO_EVIDENCE: Mapping[str, float] = MappingProxyType({})


class Given(NamedTuple):
    """What one latency-critical server leaves to one best-effort server; the tightest is the
    smallest."""

    is_enabled: bool
    """False: it is suspended."""
    cores: float
    lc_uuid: str


def left_to(
    own: OwnCores,
    guest: Guest,
    others: Sequence[Guest],
    watch: Watch,
    ruling: Ruling,
    most: Mapping[str, float],
) -> dict[str, float]:
    """By best-effort server: what this latency-critical one leaves it, and no more than `most`.
    Once it has starved those of other projects for too long, it limits them no more."""
    is_spent = ruling is Ruling.STARVED
    free = [one for one in others if is_spent and one.project_id != guest.project_id]
    limited = [one for one in others if one not in free]
    left = dict.fromkeys((one.uuid for one in limited), math.inf)
    if not watch.is_unlimited:
        left = divided(own, 0.0 if watch.is_suspended else watch.cores, limited)
    left = {uuid: min(share, most.get(uuid, math.inf)) for uuid, share in left.items()}
    return left | dict.fromkeys((one.uuid for one in free), math.inf)


def divided(own: OwnCores, cores: float, servers: Sequence[Guest]) -> dict[str, float]:
    """By priority; what one cannot use goes to the others."""
    left, open_servers = cores, list(servers)
    found: dict[str, float] = {}
    while open_servers:
        weights = sum(one.priority for one in open_servers)
        full = [one for one in open_servers if own[one.uuid] <= left * one.priority / weights]
        if not full:
            for one in open_servers:
                found[one.uuid] = left * one.priority / weights
            return found
        for one in full:
            found[one.uuid] = own[one.uuid]
        left -= sum(found[one.uuid] for one in full)
        open_servers = [one for one in open_servers if one not in full]
    return found


def claims_of(
    view: View,
    guest: Guest,
    given: Given,
    evidence: Mapping[str, float],
    settings: LatencySettings,
) -> Iterator[ClaimGroup]:
    """Of one best-effort server. `given`: by the latency-critical server beside it that leaves it
    least."""
    knobs = view.host.knobs
    if Knob.CPU_CAP in knobs and guest.cap_floor_ratio is not None:
        yield from _limit(view, guest, given, evidence)
    if Knob.CPU_WEIGHT in knobs and guest.cpu_weight != NO_CPU_WEIGHT:
        least = SETTABLE_CPU_WEIGHTS[guest.cpu_weight.unit].least
        yield _group(guest, WEIGHT, Knob.CPU_WEIGHT, CpuWeight(least, guest.cpu_weight.unit))
    if settings.control_loop is not Loop.ADAPTIVE:
        return
    if Knob.LLC in knobs and settings.best_effort_llc_ratio < 1.0:
        llc = LlcShare(max(settings.best_effort_llc_ratio, view.policy.llc_floor_ratio))
        yield _group(guest, PARTITION, Knob.LLC, llc)
    if Knob.MEMBW in knobs and settings.best_effort_membw_ratio < 1.0:
        share = MembwShare(max(settings.best_effort_membw_ratio, view.policy.membw_floor_ratio))
        yield _group(guest, PARTITION, Knob.MEMBW, share)


def protected(view: View, guest: Guest) -> Iterator[ClaimGroup]:
    """Of one latency-critical server that has best-effort servers beside it."""
    if guest.unmanaged or not guest.is_running or guest.cpu_weight == NO_CPU_WEIGHT:
        return
    if Knob.CPU_WEIGHT in view.host.knobs:
        unit = guest.cpu_weight.unit
        number = LC_SHARES if unit is WeightUnit.SHARES else LC_WEIGHT
        yield _group(guest, WEIGHT, Knob.CPU_WEIGHT, CpuWeight(number, unit))


def _limit(
    view: View, guest: Guest, given: Given, evidence: Mapping[str, float]
) -> Iterator[ClaimGroup]:
    own, lc_uuid = own_quota(view, guest), given.lc_uuid
    if not given.is_enabled and guest.is_suspendable:
        yield _group(guest, SUSPEND, Knob.CPU_CAP, SUSPENDED, evidence, lc_uuid)
        return
    each = given.cores / guest.vcpus
    if each < own.cores:
        yield _group(guest, LIMIT, Knob.CPU_CAP, _quota(each), evidence, lc_uuid)


def _quota(cores: float) -> Quota:
    """Down to whole thousandths of a second, so that what is all but the same is the same."""
    levels = math.floor(cores * PERIOD_US / LEAST_QUOTA_US)
    return Quota(max(levels, 1) * LEAST_QUOTA_US, PERIOD_US)


def _group(
    guest: Guest,
    reason: Reason,
    knob: Knob,
    value: Value,
    evidence: Mapping[str, float] = NO_EVIDENCE,
    on_behalf_of: str | None = None,
) -> ClaimGroup:
    return ClaimGroup(
        controller=NAME,
        guest_uuid=guest.uuid,
        settings=(Setting(guest.uuid, knob, value),),
        domain_ids=(),
        reason=reason,
        predicted_loss=PredictedLoss(0.0, 0.0),
        evidence=evidence,
        on_behalf_of=on_behalf_of,
    )
