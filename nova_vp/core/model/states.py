# SPDX-License-Identifier: Apache-2.0
"""The nine states with hysteresis and dwell, and the sensitivity that follows from them.

Thresholds: thesis section 2.1.1 and figure 4. A state is believed only after it was seen in
`dwell_samples` samples in a row, and a class is left only clearly beyond its border.
"""

from nova_vp.core.types.policy import Policy
from nova_vp.core.types.sample import FactorClass, Intensity, Sample, Sensitivity, State
from nova_vp.core.types.state import VpState

INTENSITY_BORDERS_MPKI = (2.0, 15.0)
FACTOR_BORDERS = (0.25, 0.6)
_STATES = tuple(tuple(State(f, i) for i in Intensity) for f in FactorClass)


def classify(vp: VpState, policy: Policy) -> VpState:
    """The VP with its state after this tick's sample. A doubtful sample changes nothing."""
    if vp.sample is None or vp.incomplete is not None:
        return _settled(vp)
    seen = state_of(vp.sample, vp.state, policy)
    if seen == vp.state:
        return _settled(vp)
    samples = vp.candidate_samples + 1 if _continues(seen, vp) else 1
    if samples < policy.dwell_samples:
        return vp._replace(candidate=seen, candidate_samples=samples)
    return vp._replace(state=seen, since_s=vp.sample.at_s, candidate=None, candidate_samples=0)


def _settled(vp: VpState) -> VpState:
    return vp if vp.candidate is None else vp._replace(candidate=None, candidate_samples=0)


def _continues(seen: State, vp: VpState) -> bool:
    """Whether this sample goes the way the last one went.

    A sample that straddles the change lies between the classes: what counts for the dwell is
    that the VP is on its way in the same direction, not that it skipped no class.
    """
    if vp.candidate is None or vp.state is None:
        return vp.candidate == seen
    return _direction(vp.state, vp.candidate) == _direction(vp.state, seen)


def _direction(start: State, end: State) -> int:
    """1 towards worse, -1 towards better: by memory factor, then by intensity."""
    return 1 if end > start else -1


def state_of(sample: Sample, before: State | None, policy: Policy) -> State:
    return state_seen(sample.mpki, sample.l2_mpki, sample.memory_factor, before, policy)


def state_seen(
    mpki: float, l2_mpki: float, memory_factor: float, before: State | None, policy: Policy
) -> State:
    factor = memory_factor if l2_mpki >= policy.min_references_pki else 0.0
    h = policy.hysteresis_ratio
    was_factor = before.factor if before else None
    was_intensity = before.intensity if before else None
    factor_class = _class_of(factor, FACTOR_BORDERS, was_factor, h)
    intensity = _class_of(mpki, INTENSITY_BORDERS_MPKI, was_intensity, h)
    return _STATES[factor_class][intensity]


def _class_of(
    value: float, borders: tuple[float, ...], before: int | None, hysteresis_ratio: float
) -> int:
    if before is None:
        return sum(value >= border for border in borders)
    now = before
    while now < len(borders) and value >= borders[now] * (1 + hysteresis_ratio):
        now += 1
    while now > 0 and value < borders[now - 1] * (1 - hysteresis_ratio):
        now -= 1
    return now


def sensitivity_of(state: State, cache_hits_pki: float, policy: Policy) -> Sensitivity:
    """Thesis section 2.1.2; a pug that lives off the LLC is our extension: it misses nothing
    while its working set fits, and loses most when it is evicted."""
    if state.intensity is Intensity.PUG and cache_hits_pki >= policy.sensitive_hits_pki:
        return _LIVES_OFF_CACHE
    return _SENSITIVITIES[state.factor][state.intensity]


def _sensitivity(factor: FactorClass, intensity: Intensity) -> Sensitivity:
    is_pug = intensity is Intensity.PUG
    return Sensitivity(
        cache=not is_pug and factor is not FactorClass.HIGH,
        memory=not is_pug and factor is not FactorClass.LOW,
        remote_latency=not is_pug and factor is FactorClass.HIGH,
    )


_LIVES_OFF_CACHE = Sensitivity(cache=True)
_SENSITIVITIES = tuple(tuple(_sensitivity(f, i) for i in Intensity) for f in FactorClass)
