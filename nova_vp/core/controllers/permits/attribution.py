# SPDX-License-Identifier: Apache-2.0
"""What a server pollutes by its own doing (Kyoto, 2016, 3.3 and 4.5): equation 1 of misses that are
its own.

The source measures them with the LLC to itself, and takes the counters as they are where the server
or all its co-runners miss rarely. Elsewhere the share of its LLC accesses that miss is taken from
its undisturbed profile, and the accesses from its counters: neighbours change the one, and not the
other. A server is never charged more than it missed.
"""

from collections.abc import Iterable, Iterator

from nova_vp.core.controllers.base import View
from nova_vp.core.controllers.permits.declaration import Charge, How
from nova_vp.core.model.predict import LOST_MISSES
from nova_vp.core.types.sample import Incomplete, Sample

_KILO = 1000.0


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


def charges(
    view: View, wanted: Iterable[str], rare_misses_per_ms: float
) -> Iterator[tuple[str, Charge]]:
    """Of each wanted server that was measured in this tick."""
    frequent = frozenset(_frequent(view, rare_misses_per_ms))
    for uuid in wanted:
        vp = view.host.vps[uuid]
        if vp.sample is None or vp.incomplete not in (None, Incomplete.IDLE):
            continue
        if uuid not in frequent or not _meets(view, uuid, frequent):
            own_ratio, sure_ratio, how = 1.0, 1.0, How.PLAIN
        elif uuid in view.host.undisturbed:
            own_ratio, sure_ratio = _by_profile(view, uuid, vp.sample)
            how = How.PROFILE
        else:
            own_ratio = _not_lost(vp.sample, view.host.evicted_ratio(uuid))
            sure_ratio, how = own_ratio, How.ESTIMATE
        own = own_ratio * measured(vp.sample)
        yield uuid, Charge(own, vp.sample.cpu_cores, vp.sample.span_s, how, sure_ratio)


def _frequent(view: View, rare_misses_per_ms: float) -> Iterator[str]:
    """Who does not miss rarely, or cannot be measured though it runs."""
    for uuid, guest in view.host.guests.items():
        sample = view.host.vps[uuid].sample
        if guest.is_running and (sample is None or measured(sample) >= rare_misses_per_ms):
            yield uuid


def _meets(view: View, uuid: str, frequent: frozenset[str]) -> bool:
    """Whether another one that misses frequently shares an LLC with it."""
    members = view.host.members
    return any(
        other in frequent and other != uuid
        for domain in view.host.domains_of[uuid]
        for other in members[domain.id]
    )


def _by_profile(view: View, uuid: str, sample: Sample) -> tuple[float, float]:
    """Which share of its misses is its own, and how sure that is: the less the profile itself was
    disturbed, and the more it did the same work then."""
    profile = view.host.undisturbed[uuid]
    alone = view.host.resident(uuid, view.policy)
    if not (sample.memory_factor and profile.memory_factor and alone.references_per_s):
        return 1.0, 1.0
    factor = alone.misses_per_s / alone.references_per_s
    undisturbed = min(factor / profile.memory_factor, 1.0)
    works = (sample.l2_mpki, profile.l2_mpki)
    return min(factor / sample.memory_factor, 1.0), undisturbed * min(works) / max(works)


def _not_lost(sample: Sample, evicted: float) -> float:
    """By the model of `predict`: a hit that co-runners cost it is a miss that is not its own."""
    if not sample.mpki:
        return 1.0
    lost_pki = sample.cache_hits_pki * evicted / max(1 - evicted, 0.01)
    return 1 - min(lost_pki / sample.mpki, LOST_MISSES)
