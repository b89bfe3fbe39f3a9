# SPDX-License-Identifier: Apache-2.0
"""From cumulative counts to rates: one sample per VP, or the reason why there is none.

A counter that went backwards is a restart, never a negative rate. Nothing is judged here.
"""

from operator import sub

from nova_vp.core.types.cpu_time import SeenCpuUse
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.sample import Incomplete, Reading, Sample
from nova_vp.core.types.state import PerfWindow, VpState


def sample_vp(
    vp: VpState,
    guest: Guest,
    picture: Picture,
    policy: Policy,
    placed_at_s: float,
    cpu: SeenCpuUse,
) -> VpState:
    """The VP with this tick's sample, or with the reason why it has none; and with its means since
    everybody's place last changed. `cpu` comes along: to make a VP anew costs as much for one field
    as for all."""
    reading = picture.readings.get(guest.uuid) if guest.is_running else None
    sample = None
    why = _without_rate(vp, guest, reading, picture.at_s, policy)
    if why is None and reading is not None and vp.reading is not None:
        sample = _rates(vp, vp.reading, reading, guest, picture.at_s)
        why = _doubt(sample, reading, guest, policy)
    complete = sample if why is None else None
    window, peak_cores, busiest_cores, samples_seen = _perf_window(vp, complete, placed_at_s)
    return vp._replace(
        reading=reading,
        read_at_s=picture.at_s,
        cpu_time_ns=guest.cpu_time_ns,
        generation=guest.generation,
        sample=sample,
        incomplete=why,
        window=window,
        peak_cores=peak_cores,
        busiest_cores=busiest_cores,
        seen_at_s=picture.at_s if complete else vp.seen_at_s,
        samples_seen=samples_seen,
        cpu_times=cpu.times,
        quota_under_cap=cpu.quota_under_cap,
        cpu_sample=cpu.sample,
        cpu_use=cpu.mean,
        recent_cpu_use=cpu.recent,
    )


def _without_rate(
    vp: VpState, guest: Guest, reading: Reading | None, now_s: float, policy: Policy
) -> Incomplete | None:
    """Why no rate can be computed at all."""
    before = vp.reading
    if not guest.is_running:
        return Incomplete.STOPPED
    if reading is None:
        return Incomplete.UNREADABLE
    if before is None:
        return Incomplete.FIRST
    if _has_restarted(before, reading) or vp.generation != guest.generation:
        return Incomplete.RESET
    if not 0 < now_s - vp.read_at_s <= policy.max_sample_age_s:
        return Incomplete.LATE
    return None


def _has_restarted(before: Reading, now: Reading) -> bool:
    return (
        now.generation != before.generation
        or now.vcpus_read < before.vcpus_read
        or now.instructions < before.instructions
        or now.cycles < before.cycles
        or now.llc_references < before.llc_references
        or now.llc_misses < before.llc_misses
        or now.llc_misses_remote < before.llc_misses_remote
    )


def _doubt(sample: Sample, reading: Reading, guest: Guest, policy: Policy) -> Incomplete | None:
    """Why a rate that could be computed must not be judged by."""
    if reading.vcpus_read < guest.vcpus:
        return Incomplete.PARTIAL
    if reading.running_ratio < policy.min_running_ratio:
        return Incomplete.MULTIPLEXED
    if sample.instructions_per_s < policy.min_instructions_per_s:
        return Incomplete.IDLE
    if not sample.cpi:  # Instructions without cycles: that counter stands still.
        return Incomplete.UNREADABLE
    return None


def _rates(vp: VpState, before: Reading, now: Reading, guest: Guest, at_s: float) -> Sample:
    span_s = at_s - vp.read_at_s
    instructions = now.instructions - before.instructions
    references = now.llc_references - before.llc_references
    misses = now.llc_misses - before.llc_misses
    remote = now.llc_misses_remote - before.llc_misses_remote
    thousands = instructions / 1000 if instructions else 0.0
    cpu_cores = max(guest.cpu_time_ns - vp.cpu_time_ns, 0) / 1e9 / span_s
    return Sample(
        at_s=at_s,
        span_s=span_s,
        instructions_per_s=instructions / span_s,
        cpi=(now.cycles - before.cycles) / instructions if instructions else 0.0,
        l2_mpki=references / thousands if thousands else 0.0,
        mpki=misses / thousands if thousands else 0.0,
        memory_factor=min(misses / references, 1.0) if references else 0.0,
        misses_per_s=misses / span_s,
        references_per_s=references / span_s,
        remote_ratio=min(remote / misses, 1.0) if misses else 0.0,
        cpu_cores=cpu_cores,
        busiest_cores=min(cpu_cores * _busiest_share(before, now, guest.vcpus), 1.0),
        running_ratio=now.running_ratio,
    )


def _busiest_share(before: Reading, now: Reading, vcpus: int) -> float:
    """Of what all its vCPUs did, what the busiest one did, by their cycles."""
    cycles = now.cycles - before.cycles
    if vcpus > 1 and cycles and len(before.vcpu_cycles) == len(now.vcpu_cycles) > 0:
        busiest: int = max(map(sub, now.vcpu_cycles, before.vcpu_cycles))
        return busiest / cycles
    return 1 / vcpus


WINDOW_SAMPLES = 20
"""Of so many the mean is made; older ones fade."""

STARTING_SAMPLES = 5
"""In which a guest may still use CPU for its start: no peak of its work."""

PEAK_KEPT = 0.998
"""Of a peak, from sample to sample: it halves in six minutes."""

REFILL_S = 1.5
"""After a change of places, until caches are filled again: no measure of the new place."""


def _perf_window(
    before: VpState, sample: Sample | None, placed_at_s: float
) -> tuple[PerfWindow, float, float, int]:
    """Its means, its peaks of CPU (all of it, its busiest vCPU) and how many samples it has, with
    this one if it is complete."""
    window = before.window
    if window.since_s < placed_at_s:
        window = PerfWindow(since_s=placed_at_s)
    if sample is None or sample.at_s - placed_at_s < REFILL_S:
        return window, before.peak_cores, before.busiest_cores, before.samples_seen
    samples = min(window.samples + 1, WINDOW_SAMPLES)
    cpi = window.cpi + (sample.cpi - window.cpi) / samples
    l2_mpki = window.l2_mpki + (sample.l2_mpki - window.l2_mpki) / samples
    seen = min(before.samples_seen + 1, WINDOW_SAMPLES)
    kept = PEAK_KEPT if seen > STARTING_SAMPLES else 0.0
    peak_cores = max(sample.cpu_cores, kept * before.peak_cores)
    busiest_cores = max(sample.busiest_cores, kept * before.busiest_cores)
    window = PerfWindow(window.since_s, samples, cpi, l2_mpki, window.sibling_speed)
    return window, peak_cores, busiest_cores, seen


def window_from_onset(vp: VpState, before: VpState, now_s: float) -> VpState:
    """From the moment it is hurt, its means are of being hurt: a mitigation is measured by them."""
    if vp.detection is None or before.detection is not None or vp.sample is None:
        return vp
    sample, sibling_speed = vp.sample, vp.window.sibling_speed
    return vp._replace(window=PerfWindow(now_s, 1, sample.cpi, sample.l2_mpki, sibling_speed))
