# SPDX-License-Identifier: Apache-2.0
"""Which CPUs an island can lend, and when it needs one back.

A lender keeps what its servers use and a tenth of its CPUs, and the floors of all. CPUs of
latency-critical servers, and of servers that somebody else placed, are not lent.
"""

import math

from nova_vp.core.controllers.overlays.declaration import BORROW, NAME
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.model.host import allotted_cores
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.island import Island, Loan, Scheduler
from nova_vp.core.types.knob import Knob

SPARE_RATIO = 0.1
"""Of its CPUs, that a lender keeps beyond what its servers use."""
NEED_RATIO = 0.9
"""Of its CPUs in use, above which a lender takes one back."""
UNSET_FLOOR = 0.1


def lendable(desk: Desk, lender: Island, guest: Guest, borrower: Island) -> list[int]:
    """CPUs that it can spare for this server, the nearest first."""
    if lender.name in desk.lend_again_s:
        return []
    lent = {loan.cpu for loan in desk.loans}
    newly = {loan.cpu for loan in desk.loans if loan.lender == lender.name} - lender.lent
    spare = idle_cores(desk, lender) - SPARE_RATIO * len(lender.cpus)
    least = max(1, math.ceil(_needed_cpus(desk, lender)))
    most = min(math.floor(spare), len(lender.cpus) - least) - len(newly)
    own = [cpu for cpu in lender.own_cpus - lent if _may_be_lent(desk, lender, cpu, guest)]
    own.sort(key=lambda cpu: (*_distance(desk, cpu, borrower), cpu))
    return own[: max(most, 0)]


def idle_cores(desk: Desk, island: Island) -> float:
    """CPUs that it could do without: one that is capped needs them for its cap."""
    cap = cap_of(desk, island)
    room = len(island.cpus) if cap is None else min(cap, len(island.cpus))
    return (room - used_cores(desk, island)) * len(island.cpus) / room


def used_cores(desk: Desk, island: Island) -> float:
    """CPU that servers want there; those that run in several are spread."""
    return sum(
        wanted_cores(desk, one) * len(one.placement & island.cpus) / len(one.placement)
        for one in desk.on(island.cpus)
    )


def wanted_cores(desk: Desk, guest: Guest) -> float:
    """CPU that it uses, waits for, or is kept from by our limits; all that it could use where
    nobody has measured it yet."""
    vp = desk.view.host.vps[guest.uuid]
    if vp.cpu_use is not None:
        return vp.cpu_use.ran_cores + vp.cpu_use.waited_cores + vp.cpu_use.throttled_ours_cores
    if vp.sample is None:
        return allotted_cores(guest)
    return desk.view.host.demanded_cores(guest.uuid)


def cap_of(desk: Desk, island: Island) -> float | None:
    """Cores that hold now; None: no cap does."""
    cpus = sum(len(one.own_cpus) for one in desk.view.islands)
    host = desk.view.policy.host_cap_cores
    caps = [] if host is None else [host * len(island.cpus) / cpus]
    if island.scheduler is Scheduler.CAPPED and island.cap_cores is not None:
        caps.append(island.cap_cores * len(island.cpus) / len(island.own_cpus))
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
    """Each lender that needs one gets one CPU back, that of the overlay that matters least, and
    lends none for a while."""
    for island in desk.view.islands:
        loans = [loan for loan in desk.loans if loan.lender == island.name]
        spare = (1 - NEED_RATIO) * len(island.cpus)
        if not loans or idle_cores(desk, island) >= spare:
            continue
        desk.loans.remove(
            min(loans, key=lambda one: (priority_of(desk, one), -one.began_at_s, one.cpu))
        )
        desk.lend_again_s[island.name] = desk.now_s + desk.settings.borrow_hold_s
