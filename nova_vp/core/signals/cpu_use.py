# SPDX-License-Identifier: Apache-2.0
"""From cumulative CPU times to means: what a VP's vCPUs got, waited for and were denied.

No counter is needed for it. What went backwards, or was not read at either end, is no sample. Only
shares of the CPU time wanted are told, so that a moment of reading that is off cancels out.
"""

from typing import cast

from nova_vp.core.signals.sample import WINDOW_SAMPLES
from nova_vp.core.types.cpu_time import CpuTimes, CpuUse, HostCpuTimes, HostCpuUse, SeenCpuUse
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob, Quota
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.state import VpState

_NS_PER_S = 1e9


RECENT_SAMPLES = 5
"""Of so many the mean is made by which waiting is judged."""


def sample_cpu_use(
    vp: VpState, guest: Guest, picture: Picture, policy: Policy, placed_at_s: float
) -> SeenCpuUse:
    """With this tick's sample. `vp` as the last tick left it."""
    now = guest.cpu_times if guest.is_running else None
    applied = picture.applied.get(guest.uuid)
    cap = applied.of(Knob.CPU_CAP) if applied else None
    quota = cast(Quota, cap.original) if cap else None
    sample = _sample(vp, now, quota, picture.at_s, policy)
    use, recent = vp.cpu_use, vp.recent_cpu_use
    if vp.read_at_s <= placed_at_s or guest.uuid in picture.memory_moves:
        # Some of this sample, and all before it, is of other places or caps, or of copying.
        recent = None
    elif sample is not None:
        recent = _with_sample(recent, sample, RECENT_SAMPLES)
    if sample is not None:
        use = _with_sample(use, sample, WINDOW_SAMPLES)
    oldest_s = picture.at_s - policy.max_sample_age_s
    return SeenCpuUse(
        now,
        quota,
        sample,
        use if use and use.at_s >= oldest_s else None,
        recent if recent and recent.at_s >= oldest_s else None,
    )


def _sample(
    vp: VpState, now: CpuTimes | None, quota: Quota | None, at_s: float, policy: Policy
) -> CpuUse | None:
    """Since the last tick; None: nobody can say."""
    before = vp.cpu_times
    span_s = at_s - vp.read_at_s
    if before is None or now is None or not 0 < span_s <= policy.max_sample_age_s:
        return None
    if _is_restart(before, now):
        return None
    throttled_ns = now.throttled_ns - before.throttled_ns
    is_ours = _is_ours(vp.quota_under_cap, quota)
    if throttled_ns and is_ours is None:
        return None
    span_ns = span_s * _NS_PER_S
    throttled_cores = throttled_ns / span_ns
    return CpuUse(
        at_s,
        1,
        (now.ran_ns - before.ran_ns) / span_ns,
        (now.run_delay_ns - before.run_delay_ns) / span_ns,
        throttled_cores if is_ours else 0.0,
        0.0 if is_ours else throttled_cores,
    )


def _with_sample(mean: CpuUse | None, one: CpuUse, most_samples: int) -> CpuUse:
    if mean is None:
        return one
    samples = min(mean.samples + 1, most_samples)
    kept, new = 1 - 1 / samples, 1 / samples
    return CpuUse(
        one.at_s,
        samples,
        kept * mean.ran_cores + new * one.ran_cores,
        kept * mean.run_delay_cores + new * one.run_delay_cores,
        kept * mean.throttled_ours_cores + new * one.throttled_ours_cores,
        kept * mean.throttled_nova_cores + new * one.throttled_nova_cores,
    )


def _is_restart(before: CpuTimes, now: CpuTimes) -> bool:
    return (
        now.generation != before.generation
        or now.ran_ns < before.ran_ns
        or now.run_delay_ns < before.run_delay_ns
        or now.throttled_ns < before.throttled_ns
    )


def _is_ours(before: Quota | None, now: Quota | None) -> bool | None:
    """Whose quota held in between, given those under our cap at both ends (None: no cap then).
    None: ours and Nova's, one after the other."""
    if before is None and now is None:
        return False
    under = before or now
    if (before is not None and now is not None) or (under is not None and under.quota_us < 0):
        return True
    return None


def sample_host_cpu(use: HostCpuUse, now: HostCpuTimes | None) -> HostCpuUse:
    """With this tick's sample in its mean; nothing is known while the kernel does not say."""
    if now is None:
        return HostCpuUse()
    before = use.times
    if before is None or now.steal_ticks < before.steal_ticks:
        return use._replace(times=now, recent=(now,))
    total = now.total_ticks - before.total_ticks
    if total <= 0:
        return use._replace(times=now, recent=(now,))
    ratio = (now.steal_ticks - before.steal_ticks) / total
    samples = min(use.samples + 1, WINDOW_SAMPLES)
    steal_ratio = use.steal_ratio + (ratio - use.steal_ratio) / samples
    return HostCpuUse(now, samples, steal_ratio, (*use.recent[-RECENT_SAMPLES:], now))
