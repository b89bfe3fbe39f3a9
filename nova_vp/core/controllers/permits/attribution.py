# SPDX-License-Identifier: Apache-2.0
"""What a server pollutes by its own doing (Kyoto, 2016, 3.3 and 4.5): equation 1 of misses that are
its own.

The source measures them with the LLC to itself (`dedication.py`), and takes the counters as they
are where the server or all its co-runners miss rarely. Elsewhere the share of its LLC accesses that
miss is taken from when it was undisturbed, and the accesses from its counters: neighbours change
the one, and not the other. A server is never charged more than it missed.
"""

from collections.abc import Iterator

from nova_vp.core.controllers.base import View
from nova_vp.core.controllers.permits.declaration import Charge, How, Own
from nova_vp.core.model.predict import LOST_MISSES
from nova_vp.core.model.same_work import l2_holds
from nova_vp.core.types.sample import Incomplete, Sample

_KILO = 1000.0
TINY = 1e-6
"""Where a quotient would have nothing to divide by."""
WEIGHT = 0.1
"""Of the newest sample in what is known of a server."""


def llc_cap_act(llc_misses: float, cpu_freq_khz: float, unhalted_core_cycles: float) -> float:
    """Equation 1 (3.3): LLC misses per ms of running."""
    if not unhalted_core_cycles:
        return 0.0
    return llc_misses * cpu_freq_khz / unhalted_core_cycles


def measured(sample: Sample) -> float:
    """Equation 1 of the counters as they are. The clock is the one at which it ran."""
    cycles_per_s = sample.instructions_per_s * sample.cpi
    cpu_freq_khz = cycles_per_s / (_KILO * sample.cpu_cores) if sample.cpu_cores else 0.0
    return llc_cap_act(sample.misses_per_s, cpu_freq_khz, cycles_per_s)


class Attribution:
    """Of one tick."""

    def __init__(self, view: View, rare_misses_per_ms: float) -> None:
        self._view = view
        self._frequent = frozenset(_frequent(view, rare_misses_per_ms))

    def charge(self, uuid: str, own: Own | None) -> Charge | None:
        """None: it was not measured in this tick."""
        sample = self._sample(uuid)
        if sample is None:
            return None
        if self._is_plain(uuid):
            own_ratio, sure_ratio, how = 1.0, 1.0, How.PLAIN
        elif own is not None:
            own_ratio, sure_ratio = _by_profile(sample, own)
            how = own.how
        else:
            own_ratio = _not_lost(sample, self._view.host.evicted_ratio(uuid))
            sure_ratio, how = own_ratio, How.ESTIMATE
        llc_cap_act = own_ratio * measured(sample)
        return Charge(llc_cap_act, sample.cpu_cores, sample.span_s, how, sure_ratio)

    def learned(self, uuid: str, before: Own | None) -> Own | None:
        """With what this tick says of it undisturbed. What was learned under better conditions is
        kept while it does the same work."""
        sample = self._sample(uuid)
        if sample is not None and not self.meets_frequent(uuid):
            return _blended(before, sample)
        now = _of_profile(self._view, uuid)
        if now is None or before is None:
            return before or now
        if self._does_other_work(uuid, before, now):
            return now
        is_mean = self._view.host.undisturbed[uuid].samples >= self._view.policy.settle_samples
        is_better = is_mean and now.evicted_ratio <= before.evicted_ratio
        return now if is_better and now.memory_factor < before.memory_factor else before

    def alone(self, uuid: str, before: Own | None, samples: int) -> Own | None:
        """The mean of so many samples and this tick's, while it has an LLC to itself."""
        sample = self._sample(uuid)
        if sample is None or not sample.references_per_s:
            return before
        known = before or Own(0.0, 0.0, 1.0, 0.0, How.DEDICATED)
        return _nearer(known, sample, 1 / (samples + 1))

    def is_frequent(self, uuid: str) -> bool:
        """Whether it does not miss rarely."""
        return uuid in self._frequent

    def _does_other_work(self, uuid: str, before: Own, now: Own) -> bool:
        """Both its profile and its means of some samples say so: one sample may be far off."""
        window, policy = self._view.host.vps[uuid].window, self._view.policy
        if window.samples < policy.settle_samples:
            return False
        return not any(l2_holds(before.l2_mpki, one.l2_mpki, policy) for one in (window, now))

    def _sample(self, uuid: str) -> Sample | None:
        vp = self._view.host.vps[uuid]
        return vp.sample if vp.incomplete in (None, Incomplete.IDLE) else None

    def _is_plain(self, uuid: str) -> bool:
        return uuid not in self._frequent or not self.meets_frequent(uuid)

    def meets_frequent(self, uuid: str) -> bool:
        """Whether another one that misses frequently shares an LLC with it."""
        host = self._view.host
        return any(
            other in self._frequent and other != uuid
            for domain in host.domains_of[uuid]
            for other in host.members[domain.id]
        )


def _frequent(view: View, rare_misses_per_ms: float) -> Iterator[str]:
    """Who does not miss rarely, or cannot be measured though it runs."""
    for uuid, guest in view.host.guests.items():
        sample = view.host.vps[uuid].sample
        if guest.is_running and (sample is None or measured(sample) >= rare_misses_per_ms):
            yield uuid


def _blended(before: Own | None, sample: Sample) -> Own | None:
    if not sample.references_per_s:
        return before
    if before is None or before.sure_ratio < 1.0:
        return Own(sample.memory_factor, sample.l2_mpki, 1.0, 0.0)
    return _nearer(before, sample, WEIGHT)._replace(how=How.PROFILE)


def _nearer(own: Own, sample: Sample, weight: float) -> Own:
    factor = own.memory_factor + weight * (sample.memory_factor - own.memory_factor)
    l2_mpki = own.l2_mpki + weight * (sample.l2_mpki - own.l2_mpki)
    return own._replace(memory_factor=factor, l2_mpki=l2_mpki)


def _of_profile(view: View, uuid: str) -> Own | None:
    """As its undisturbed profile has it, without what co-runners cost it even then."""
    profile = view.host.undisturbed.get(uuid)
    if profile is None or not profile.references_per_s:
        return None
    alone = view.host.resident(uuid, view.policy)
    factor = alone.misses_per_s / alone.references_per_s
    sure_ratio = min(factor / profile.memory_factor, 1.0) if profile.memory_factor else 1.0
    return Own(factor, profile.l2_mpki, sure_ratio, profile.evicted_ratio)


def _by_profile(sample: Sample, own: Own) -> tuple[float, float]:
    """Which share of its misses is its own, and how sure that is: the less was guessed, and the
    more it does the same work."""
    works = (sample.l2_mpki, own.l2_mpki)
    own_ratio = min(own.memory_factor / max(sample.memory_factor, TINY), 1.0)
    return own_ratio, own.sure_ratio * min(works) / max(*works, TINY)


def _not_lost(sample: Sample, evicted: float) -> float:
    """By the model of `predict`: a hit that co-runners cost it is a miss that is not its own."""
    lost_pki = sample.cache_hits_pki * evicted / max(1 - evicted, TINY)
    return 1 - min(lost_pki / max(sample.mpki, TINY), LOST_MISSES)
