# SPDX-License-Identifier: Apache-2.0
"""What a newcomer and the residents of one LLC domain would lose together.

`predict(newcomer, residents)` is shared by homing, mitigation and, tabulated into the digest, by
Nova's scheduler. The model is deliberately small: a VP keeps of the cache the share in which it
references it, against all lines that others bring in; each hit it loses costs an LLC miss
(`miss_penalty_cycles`); its slowdown is what that adds to its cycles per instruction.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nova_vp.core.classify import sensitivity_of
from nova_vp.core.model import Hurt, Isolation, Policy, Profile, State

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


@dataclass(frozen=True, slots=True)
class Resident:
    """One VP of a domain, reduced to what the model needs."""

    guest_uuid: str
    references_per_s: float
    pressure_per_s: float
    """Lines it brings in, or would once others evict it."""
    cpi: float
    hit_value_cpi: float
    """Cycles per instruction that its LLC hits save it."""
    is_strict: bool


def resident(uuid: str, profile: Profile, isolation: Isolation, policy: Policy) -> Resident:
    sensitive = profile.sensitivity.cache
    hits_pki = max(profile.l2_mpki - profile.mpki, 0.0) if sensitive else 0.0
    refills_per_s = REFILL_WEIGHT * hits_pki / 1000 * profile.instructions_per_s
    return Resident(
        guest_uuid=uuid,
        references_per_s=profile.references_per_s,
        pressure_per_s=profile.misses_per_s + refills_per_s,
        cpi=max(profile.cpi, 0.1),
        hit_value_cpi=hits_pki / 1000 * policy.miss_penalty_cycles,
        is_strict=isolation is Isolation.STRICT,
    )


def predict(newcomer: Resident, residents: Sequence[Resident]) -> Hurt:
    """Shares of performance lost once the newcomer runs beside the residents."""
    total = newcomer.pressure_per_s + sum(r.pressure_per_s for r in residents)
    worst = worst_strict = 0.0
    for one in residents:
        if not one.hit_value_cpi:
            continue  # Has nothing to lose: most of them, and this is the innermost loop.
        hurt = loss_ratio(one, total - one.pressure_per_s)
        if hurt > worst:
            worst = hurt
        if one.is_strict and hurt > worst_strict:
            worst_strict = hurt
    return Hurt(loss_ratio(newcomer, total - newcomer.pressure_per_s), worst, worst_strict)


def loss_ratio(one: Resident, others_per_s: float) -> float:
    """Share of its performance that one VP loses to the lines others bring in."""
    if others_per_s <= 0 or not one.hit_value_cpi:
        return 0.0
    evicted_ratio = others_per_s / (others_per_s + one.references_per_s)
    extra_cpi = evicted_ratio * one.hit_value_cpi
    return extra_cpi / (one.cpi + extra_cpi)


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


def newcomers(clock_hz: float, policy: Policy) -> tuple[Resident, ...]:
    """The newcomer classes of the digest: states 0-8, then the unknown."""
    states = [State.from_number(n) for n in range(9)] + [UNKNOWN_STATE]
    return tuple(
        resident("", typical(state, clock_hz, policy), Isolation.NONE, policy) for state in states
    )


def tabulate(classes: Iterable[Resident], residents: Sequence[Resident]) -> tuple[Hurt, ...]:
    """`predict` for each newcomer class, so that the scheduler only looks up."""
    return tuple(predict(newcomer, residents) for newcomer in classes)
