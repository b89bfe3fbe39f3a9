# SPDX-License-Identifier: Apache-2.0
"""Who is hurt, and by whom: the L2 test first, then guilt by what changed.

Cache interference is a memory factor that went up a class while L2 misses per 1000 instructions
hold (thesis section 2.1.3, "downward" move). Where they do not hold, the VP itself changed. The
same picture also comes from a VP that outgrows the cache alone, so a co-runner is a suspect only
if *its* misses per second rose since the victim was last undisturbed, and rose enough to matter.
"""

import enum
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from nova_vp.core.model.same_work import l2_holds
from nova_vp.core.model.states import sensitivity_of
from nova_vp.core.types.detection import Detection, Kind, Suspect
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.sample import Profile, Sample
from nova_vp.core.types.state import VpState

PROFILE_WEIGHT = 0.1
"""Share of the newest sample in a profile: about ten samples of memory, so that the last ones
before an onset is noticed do not pass for undisturbed."""

QUIET_RATIO = 0.01
"""A co-runner whose LLC misses are a smaller share of the victim's references evicts nothing."""

MARGIN = 0.2
"""Difference of conditions that counts: a loaded controller's latency is far from steady."""


class Conditions(NamedTuple):
    """How far from alone a VP runs now, as predicted; and whose cap was raised a moment ago."""

    evicted_ratio: float = 0.0
    memory_ratio: float = 1.0
    on_probe: frozenset[str] = frozenset()
    sibling_speed: float = 1.0


ALONE = Conditions()


class Verdict(enum.Enum):
    """What this tick says about a VP that is, or was, hurt."""

    UNDISTURBED = "undisturbed"
    DEGRADED = "degraded"
    RECOVERED = "recovered"
    OWN_DOING = "own-doing"
    UNKNOWN = "unknown"


class Found(NamedTuple):
    vp: VpState
    """With its detection opened, kept up to date or closed."""
    undisturbed: Profile | None
    verdict: Verdict


def detect_cache(
    vp: VpState,
    before: Profile | None,
    neighbours: Mapping[str, float],
    domain_id: int,
    now_s: float,
    policy: Policy,
    conditions: Conditions = ALONE,
) -> Found:
    """What became of a VP, against `before`: its last undisturbed state.

    `neighbours`: LLC misses per second of the VPs that share an LLC domain with it, by guest UUID;
    its own do not matter. `conditions`: how far from alone it runs now, as far as that is known.
    """
    sample = vp.sample
    if sample is None or vp.incomplete is not None or vp.state is None or vp.candidate is not None:
        is_seen = now_s - vp.seen_at_s <= policy.effect_window_s
        # Idle, or its counters stand: nobody can say that it is hurt still.
        return Found(vp if is_seen else _well(vp), before, Verdict.UNKNOWN)
    if before is None or not _looks_degraded(vp, before, sample, policy):
        verdict = Verdict.UNDISTURBED if vp.detection is None else _how_it_ended(vp, before)
        well = _settling(vp, policy)
        if before and well.unsettled_samples and l2_holds(before.l2_mpki, sample.l2_mpki, policy):
            return Found(well, before, verdict)
        return Found(
            well, _undisturbed(vp, before, sample, neighbours, policy, conditions), verdict
        )
    suspects = _suspects(vp, before, sample, neighbours, policy, conditions.on_probe)
    if suspects:
        detection = Detection(
            victim_uuid=vp.guest_uuid,
            kind=Kind.CACHE,
            domain_id=domain_id,
            since_s=vp.detection.since_s if vp.detection else now_s,
            before=before,
            now=sample,
            state_now=vp.state,
            suspects=suspects,
        )
        degraded = vp._replace(suspected_at_s=now_s, detection=detection, unexplained_samples=0)
        return Found(degraded, before, Verdict.DEGRADED)
    if vp.detection and now_s - vp.suspected_at_s <= policy.effect_window_s:
        # The suspect was moved or fell silent; the cache needs a moment to fill again.
        waiting = replace(vp.detection, now=sample, state_now=vp.state, suspects=())
        return Found(vp._replace(detection=waiting), before, Verdict.DEGRADED)
    if not vp.detection and vp.unexplained_samples < policy.settle_samples:
        # An aggressor's counters may come later than the victim's. Were this taken for the
        # victim's own work at once, it would become its undisturbed state, and never count.
        unexplained = vp._replace(unexplained_samples=vp.unexplained_samples + 1)
        return Found(unexplained, before, Verdict.UNKNOWN)
    profile = _undisturbed(vp, before, sample, neighbours, policy, conditions)
    return Found(_well(vp), profile, Verdict.OWN_DOING)


def _well(vp: VpState) -> VpState:
    if vp.detection is None and not vp.unexplained_samples:
        return vp
    return vp._replace(detection=None, unexplained_samples=0)


def _settling(vp: VpState, policy: Policy) -> VpState:
    """Without a detection, and with as many samples to leave out as remain after the last one."""
    left = policy.settle_samples if vp.detection else max(vp.unsettled_samples - 1, 0)
    well = _well(vp)
    return well if well.unsettled_samples == left else well._replace(unsettled_samples=left)


def _looks_degraded(vp: VpState, before: Profile, sample: Sample, policy: Policy) -> bool:
    if vp.state is None or not before.sensitivity.cache:
        return False
    return vp.state.factor > before.state.factor and l2_holds(
        before.l2_mpki, sample.l2_mpki, policy
    )


def _how_it_ended(vp: VpState, before: Profile | None) -> Verdict:
    recovered = before and vp.state and vp.state.factor <= before.state.factor
    return Verdict.RECOVERED if recovered else Verdict.OWN_DOING


def _suspects(
    vp: VpState,
    before: Profile,
    sample: Sample,
    neighbours: Mapping[str, float],
    policy: Policy,
    on_probe: frozenset[str],
) -> tuple[Suspect, ...]:
    """Who rose, and by enough; a cap is raised by a tenth, and that is guilt enough."""
    least_rise = policy.guilty_min_share_ratio * sample.references_per_s
    found = []
    for uuid, misses_per_s in neighbours.items():
        if misses_per_s < least_rise or uuid == vp.guest_uuid:
            continue  # Most of them: who misses less in all cannot have risen by so much.
        then = before.pressures.get(uuid, 0.0)
        rise = misses_per_s - then
        is_guilty = rise >= max(least_rise, policy.guilty_rise_ratio * then) and rise > 0
        if is_guilty or uuid in on_probe:
            found.append(Suspect(uuid, misses_per_s, rise))
    return tuple(sorted(found, key=lambda s: (-s.rise_per_s, s.guest_uuid)))


def _undisturbed(
    vp: VpState,
    old: Profile | None,
    sample: Sample,
    neighbours: Mapping[str, float],
    policy: Policy,
    now: Conditions,
) -> Profile:
    """No detection: this sample belongs to what the VP is when nobody hurts it. What it was under
    better conditions is kept while it does the same work."""
    if old is None:
        return _profile_of(vp, sample, neighbours, policy, now)
    # How much worse caches, memory and siblings are now.
    cache = now.evicted_ratio - old.evicted_ratio
    memory = now.memory_ratio / old.memory_ratio - 1
    siblings = old.sibling_speed / now.sibling_speed - 1
    worst = max(cache, memory, siblings)
    if old.state != vp.state and not (
        worst > MARGIN and _only_intensity_differs(vp, old, sample, policy)
    ):
        # It does other work by its own doing: nobody is to blame for what it misses now.
        alone = ALONE._replace(sibling_speed=now.sibling_speed)
        return _profile_of(vp, sample, neighbours, policy, alone)
    if worst > MARGIN:
        kept = old
    elif worst < MARGIN and min(cache, memory, siblings) < -MARGIN:
        kept = _profile_of(vp, sample, neighbours, policy, now)
    else:
        return _blend(old, sample, neighbours, policy)
    # Whoever does not hurt it now is known at the pressure of now.
    is_sensitive = kept.sensitivity.cache
    return kept._replace(
        pressures=_blend_pressures(old, sample, neighbours) if is_sensitive else {}
    )


def _only_intensity_differs(vp: VpState, old: Profile, sample: Sample, policy: Policy) -> bool:
    """Its factor and its L2 misses hold, as when a neighbour hurts it for part of a sample, or by
    less than a class."""
    is_factor_same = vp.state is not None and vp.state.factor == old.state.factor
    return is_factor_same and l2_holds(old.l2_mpki, sample.l2_mpki, policy)


def _profile_of(
    vp: VpState,
    sample: Sample,
    neighbours: Mapping[str, float],
    policy: Policy,
    now: Conditions,
) -> Profile:
    assert vp.state is not None
    sensitivity = sensitivity_of(vp.state, sample.cache_hits_pki, policy)
    return Profile(
        state=vp.state,
        sensitivity=sensitivity,
        l2_mpki=sample.l2_mpki,
        mpki=sample.mpki,
        memory_factor=sample.memory_factor,
        cpi=sample.cpi,
        instructions_per_s=sample.instructions_per_s,
        misses_per_s=sample.misses_per_s,
        references_per_s=sample.references_per_s,
        evicted_ratio=now.evicted_ratio,
        memory_ratio=now.memory_ratio,
        pressures=neighbours if sensitivity.cache else {},
        sibling_speed=now.sibling_speed,
    )


def _blend(
    old: Profile, sample: Sample, neighbours: Mapping[str, float], policy: Policy
) -> Profile:
    """A plain mean at first, a slow one later, field by field."""
    samples = old.samples + 1
    new = max(PROFILE_WEIGHT, 1 / samples)
    kept = 1 - new
    hits_pki = kept * (old.l2_mpki - old.mpki) + new * sample.cache_hits_pki
    sensitivity = sensitivity_of(old.state, hits_pki, policy)
    return Profile(
        state=old.state,
        sensitivity=sensitivity,
        l2_mpki=kept * old.l2_mpki + new * sample.l2_mpki,
        mpki=kept * old.mpki + new * sample.mpki,
        memory_factor=kept * old.memory_factor + new * sample.memory_factor,
        cpi=kept * old.cpi + new * sample.cpi,
        instructions_per_s=kept * old.instructions_per_s + new * sample.instructions_per_s,
        misses_per_s=kept * old.misses_per_s + new * sample.misses_per_s,
        references_per_s=kept * old.references_per_s + new * sample.references_per_s,
        samples=samples,
        evicted_ratio=old.evicted_ratio,
        memory_ratio=old.memory_ratio,
        pressures=_blend_pressures(old, sample, neighbours) if sensitivity.cache else {},
        sibling_speed=old.sibling_speed,
    )


def _blend_pressures(
    old: Profile, sample: Sample, neighbours: Mapping[str, float]
) -> Mapping[str, float]:
    """A co-runner that is new starts from no pressure at all. Who is too quiet to matter is left
    out: a full host would otherwise spend most of a tick on them."""
    if not old.sensitivity.cache:
        return neighbours
    then, kept = old.pressures.get, 1 - PROFILE_WEIGHT
    floor = QUIET_RATIO * sample.references_per_s
    return {
        uuid: pressure
        for uuid, now in neighbours.items()
        if (pressure := kept * then(uuid, 0.0) + PROFILE_WEIGHT * now) > floor or now > floor
    }
