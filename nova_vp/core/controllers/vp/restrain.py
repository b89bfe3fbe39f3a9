# SPDX-License-Identifier: Apache-2.0
"""The last rungs of the ladder: where nothing can move, a suspect gets less where it is.

A smaller part of cache or bandwidth if the hardware can part them, else a tenth less CPU: the
thesis's last mitigation (2.1.3). What that costs a suspect is bound by what the victim loses.
"""

from collections.abc import Sequence
from typing import cast

from nova_vp.core.controllers.vp.context import DecisionContext, group_of
from nova_vp.core.controllers.vp.declaration import CAP, PARTITION
from nova_vp.core.model.candidate import Candidate
from nova_vp.core.model.cpu_cap import CAP_STEP, loss_ratio, next_lower_quota
from nova_vp.core.model.limits import value_from_nova
from nova_vp.core.types.claim import Alternative, ClaimGroup, PredictedLoss, Setting
from nova_vp.core.types.detection import Detection, Kind
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob, LlcShare, MembwShare, Quota
from nova_vp.core.types.reason import Rejection, Rung


def partition(
    context: DecisionContext,
    detection: Detection,
    suspects: Sequence[str],
    rejected: list[Alternative],
) -> ClaimGroup | None:
    """Where the hardware can: who lives off no cache gets a corner of it, or less bandwidth."""
    is_cache = detection.kind is Kind.CACHE
    if (Knob.LLC if is_cache else Knob.MEMBW) not in context.host.knobs:
        return None
    for uuid in suspects:
        guest = context.host.guests[uuid]
        profile = context.host.undisturbed.get(uuid)
        lives_off_cache = profile is not None and profile.sensitivity.cache
        setting = _smaller(context, guest, detection.kind)
        if setting is None or guest.is_latency_critical or (is_cache and lives_off_cache):
            continue
        candidate = in_place(Rung.PARTITION, setting)
        predicted_loss = PredictedLoss(0.0, 0.0)
        return group_of(context.host, candidate, PARTITION, predicted_loss, detection, rejected)
    return None


def _smaller(context: DecisionContext, guest: Guest, kind: Kind) -> Setting | None:
    """None: it has no more than that already."""
    settings, policy = context.settings, context.policy
    if kind is Kind.CACHE:
        share = LlcShare(max(settings.partition_llc_ratio, policy.llc_floor_ratio))
        return Setting(guest.uuid, Knob.LLC, share) if share < guest.llc else None
    bandwidth = MembwShare(max(settings.partition_bandwidth_ratio, policy.membw_floor_ratio))
    return Setting(guest.uuid, Knob.MEMBW, bandwidth) if bandwidth < guest.membw else None


def cap(
    context: DecisionContext,
    detection: Detection,
    suspects: Sequence[str],
    rejected: list[Alternative],
) -> ClaimGroup | None:
    """A tenth less CPU if it helps on balance: for the worst suspect in a cache, for all of them at
    a controller or a link, where the others would take what one of them lets go."""
    if Knob.CPU_CAP not in context.host.knobs:
        return None
    if context.host.vps[detection.victim_uuid].window.samples < context.policy.settle_samples:
        return None
    steps = steps_down(context, detection, suspects, rejected)
    alone = [(step,) for step in steps]
    for settings in alone if detection.kind is Kind.CACHE or not steps else [steps]:
        locations = {
            one.guest_uuid: context.what_if.locations[one.guest_uuid]._replace(speed=1 - CAP_STEP)
            for one in settings
        }
        if context.what_if.evaluate(locations).total > 0:
            candidate, predicted_loss = in_place(Rung.CAP, *settings), PredictedLoss(CAP_STEP, 0.0)
            return group_of(context.host, candidate, CAP, predicted_loss, detection, rejected)
        rejected += [
            Alternative(uuid, detection.domain_id, Rejection.UNFAIR, rung=Rung.CAP)
            for uuid in locations
        ]
    return None


def steps_down(
    context: DecisionContext,
    detection: Detection,
    suspects: Sequence[str],
    rejected: list[Alternative],
) -> tuple[Setting, ...]:
    """One step down for each suspect that may be capped further."""
    found = []
    for uuid in suspects:
        guest = context.host.guests[uuid]
        own = cast(Quota, value_from_nova(guest, Knob.CPU_CAP, context.host.applied.get(uuid)))
        busiest_cores = context.host.vps[uuid].busiest_cores
        at_first = context.history.busiest_cores.get(uuid, busiest_cores)
        quota = next_lower_quota(guest, own, busiest_cores, at_first)
        if guest.cap_floor_ratio is None:
            why = Rejection.NEVER_CAPPED
        elif guest.is_latency_critical:
            why = Rejection.LATENCY_CRITICAL
        elif quota is None:
            why = Rejection.AT_FLOOR
        elif not _may_pay(context, detection, guest, loss_ratio(quota, at_first)):
            why = Rejection.UNFAIR
        else:
            found.append(Setting(uuid, Knob.CPU_CAP, quota))
            continue
        rejected.append(Alternative(uuid, detection.domain_id, why, rung=Rung.CAP))
    return tuple(found)


def _may_pay(
    context: DecisionContext, detection: Detection, payer: Guest, loss_in_all: float
) -> bool:
    """What its caps cost a suspect in all is bound by what the victim loses, as any other help:
    weighed by their priorities, it pays no more than half as much."""
    weight = context.host.guests[detection.victim_uuid].priority / payer.priority
    most = max(context.policy.most_hurt_ratio, weight * detection.measured_loss_ratio / 2)
    return loss_in_all <= most


def in_place(rung: Rung, *settings: Setting) -> Candidate:
    """Settings that move nobody."""
    return Candidate(rung, settings[0].guest_uuid, domain_set=(), settings=settings, locations={})
