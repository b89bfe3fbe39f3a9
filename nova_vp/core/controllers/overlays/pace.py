# SPDX-License-Identifier: Apache-2.0
"""How fast a server gets on, as far as it is measured: what raising another one may cost it.

CPU waiting is the share of the time that it wants in which it has no CPU. Cycles per instruction
are compared as long as the L2 misses say that it still does the same work.
"""

from nova_vp.core.controllers.overlays.declaration import Pace
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.model.same_work import is_same_work
from nova_vp.core.types.cpu_time import CpuUse
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.state import VpState

RENEWED_BY = 0.2
"""Share of the newest sample in a pace."""
SAME_DEMAND = 0.95
"""Of the CPU that it wanted before: who wants less waits less."""


def pace_of(desk: Desk, uuid: str) -> Pace | None:
    """By its means; None: nobody measures it."""
    vp, policy = desk.view.host.vps[uuid], desk.view.policy
    use = vp.recent_cpu_use
    if use is None or use.samples < policy.settle_samples:
        use = vp.cpu_use
    is_settled = vp.window.samples >= policy.settle_samples
    if use is None and not is_settled:
        return None
    pace = _of_use(uuid, use)
    return pace._replace(cpi=vp.window.cpi, l2_mpki=vp.window.l2_mpki) if is_settled else pace


def seen_since(vp: VpState, at_s: float) -> Pace | None:
    """By its latest samples, if they are newer."""
    use, sample = vp.cpu_sample, vp.sample
    is_new = sample is not None and sample.at_s > at_s
    if use is not None and use.at_s <= at_s:
        use = None
    if use is None and not is_new:
        return None
    pace = _of_use(vp.guest_uuid, use)
    if sample is None or not is_new:
        return pace
    return pace._replace(cpi=sample.cpi, l2_mpki=sample.l2_mpki)


def _of_use(uuid: str, use: CpuUse | None) -> Pace:
    if use is None:
        return Pace(uuid)
    return Pace(uuid, use.waiting_ratio, use.ran_cores + use.waited_cores)


def loss_ratio(before: Pace, now: Pace, policy: Policy) -> float:
    """Share of its performance that it lost."""
    return 1.0 - (1.0 - _longer_waiting(before, now)) * (1.0 - _more_cycles(before, now, policy))


def _longer_waiting(before: Pace, now: Pace) -> float:
    if before.waiting_ratio is None or now.waiting_ratio is None:
        return 0.0
    return max(now.waiting_ratio - before.waiting_ratio, 0.0)


def _more_cycles(before: Pace, now: Pace, policy: Policy) -> float:
    """What counters differ by from second to second is no loss. Who ran no instruction has none."""
    if not before.cpi or not now.cpi or not is_same_work(before.l2_mpki, now.l2_mpki, policy):
        return 0.0
    loss = 1.0 - before.cpi / now.cpi
    return loss if loss > policy.noise_ratio else 0.0


def renewed(before: Pace, now: Pace) -> Pace:
    """A little nearer to what is measured now, where nothing is raised."""
    if now.waiting_ratio is not None:
        waiting = _nearer(before.waiting_ratio, now.waiting_ratio)
        wanted = _nearer(before.wanted_cores, now.wanted_cores)
        before = before._replace(waiting_ratio=waiting, wanted_cores=wanted)
    if now.cpi is not None:
        cpi, l2_mpki = _nearer(before.cpi, now.cpi), _nearer(before.l2_mpki, now.l2_mpki)
        before = before._replace(cpi=cpi, l2_mpki=l2_mpki)
    return before


def _nearer(before: float | None, now: float) -> float:
    return now if before is None else before + RENEWED_BY * (now - before)


def lower(before: Pace, use: CpuUse | None) -> Pace:
    """Who wants as much CPU as before and waits less for it, by its mean, is compared with that
    from then on: what it waited when the other one was raised is no measure for hours."""
    if use is None:
        return before
    now = _of_use(before.uuid, use)
    waits = now.waiting_ratio or 0.0
    if now.wanted_cores < SAME_DEMAND * before.wanted_cores or waits >= (
        before.waiting_ratio or 0.0
    ):
        return before
    return before._replace(waiting_ratio=waits)
