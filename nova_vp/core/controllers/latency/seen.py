# SPDX-License-Identifier: Apache-2.0
"""What the loops see of one latency-critical server in a tick."""

import math
from collections.abc import Iterable
from typing import NamedTuple, cast

from nova_vp.core.controllers.base import View
from nova_vp.core.controllers.latency.cpi_models import CpiModel, cpi_models_of
from nova_vp.core.controllers.latency.declaration import LatencySettings
from nova_vp.core.model.limits import value_from_nova
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob, Quota
from nova_vp.core.types.sample import Incomplete, Sample
from nova_vp.core.types.service_level import LatencyReport

MOST_LOAD_RATIO = 2.0
"""Of the maximum load: what lies above is no truth, and says no more than this."""
THROTTLED_RATIO = 0.05
"""Of the CPU time that a server wants: whom our cap denies more is held back by it."""
USED_UP_RATIO = 0.8
"""Of the cap of one vCPU, where the kernel says nothing: of who uses less, no vCPU is held back."""
_MEASURED = frozenset({None, Incomplete.IDLE})


def own_quota(view: View, guest: Guest) -> Quota:
    """What Nova gave each of its vCPUs."""
    nova = value_from_nova(guest, Knob.CPU_CAP, view.host.applied.get(guest.uuid))
    assert isinstance(nova, Quota)
    return nova


class OwnCores(dict[str, float]):
    """By server: the most CPU that it can use without a cap of ours. Computed once in a tick: each
    best-effort server is asked about for each latency-critical one."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view

    def __missing__(self, uuid: str) -> float:
        guest = self._view.host.guests[uuid]
        self[uuid] = cores = guest.vcpus * own_quota(self._view, guest).cores
        return cores


class Seen(NamedTuple):
    now_s: float
    machine_cpus: int
    most_cores: float
    """That the best-effort servers beside it can use together."""
    cpi_model: CpiModel
    sample: Sample | None
    """Its own; None: not measured in this tick."""
    own_cores: float | None
    """That it uses itself; None: nobody can say."""
    best_effort_cores: float | None
    """That those beside it use; None: of one of them nobody can say."""
    report: LatencyReport | None
    """One that is not too old and has a target; None: its application is silent."""
    target_ms: float
    load_ratio: float | None
    """Of its maximum load."""
    busy_ratio: float | None
    """CPU that it uses and waits for, of the most that it uses; None: nobody can say."""
    is_throttled: bool = False
    """A cap holds one of those beside it back, as far as anybody can say."""

    @property
    def slack_ratio(self) -> float:
        """(target - latency) / target; of who is silent 0."""
        if self.report is None:
            return 0.0
        return (self.target_ms - self.report.latency_ms) / self.target_ms


def seen_of(
    view: View,
    own: OwnCores,
    guest: Guest,
    beside: tuple[Guest, ...],
    settings: LatencySettings,
) -> Seen:
    report = _fresh_report(view, guest, settings)
    cpi_model = cpi_model_of(view, own, guest, settings)
    return Seen(
        now_s=view.now_s,
        machine_cpus=len(view.host.topology.cpus),
        most_cores=sum(own[one.uuid] for one in beside),
        cpi_model=cpi_model,
        sample=_sample(view, guest.uuid),
        own_cores=used_cores(view, (guest,)),
        best_effort_cores=used_cores(view, beside),
        report=report,
        target_ms=guest.latency_target_ms or math.inf,
        load_ratio=_load_ratio(guest, report),
        busy_ratio=_busy_ratio(view, guest, min(cpi_model.most_cores, own[guest.uuid])),
        is_throttled=any(is_held_back(view, one, one.quota.cores) for one in beside),
    )


def _fresh_report(view: View, guest: Guest, settings: LatencySettings) -> LatencyReport | None:
    """None: nothing to go by."""
    report = view.picture.latency_reports.get(guest.uuid)
    if report is None or guest.latency_target_ms is None or not is_sound(report):
        return None
    return report if report.age_s <= settings.report_age_s else None


def is_sound(report: LatencyReport) -> bool:
    """No number that cannot be one."""
    load = report.load
    numbers = (report.latency_ms, report.age_s, 0.0 if load is None else load)
    return all(math.isfinite(one) and one >= 0.0 for one in numbers)


def _load_ratio(guest: Guest, report: LatencyReport | None) -> float | None:
    if report is None or report.load is None or not guest.max_load:
        return None
    return min(report.load / guest.max_load, MOST_LOAD_RATIO)


def _sample(view: View, uuid: str) -> Sample | None:
    vp = view.host.vps[uuid]
    return vp.sample if vp.incomplete in _MEASURED else None


def used_cores(view: View, guests: Iterable[Guest]) -> float | None:
    """In this tick, by the kernel's times of their vCPUs, which is what a cap limits; else as
    measured with their counters."""
    total = 0.0
    for one in guests:
        sample, use = _sample(view, one.uuid), view.host.vps[one.uuid].cpu_sample
        if sample is None and use is None:
            return None
        total += use.ran_cores if use else cast(Sample, sample).cpu_cores
    return total


def is_held_back(view: View, guest: Guest, cap_cores: float) -> bool | None:
    """Whether this cap of each vCPU holds one of them back; None: nobody can say. The kernel says
    it, else the busiest vCPU by its counters, which is taken as the others where they tell only the
    sum."""
    use, sample = view.host.vps[guest.uuid].cpu_use, _sample(view, guest.uuid)
    if use is not None:
        return use.throttled_ratio_ours > THROTTLED_RATIO
    return None if sample is None else sample.busiest_cores >= USED_UP_RATIO * cap_cores


def _busy_ratio(view: View, guest: Guest, most_cores: float) -> float | None:
    """By the kernel's times, which know how long it waits, else by its counters."""
    use, sample = view.host.vps[guest.uuid].cpu_use, _sample(view, guest.uuid)
    if use is not None:
        wanted_cores = use.ran_cores + use.waited_cores
    elif sample is not None:
        wanted_cores = sample.cpu_cores
    else:
        return None
    return wanted_cores / most_cores


def cpi_model_of(view: View, own: OwnCores, guest: Guest, settings: LatencySettings) -> CpiModel:
    """As it was learned; else its undisturbed CPI and as much more as counts as degraded."""
    learned = cpi_models_of(settings.cpi_models).get(guest.uuid)
    if learned is not None:
        return learned
    profile = view.host.undisturbed.get(guest.uuid)
    threshold_cpi = profile.cpi * (1 + view.policy.cpi_rise_ratio) if profile else math.inf
    return CpiModel(threshold_cpi, own[guest.uuid])
