# SPDX-License-Identifier: Apache-2.0
"""Who waits for CPU, and who uses the CPUs meanwhile: what neither cache nor memory shows.

Waiting is the run delay that no quota explains, as a share of the CPU time that a VP wants. It
needs no counter and no calibration. Cycles per instruction do not rise by it, so that what a VP is
when nobody hurts it is left as it was while it waits.
"""

import enum
from dataclasses import replace

from nova_vp.core.signals.cpu_users import CpuUsers
from nova_vp.core.signals.detect_cache import Found, Verdict
from nova_vp.core.types.cpu_time import CpuUse
from nova_vp.core.types.detection import WAITING, Detection, Kind, Suspect
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.sample import Profile
from nova_vp.core.types.state import VpState

IDLE_CORES = 0.05
"""Who runs less is not judged: of next to nothing, a moment's delay is a large share."""
LEAST_SHARE = 0.1
"""Of what all others use of its CPUs, the host too: who uses less is no suspect."""
HOST_SHARE = 0.25
"""Of what a VP waits: who takes less of its CPUs does not explain it."""


class Unjudged(enum.Enum):
    """Why nobody can say whether a VP waits for CPU too long."""

    UNKNOWN = "cpu-times-unreadable"
    FEW = "few-samples"
    IDLE = "idle"
    THROTTLED = "throttled-by-its-quota"
    """For longer than it waited. The kernel counts both at different moments, so that their small
    difference says nothing."""


def why_unjudged(use: CpuUse | None, policy: Policy) -> Unjudged | None:
    if use is None:
        return Unjudged.UNKNOWN
    if use.samples < policy.dwell_samples:
        return Unjudged.FEW
    if use.ran_cores < IDLE_CORES:
        return Unjudged.IDLE
    if use.throttled_cores > use.waited_cores:
        return Unjudged.THROTTLED
    return None


def detect_cpu(
    found: Found,
    vp: VpState,
    before: Profile | None,
    users: CpuUsers,
    now_s: float,
    policy: Policy,
    is_on_trial: bool = False,
) -> Found:
    """What cache and memory left: a VP that waits for CPU while others run, or truly well.

    `found` is of this VP without its detection of waiting, `vp` still has it. With a mitigation of
    something else on trial, none is opened: what that one made worse, verification tells.
    """
    known = vp.detection if vp.detection and vp.detection.kind in WAITING else None
    if found.verdict is Verdict.DEGRADED:
        return found
    use = vp.recent_cpu_use
    least = policy.cpu_waiting_ratio * (1 - policy.hysteresis_ratio if known else 1)
    if known is None and not vp.waiting_samples and _is_below(use, least):
        return found
    if why_unjudged(use, policy) or use is None or not _has_profile(vp, before):
        return _unknown(found, vp, known, now_s, policy)
    if use.waiting_ratio <= least:
        return _not_waiting(found, known, use, is_on_trial, policy)
    samples = vp.waiting_samples + 1
    waits = found.vp._replace(waiting_samples=samples)
    if samples == 1:
        # From now on its means are of waiting: a mitigation is measured by them.
        waits = waits._replace(recent_cpu_use=vp.cpu_sample)
    if known is None and (is_on_trial or samples < policy.dwell_samples):
        return found._replace(vp=waits)
    host_cores = users.host_cores(users.host.guests[vp.guest_uuid].placement)
    suspects = _suspects(vp, users, host_cores)
    if suspects or host_cores >= max(HOST_SHARE * use.waited_cores, IDLE_CORES):
        detection = _detection(vp, before, known, users, suspects, use, now_s)
        degraded = waits._replace(
            detection=replace(detection, host_cores=host_cores), suspected_at_s=now_s
        )
        return Found(degraded, before, Verdict.DEGRADED if suspects else Verdict.UNKNOWN)
    return _unknown(found._replace(vp=waits), vp, known, now_s, policy)


def _is_below(use: CpuUse | None, least: float) -> bool:
    """Most VPs in most ticks: all its delay, whatever caused it, is too little."""
    return use is None or use.run_delay_cores <= least * use.ran_cores


def _has_profile(vp: VpState, before: Profile | None) -> bool:
    """Whether its counters say what it does: without that, nobody can say what a change costs."""
    return before is not None and vp.sample is not None and not vp.incomplete and bool(vp.state)


def _unknown(
    found: Found, vp: VpState, known: Detection | None, now_s: float, policy: Policy
) -> Found:
    """A detection stands for a moment: after each change the numbers begin anew."""
    if known is None or now_s - vp.suspected_at_s > policy.effect_window_s:
        return found
    return Found(found.vp._replace(detection=known), found.undisturbed, Verdict.UNKNOWN)


def _not_waiting(
    found: Found, known: Detection | None, use: CpuUse, is_on_trial: bool, policy: Policy
) -> Found:
    well = found.vp._replace(waiting_samples=0) if found.vp.waiting_samples else found.vp
    if known is None:
        return found if well is found.vp else found._replace(vp=well)
    if is_on_trial and use.samples < policy.settle_samples:
        return Found(well._replace(detection=known), found.undisturbed, Verdict.UNKNOWN)
    return Found(well, found.undisturbed, Verdict.RECOVERED)


def _suspects(vp: VpState, users: CpuUsers, host_cores: float) -> tuple[Suspect, ...]:
    """Who else uses its CPUs, the heaviest first. Servers of its own VP are none."""
    guests = users.host.guests
    own = guests[vp.guest_uuid]
    others = {
        uuid: cores
        for uuid, cores in users.of(own.placement).items()
        if guests[uuid].vp_id != own.vp_id
    }
    least = LEAST_SHARE * (sum(others.values()) + host_cores)
    found = (
        Suspect(uuid, pressure_per_s=cores, rise_per_s=cores)
        for uuid, cores in others.items()
        if cores > 0 and cores >= least
    )
    return tuple(sorted(found, key=lambda one: (-one.pressure_per_s, one.guest_uuid)))


def _detection(
    vp: VpState,
    before: Profile | None,
    known: Detection | None,
    users: CpuUsers,
    suspects: tuple[Suspect, ...],
    use: CpuUse,
    now_s: float,
) -> Detection:
    assert vp.sample is not None
    assert vp.state is not None
    assert before is not None
    domains = users.host.domains_of[vp.guest_uuid]
    return Detection(
        victim_uuid=vp.guest_uuid,
        kind=Kind.CPU if suspects else Kind.HOST_CPU,
        domain_id=domains[0].id if domains else 0,
        since_s=known.since_s if known else now_s,
        before=before,
        now=vp.sample,
        state_now=vp.state,
        suspects=suspects,
        waiting_ratio=use.waiting_ratio,
    )
