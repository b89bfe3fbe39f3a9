# SPDX-License-Identifier: Apache-2.0
"""Nothing succeeds that made somebody wait: CPU waiting as a part of verification.

Misses that were traded for a place in a run queue are no gain, and cycles per instruction do not
show the queue. Time in which a quota throttled somebody is no waiting, so that a cap that helps is
not undone for what it costs the one that is capped.
"""

import math
from collections.abc import Iterator, Mapping

from nova_vp.core.model.limits import size
from nova_vp.core.signals.detect_cpu import IDLE_CORES
from nova_vp.core.types.action import Action, Result
from nova_vp.core.types.cpu_time import CpuUse
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.state import CoreState, Pending, VpState

WORKS_MORE = 1.2
"""Who runs so many times as much as before began to want more by itself."""


def cpu_before(vps: Mapping[str, VpState], policy: Policy) -> Mapping[str, CpuUse]:
    """What is known of everybody's waiting when an action is done."""
    found = {}
    for uuid, vp in vps.items():
        recent, use = vp.recent_cpu_use, vp.cpu_use
        known = recent if recent and recent.samples >= policy.dwell_samples else use
        if known is not None:
            found[uuid] = _at_pace_of(vp.cpu_sample, known)
    return found


def _at_pace_of(sample: CpuUse | None, mean: CpuUse) -> CpuUse:
    """The same shares of what it runs now: who has just begun to work has not done so since."""
    if sample is None or sample.ran_cores <= mean.ran_cores or not mean.ran_cores:
        return mean
    times = sample.ran_cores / mean.ran_cores
    return mean._replace(
        ran_cores=sample.ran_cores,
        run_delay_cores=times * mean.run_delay_cores,
        throttled_ours_cores=times * mean.throttled_ours_cores,
        throttled_nova_cores=times * mean.throttled_nova_cores,
    )


def with_waiting(
    result: Result | None, state: CoreState, pending: Pending, picture: Picture, policy: Policy
) -> Result | None:
    """A verdict by performance, corrected by who waits for CPU since then."""
    if result not in (Result.APPLIED, Result.MENDED) or not pending.cpu_before:
        return result
    if pending.copied_at_s == picture.at_s:
        return Result.APPLIED
    waits = [
        _is_longer(state, pending, uuid, policy)
        for uuid in sorted(_concerned(pending.action, picture))
    ]
    if True in waits:
        return Result.INEFFECTIVE
    is_early = picture.at_s - pending.judged_from_s <= policy.effect_window_s
    return Result.APPLIED if None in waits and is_early else result


def _is_longer(state: CoreState, pending: Pending, uuid: str, policy: Policy) -> bool | None:
    """Whether it waits longer than before, for no more work; None: that is not known yet."""
    now, before = state.vps[uuid].recent_cpu_use, pending.cpu_before.get(uuid)
    if before is None:
        return False  # It came later, or nobody could measure it.
    if now is None or now.samples < policy.settle_samples:
        return None
    if now.ran_cores + now.waited_cores < IDLE_CORES:
        return False  # Of next to nothing, a moment's delay is a large share.
    rise = now.waiting_ratio - before.waiting_ratio
    is_throttled = now.throttled_cores > now.waited_cores
    works_more = now.ran_cores > WORKS_MORE * before.ran_cores
    return rise > policy.cpu_waiting_ratio and not is_throttled and not works_more


def _concerned(action: Action, picture: Picture) -> set[str]:
    """The victim, whoever was changed, and who runs on CPUs of theirs. Not whom it capped: that
    one is to get less."""
    guests = {guest.uuid: guest for guest in picture.guests}
    changed = {change.guest_uuid for change in action.changes} & guests.keys()
    cpus = frozenset().union(*(guests[uuid].placement for uuid in changed))
    there = {uuid for uuid, guest in guests.items() if guest.placement & cpus}
    victims = {uuid for uuid in (action.victim_uuid,) if uuid in guests}
    return (there | victims) - set(_capped(action))


def _capped(action: Action) -> Iterator[str]:
    for change in action.changes:
        if change.knob is Knob.CPU_CAP and size(change.to) < size(change.now):
            yield change.guest_uuid


def waiting_gain(state: CoreState, pending: Pending, uuid: str) -> float:
    """Performance won by waiting less, as the logarithm of its ratio; 0 where it is not known."""
    before, now = pending.cpu_before.get(uuid), state.vps[uuid].recent_cpu_use
    if before is None or now is None:
        return 0.0
    return math.log(_running(now) / _running(before))


def _running(use: CpuUse) -> float:
    """Share of the CPU time it wanted that it got; nobody is taken to stand quite still."""
    return max(1 - use.waiting_ratio, 0.01)
