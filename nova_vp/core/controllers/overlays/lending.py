# SPDX-License-Identifier: Apache-2.0
"""Which CPUs an island can lend, and when it needs one back.

A lender keeps what its servers use and a tenth of its CPUs, and the floors of all. CPUs of
latency-critical servers, and of servers that somebody else placed, are not lent.
"""

import math
from typing import cast

from nova_vp.core.controllers.overlays.declaration import BORROW, NAME
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.model.cpu_cap import CAP_STEP
from nova_vp.core.model.host import allotted_cores
from nova_vp.core.model.islands import with_loans
from nova_vp.core.model.limits import value_from_nova
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.island import Island, Loan, Scheduler
from nova_vp.core.types.knob import Knob, Quota

SPARE_RATIO = 0.1
"""Of its CPUs, that a lender keeps beyond what its servers use."""
NEED_RATIO = 0.9
"""Of its CPUs in use, above which a lender takes one back."""
UNSET_FLOOR = 0.1


def lendable(desk: Desk, lender: Island, guest: Guest, borrower: Island) -> list[int]:
    """CPUs that it can spare for this server, the nearest first."""
    spare = idle_cores(desk, lender) - SPARE_RATIO * cpus_now(desk, lender)
    return _free_to_lend(desk, lender, guest, borrower)[: max(math.floor(spare), 0)]


def short_of(desk: Desk, lender: Island, guest: Guest, borrower: Island, cpus: int) -> float | None:
    """Cores that its servers would have to want less for it to lend so many CPUs more; None:
    something else keeps it from lending."""
    wanted = len(lendable(desk, lender, guest, borrower)) + cpus
    if len(_free_to_lend(desk, lender, guest, borrower)) < wanted:
        return None
    cpus_lacking = wanted + SPARE_RATIO * cpus_now(desk, lender) - idle_cores(desk, lender)
    return cpus_lacking * _room_cores(desk, lender) / cpus_now(desk, lender)


def _free_to_lend(desk: Desk, lender: Island, guest: Guest, borrower: Island) -> list[int]:
    """If its servers wanted nothing. Who borrows lends none: it would be left with less than it
    has once it gives back."""
    if lender.name in desk.lend_again_s:
        return []
    if any(loan.borrower == lender.name for loan in desk.loans):
        return []
    lent = {loan.cpu for loan in desk.loans}
    least = max(1, math.ceil(_needed_cpus(desk, lender)))
    own = [cpu for cpu in lender.own_cpus - lent if _may_be_lent(desk, lender, cpu, guest)]
    own.sort(key=lambda cpu: (*_distance(desk, cpu, borrower), cpu))
    return own[: max(cpus_now(desk, lender) - least, 0)]


def has_lent(desk: Desk, island: Island) -> bool:
    """It borrows none meanwhile: it has its own CPUs back as soon as its servers want them."""
    return any(loan.lender == island.name for loan in desk.loans)


def cpus_now(desk: Desk, island: Island) -> int:
    """With what this run lent and gave back."""
    [now] = with_loans((island,), desk.loans)
    return len(now.cpus) if desk.loans else len(island.own_cpus)


def idle_cores(desk: Desk, island: Island) -> float:
    """CPUs that it could do without: one that is capped needs them for its cap."""
    room = _room_cores(desk, island)
    return (room - used_cores(desk, island)) * cpus_now(desk, island) / room


def is_full(desk: Desk, island: Island) -> bool:
    """Its servers want more than it can do without."""
    return idle_cores(desk, island) < (1 - NEED_RATIO) * cpus_now(desk, island)


def _room_cores(desk: Desk, island: Island) -> float:
    cap, cpus = cap_of(desk, island), cpus_now(desk, island)
    return cpus if cap is None else min(cap, cpus)


def used_cores(desk: Desk, island: Island) -> float:
    """CPU that servers want there; those that run in several are spread."""
    return sum(
        wanted_cores(desk, one) * len(one.placement & island.cpus) / len(one.placement)
        for one in desk.on(island.cpus)
    )


def wanted_cores(desk: Desk, guest: Guest) -> float:
    """CPU that it uses, waits for, or is kept from by our limits; all that it could use where
    nobody has measured it yet. One that is limited for another overlay: what that leaves it."""
    wanted = _wanted_cores(desk, guest)
    conceded = desk.conceded.get(guest.uuid)
    return wanted if conceded is None else min(wanted, left_cores(desk, guest, conceded.steps))


def left_cores(desk: Desk, guest: Guest, steps: int) -> float:
    """Of all that Nova gave it, by a limit of so many steps."""
    applied = desk.view.picture.applied.get(guest.uuid)
    given = cast(Quota, value_from_nova(guest, Knob.CPU_CAP, applied)).cores
    return max(1.0 - CAP_STEP * steps, 0.0) * given * guest.vcpus


def _wanted_cores(desk: Desk, guest: Guest) -> float:
    vp = desk.view.host.vps[guest.uuid]
    use = vp.cpu_sample or vp.cpu_use
    if use is not None:  # Of the last second: what is lent comes back as soon as it is needed.
        return use.ran_cores + use.waited_cores + use.throttled_ours_cores
    if vp.sample is None:
        return allotted_cores(guest)
    return desk.view.host.demanded_cores(guest.uuid)


def cap_of(desk: Desk, island: Island) -> float | None:
    """Cores that hold now; None: no cap does."""
    cpus = sum(len(one.own_cpus) for one in desk.view.islands)
    host = desk.view.policy.host_cap_cores
    caps = [] if host is None else [host * cpus_now(desk, island) / cpus]
    if island.scheduler is Scheduler.CAPPED and island.cap_cores is not None:
        caps.append(island.cap_cores * cpus_now(desk, island) / len(island.own_cpus))
    return min(caps, default=None)


def _needed_cpus(desk: Desk, lender: Island) -> float:
    homed = [one for one in desk.on(lender.cpus) if desk.home(one) == lender]
    if lender.scheduler is Scheduler.EXCLUSIVE:
        return float(sum(one.vcpus for one in homed))
    return sum((one.cap_floor_ratio or UNSET_FLOOR) * one.vcpus for one in homed)


def _may_be_lent(desk: Desk, lender: Island, cpu: int, guest: Guest) -> bool:
    """Nova allows it to the borrower, and those who run on it may leave it."""
    if cpu not in guest.allowed_cpus | guest.beyond_island:
        return False
    return not any(
        one.is_latency_critical or (desk.home(one) == lender and not _may_leave(desk, one, cpu))
        for one in desk.on(frozenset({cpu}))
    )


def _may_leave(desk: Desk, guest: Guest, cpu: int) -> bool:
    return may_place(desk, guest) and all(one - {cpu} for one in guest.cpus)


def may_place(desk: Desk, guest: Guest) -> bool:
    is_free = desk.view.may_claim(guest.uuid, Knob.PLACEMENT, NAME, BORROW.rank)
    return is_free and guest.unmanaged is None


def _distance(desk: Desk, cpu: int, island: Island) -> tuple[bool, bool]:
    """Whether it is of another NUMA node, and of another LLC."""
    domains = desk.view.host.topology.domains
    here = [one for one in domains if one.cpus & island.own_cpus]
    there = [one for one in domains if cpu in one.cpus]
    is_near = any(one.node == other.node for one in here for other in there)
    return not is_near, not any(one == other for one in here for other in there)


def priority_of(desk: Desk, loan: Loan) -> float:
    """0 of a loan for all servers of an island."""
    overlay = desk.overlays.get(loan.overlay_id)
    return overlay.priority if overlay else 0.0


def give_back_needed(desk: Desk) -> None:
    """Each lender gets as many CPUs back as it needs, those of overlays that matter least, and
    lends none for a while."""
    for island in desk.view.islands:
        loans = [loan for loan in desk.loans if loan.lender == island.name]
        needed = (1 - NEED_RATIO) * cpus_now(desk, island) - idle_cores(desk, island)
        if not loans or needed <= 0.0:
            continue
        loans.sort(key=lambda one: (priority_of(desk, one), -one.began_at_s, one.cpu))
        back = loans[: math.ceil(needed)]
        desk.loans = [loan for loan in desk.loans if loan not in back]
        desk.lend_again_s[island.name] = desk.now_s + desk.settings.borrow_hold_s
