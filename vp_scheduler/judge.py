# SPDX-License-Identifier: Apache-2.0
"""What a request would meet on a host, from the host's digest alone; pure, shared by filter and
weigher.

Where the host homes its VPs, the LLC domain is foretold by the rule the agent homes by
(`nova_vp.core.want`): CPU first, then the cache. Where guests float, the worst domain counts.
Servers on their way, which nobody has measured, are seated first and by the same rule.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from nova_vp.core.model import Policy
from nova_vp.core.predict import FALLBACK_CLOCK_HZ, newcomers, predict
from nova_vp.wire import UNKNOWN_CLASS
from vp_scheduler.host_view import Domain, HostDigest

_UNKNOWN = newcomers(FALLBACK_CLOCK_HZ, Policy())[UNKNOWN_CLASS]
PAIR_RATIO = predict(_UNKNOWN, [_UNKNOWN]).newcomer_ratio
"""What two VPs that nobody has measured are taken to lose to each other."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Shares of performance lost if the request came to this host."""

    domain_ids: tuple[int, ...]
    """Where it would probably be homed; empty: it would float."""
    newcomer_ratio: float
    resident_ratio: float
    """The worst of all residents, and of servers on their way."""
    strict_ratio: float
    """The worst of the residents with `vp:isolation=strict`."""

    @property
    def strict_hurt_ratio(self) -> float:
        """What decides whether the host may have a `strict` server."""
        return max(self.newcomer_ratio, self.strict_ratio)

    @property
    def worst_ratio(self) -> float:
        return max(self.newcomer_ratio, self.resident_ratio)

    @property
    def place(self) -> str:
        if not self.domain_ids:
            return "floating over all domains"
        return f"domain {'+'.join(map(str, self.domain_ids))}"


@dataclass(frozen=True, slots=True)
class _Place:
    """A domain with the unmeasured servers seated in it so far."""

    domain: Domain
    vcpus: float
    waiting: int = 0

    @property
    def newcomer_ratio(self) -> float:
        return _both(self.domain.newcomer_ratio, _both_times(PAIR_RATIO, self.waiting))

    @property
    def resident_ratio(self) -> float:
        residents = _both_times(self.domain.resident_ratio, self.waiting + 1)
        return max(residents, _both_times(PAIR_RATIO, self.waiting))

    @property
    def strict_ratio(self) -> float:
        return _both_times(self.domain.strict_ratio, self.waiting + 1)

    def load(self, vcpus: float) -> float:
        return (self.vcpus + vcpus) / self.domain.cpus


@lru_cache(maxsize=65536)
def judge(
    digest: HostDigest, vcpus: int, waiting_vcpus: tuple[int, ...], good_enough_ratio: float
) -> Verdict | None:
    """None: the digest names no domain, so that nothing can be said.

    `waiting_vcpus`: of each server that is on its way to the host and not in the digest.

    `good_enough_ratio`: predicted losses up to this count as none ([policy]
    strict_max_hurt_ratio). Remembered, since digests change rarely and flavors are few.
    """
    places = [_Place(d, float(d.vcpus)) for d in digest.domains if d.cpus]
    if not places:
        return None
    for other in waiting_vcpus:
        seat = _seat(digest, places, other, good_enough_ratio)
        places = [_seated(place, other / len(seat)) if place in seat else place for place in places]
    seat = _seat(digest, places, vcpus, good_enough_ratio)
    return Verdict(
        domain_ids=tuple(place.domain.id for place in seat) if digest.is_homing else (),
        newcomer_ratio=max(place.newcomer_ratio for place in seat),
        resident_ratio=max(place.resident_ratio for place in seat),
        strict_ratio=max(place.strict_ratio for place in seat),
    )


def _seat(
    digest: HostDigest, places: list[_Place], vcpus: int, good_enough_ratio: float
) -> list[_Place]:
    """The domains that a VP of this width would live in."""
    if not digest.is_homing:
        return places
    count = min(len(places), math.ceil(vcpus / max(place.domain.cpus for place in places)))
    share = vcpus / count
    fair = math.ceil(
        (sum(place.vcpus for place in places) + vcpus) / sum(place.domain.cpus for place in places)
    )

    def rank(place: _Place) -> tuple[bool, float, float, int]:
        load = place.load(share)
        worst = max(place.newcomer_ratio, place.resident_ratio)
        felt = worst if worst > good_enough_ratio else 0.0
        is_full = load > fair
        return (is_full, load if is_full else felt, load, place.domain.id)

    return sorted(places, key=rank)[:count]


def _seated(place: _Place, vcpus: float) -> _Place:
    return _Place(place.domain, place.vcpus + vcpus, place.waiting + 1)


def _both(one_ratio: float, other_ratio: float) -> float:
    return round(1 - (1 - one_ratio) * (1 - other_ratio), 6)


def _both_times(ratio: float, times: int) -> float:
    return round(float(1 - (1 - ratio) ** times), 6)
