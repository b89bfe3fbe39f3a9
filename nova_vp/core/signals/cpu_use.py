# SPDX-License-Identifier: Apache-2.0
"""From cumulative CPU times to means: what a VP's vCPUs got, waited for and were denied.

No counter is needed for it. What went backwards, or was not read at either end, is no sample. Only
shares of the CPU time wanted are told, so that a moment of reading that is off cancels out.
"""

from typing import cast

from nova_vp.core.signals.sample import WINDOW_SAMPLES
from nova_vp.core.types.cpu_time import CpuTimes, CpuUse, HostCpuTimes, HostCpuUse
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob, Quota
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.state import VpState

_NS_PER_S = 1e9


def sample_cpu_use(vp: VpState, guest: Guest, picture: Picture, policy: Policy) -> VpState:
    """With this tick's sample in its means. Before anything else of the tick is noted of it."""
    now = guest.cpu_times if guest.is_running else None
    applied = picture.applied.get(guest.uuid)
    cap = applied.of(Knob.CPU_CAP) if applied else None
    quota = cast(Quota, cap.original) if cap else None
    use = _with_sample(vp, now, quota, picture.at_s, policy)
    if use and picture.at_s - use.at_s > policy.max_sample_age_s:
        use = None
    return vp._replace(cpu_times=now, quota_under_cap=quota, cpu_use=use)


def _with_sample(
    vp: VpState, now: CpuTimes | None, quota: Quota | None, at_s: float, policy: Policy
) -> CpuUse | None:
    before, use = vp.cpu_times, vp.cpu_use
    span_s = at_s - vp.read_at_s
    if before is None or now is None or not 0 < span_s <= policy.max_sample_age_s:
        return use
    if _is_restart(before, now):
        return use
    throttled_ns = now.throttled_ns - before.throttled_ns
    is_ours = _is_ours(vp.quota_under_cap, quota)
    if throttled_ns and is_ours is None:
        return use
    mean = use or CpuUse(at_s)
    samples = min(mean.samples + 1, WINDOW_SAMPLES)

    def with_one(old: float, nanoseconds: int) -> float:
        return old + (nanoseconds / _NS_PER_S / span_s - old) / samples

    return CpuUse(
        at_s=at_s,
        samples=samples,
        ran_cores=with_one(mean.ran_cores, now.ran_ns - before.ran_ns),
        run_delay_cores=with_one(mean.run_delay_cores, now.run_delay_ns - before.run_delay_ns),
        throttled_ours_cores=with_one(mean.throttled_ours_cores, throttled_ns if is_ours else 0),
        throttled_nova_cores=with_one(mean.throttled_nova_cores, 0 if is_ours else throttled_ns),
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
        return use._replace(times=now)
    total = now.total_ticks - before.total_ticks
    if total <= 0:
        return use._replace(times=now)
    ratio = (now.steal_ticks - before.steal_ticks) / total
    samples = min(use.samples + 1, WINDOW_SAMPLES)
    return HostCpuUse(now, samples, use.steal_ratio + (ratio - use.steal_ratio) / samples)
