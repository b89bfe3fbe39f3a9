# SPDX-License-Identifier: Apache-2.0
"""One VP as the prediction has it, and what the residents of one cache cost each other.

`what_if` puts it together with memory, links and CPU, for a whole host, and `domain_table` for
Nova's scheduler. The model is deliberately small: a VP keeps of the cache the share in
which it references it, against all lines that others bring in; each hit it loses costs an LLC
miss (as learned of it, else `miss_penalty_cycles`); its slowdown is what that adds to its cycles
per instruction.
"""

from collections.abc import Sequence
from typing import NamedTuple

from nova_vp.core.model.states import sensitivity_of
from nova_vp.core.types.claim import PredictedLoss
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.guest import Isolation
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.sample import FactorClass, Intensity, Profile, State

FALLBACK_CLOCK_HZ = 2.5e9
UNKNOWN_STATE = State.from_number(4)
"""A VP nobody has measured is taken for one in the middle of the nine states."""

REFILL_WEIGHT = 0.25
"""Share of a cache-sensitive VP's hits counted as lines it brings in: two working sets that fit
alone need not fit together, and nobody knows their sizes (an estimate; the thesis separates
cache-sensitive co-runners outright, section 2.1.3)."""

_TYPICAL_MPKI = (0.5, 6.0, 30.0)
_TYPICAL_FACTOR = (0.1, 0.4, 0.85)
_HIT_CYCLES = 40.0

_MAX_STALL_SHARE = 0.8
"""Of its cycles per instruction that a VP is taken to wait for memory, whatever it misses: misses
that overlap cost less than the penalty each."""

_MAX_EVICTED = 0.7
"""Beyond that, what a VP would hit if it were alone cannot be told from what it still hits."""

_LIVES_OFF_CACHE = 0.4
"""Share of its references that a VP must be thought to hit alone, to be called sensitive although
what it shows beside others is not: below the thesis's highest class of the memory factor."""

LOST_MISSES = 0.7
"""Share of what a VP misses beside others that may be their doing."""


class Resident(NamedTuple):
    """One VP of a domain, reduced to what the model needs: as it would run alone."""

    guest_uuid: str
    references_per_s: float
    pressure_per_s: float
    """Lines it brings in, or would once others evict it."""
    cpi: float
    hit_value_cpi: float
    """Cycles per instruction that its LLC hits save it."""
    is_strict: bool
    misses_per_s: float = 0.0
    hits_per_s: float = 0.0
    """LLC hits that would become misses if others evicted all of it."""
    miss_cpi: float = 0.0
    """Cycles per instruction that it waits for memory, local and unloaded."""
    mpki: float = 0.0
    """LLC misses per 1000 instructions as measured, so far as it is busy: what the thesis sums."""
    miss_cycles: float = 0.0
    """What a hit that it loses costs it, each."""


def resident(
    uuid: str,
    profile: Profile,
    isolation: Isolation,
    policy: Policy,
    miss_cycles: float | None = None,
) -> Resident:
    """`profile` was taken under the conditions that it names; what they cost is taken out.
    `miss_cycles`: as learned of it; None: nothing was."""
    if miss_cycles is None:
        miss_cycles = policy.miss_penalty_cycles
    evicted = min(profile.evicted_ratio, _MAX_EVICTED)
    hits_pki = max(profile.l2_mpki - profile.mpki, 0.0)
    lost_pki = min(hits_pki * evicted / (1 - evicted), LOST_MISSES * profile.mpki)
    alone_pki = hits_pki + lost_pki
    is_sensitive = profile.sensitivity.cache or (
        evicted > 0
        and alone_pki >= max(policy.sensitive_hits_pki, _LIVES_OFF_CACHE * profile.l2_mpki)
    )
    mpki = max(profile.mpki - lost_pki, 0.0)
    penalty = miss_cycles / 1000
    cpi = max(profile.cpi, 0.1)
    stall_cpi = min(profile.mpki * penalty * profile.memory_ratio, _MAX_STALL_SHARE * cpi)
    per_miss = stall_cpi / profile.mpki / profile.memory_ratio if profile.mpki else penalty
    miss_cpi = mpki * per_miss
    computing_cpi = (cpi - stall_cpi) * profile.sibling_speed
    cpi = computing_cpi + miss_cpi
    hits_pki = alone_pki if is_sensitive else 0.0
    speedup = max(profile.cpi, 0.1) / cpi
    per_pki = profile.instructions_per_s * speedup / 1000
    return Resident(
        guest_uuid=uuid,
        references_per_s=profile.references_per_s * speedup,
        pressure_per_s=(mpki + REFILL_WEIGHT * hits_pki) * per_pki,
        cpi=cpi,
        hit_value_cpi=hits_pki * penalty,
        is_strict=isolation is Isolation.STRICT,
        misses_per_s=mpki * per_pki,
        hits_per_s=hits_pki * per_pki,
        miss_cpi=miss_cpi,
        mpki=profile.mpki,
        miss_cycles=miss_cycles,
    )


def predict(newcomer: Resident, residents: Sequence[Resident]) -> PredictedLoss:
    """Shares of performance lost to each other in one cache, once the newcomer is there."""
    total = newcomer.pressure_per_s + sum(one.pressure_per_s for one in residents)
    worst = worst_strict = 0.0
    for one in residents:
        loss = loss_ratio(one, evicted_ratio(one.references_per_s, total - one.pressure_per_s))
        worst = max(worst, loss)
        if one.is_strict:
            worst_strict = max(worst_strict, loss)
    evicted = evicted_ratio(newcomer.references_per_s, total - newcomer.pressure_per_s)
    return PredictedLoss(loss_ratio(newcomer, evicted), worst, worst_strict, Kind.CACHE)


def loss_ratio(one: Resident, evicted: float, memory_ratio: float = 1.0) -> float:
    """Share of its performance that one VP loses with that share of its hits, and to memory that is
    `memory_ratio` times as far away as it is when the VP is alone."""
    extra_cpi = one.miss_cpi * (memory_ratio - 1) + evicted * one.hit_value_cpi * memory_ratio
    return extra_cpi / (one.cpi + extra_cpi) if extra_cpi > 0 else 0.0


def evicted_ratio(references_per_s: float, others_per_s: float) -> float:
    """Share of a VP's hits that others' lines cost it: it keeps the cache in the share in which
    it references it."""
    if others_per_s <= 0:
        return 0.0
    return others_per_s / (others_per_s + references_per_s)


def typical(state: State, clock_hz: float, policy: Policy) -> Profile:
    """A profile for a VP of which only the state is known, at this host's pace."""
    mpki = _TYPICAL_MPKI[state.intensity]
    factor = _TYPICAL_FACTOR[state.factor]
    l2_mpki = mpki / factor
    hit_cpi = (l2_mpki - mpki) / 1000 * _HIT_CYCLES
    cpi = 1.0 + hit_cpi + mpki / 1000 * (policy.miss_penalty_cycles + _HIT_CYCLES)
    instructions_per_s = clock_hz / cpi
    return Profile(
        state=state,
        sensitivity=sensitivity_of(state, l2_mpki - mpki, policy),
        l2_mpki=l2_mpki,
        mpki=mpki,
        memory_factor=factor,
        cpi=cpi,
        instructions_per_s=instructions_per_s,
        misses_per_s=instructions_per_s * mpki / 1000,
        references_per_s=instructions_per_s * l2_mpki / 1000,
    )


def newcomer_class(state: State, is_cache_sensitive: bool) -> int:
    """Which of the digest's newcomer classes foretells best what happens to a VP of this state.

    A pug whose working set just fits the cache loses most by losing it, and is far from the
    typical pug: it counts as the least intense of those that live off the cache.
    """
    if is_cache_sensitive and state.intensity is Intensity.PUG:
        return State(FactorClass.LOW, Intensity.TERRIER).number
    return state.number


def newcomers(clock_hz: float, policy: Policy) -> tuple[Resident, ...]:
    """The newcomer classes of the digest: states 0-8, then the unknown."""
    states = [State.from_number(n) for n in range(9)] + [UNKNOWN_STATE]
    return tuple(
        resident("", typical(state, clock_hz, policy), Isolation.NONE, policy) for state in states
    )
