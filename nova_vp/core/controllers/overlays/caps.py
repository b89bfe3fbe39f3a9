# SPDX-License-Identifier: Apache-2.0
"""Caps of islands: what its servers may use together, dealt out anew in every tick by what they
want.

Each server has its floor; the rest goes to those that want more, by priority and tuned weight. A
cap that floors and servers that cannot be limited exceed by themselves does not hold, and says so.
The cap of the host is the sum over its islands by their CPUs of now: it follows a CPU that is lent
(thesis 2013, 4.5.1). An island that wants more than its cap borrows one that another can spare.
Islands that a server joins have one cap together.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from nova_vp.core.controllers.overlays.bandwidth import full_node
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.controllers.overlays.lending import (
    cap_of,
    cpus_now,
    idle_cores,
    lendable,
    wanted_cores,
)
from nova_vp.core.controllers.overlays.pools import Pool, part_of, pools_of
from nova_vp.core.controllers.overlays.weights import times_of
from nova_vp.core.model.holds import was_refused_lately
from nova_vp.core.model.host import allotted_cores
from nova_vp.core.model.limits import value_from_nova
from nova_vp.core.types.claim import Setting
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.island import Island, Loan
from nova_vp.core.types.knob import Knob, Quota
from nova_vp.core.types.policy import Mode, tightest

HEADROOM = 1.25
"""Of what a server uses and waits for: that it may grow to until the next tick."""
DEAD_RATIO = 0.02
"""A server's limit changes if it, or that of another one of the island, would by more than that."""
LEAST_WEIGHT = 0.01
AT_LEAST = 0.01
"""Cores of each vCPU."""
FULL_RATIO = 0.98
"""Of its cap in use, from which an island wants another CPU."""
LOAN_S = 2.0
"""An island that is capped keeps a CPU that long after it last wanted it."""


class Share(NamedTuple):
    """One server of a capped island."""

    guest: Guest
    own_cores: float
    """All that Nova gave it, as far as it counts for the island."""
    floor_cores: float
    wanted_cores: float
    weight: float
    vcpus: float
    """In proportion to that."""


def deal_out(desk: Desk) -> Mapping[str, str]:
    """Set the limits of all servers in capped islands. Returns what keeps a cap from holding, by
    island."""
    problems: dict[str, str] = {}
    before, desk.caps = desk.caps, {}
    if Knob.CPU_CAP not in desk.view.host.knobs:
        return problems
    for pool in _pools(desk):
        parts = {one.uuid: part_of(desk, one, pool) for one in desk.on(pool.cpus)}
        inside = [one for one in desk.on(pool.cpus) if parts[one.uuid]]
        shares = [_share(desk, one, parts[one.uuid]) for one in inside if is_limitable(desk, one)]
        fixed = sum(
            allotted_cores(one) * parts[one.uuid] for one in inside if not is_limitable(desk, one)
        )
        least = fixed + sum(one.floor_cores for one in shares)
        if least > pool.cap_cores:
            problems |= dict.fromkeys((one.name for one in pool.islands), _problem(pool, least))
            continue
        left = pool.cap_cores - fixed
        for uuid, cores in _settled(desk, before, dealt(left, shares), shares, left).items():
            desk.caps[uuid] = min(cores, desk.caps.get(uuid, cores))
    return problems


def _pools(desk: Desk) -> list[Pool]:
    guests = desk.view.host.guests.values()
    spread = [one for one in guests if one.is_running and not desk.home(one)]
    return pools_of(desk, [one for one in spread if is_limitable(desk, one)])


def _problem(pool: Pool, least_cores: float) -> str:
    return (
        f"floors and servers that cannot be limited need {least_cores:.2f} of "
        f"{pool.cap_cores:.2f} cores: give flavors vp:cpu_floor or quota:cpu_quota, or raise the "
        "cap"
    )


def is_limitable(desk: Desk, guest: Guest) -> bool:
    """Whether a limit would be granted and applied."""
    setting = Setting(guest.uuid, Knob.CPU_CAP, guest.quota)
    view = desk.view
    vp = view.host.vps[guest.uuid]
    return (
        guest.cap_floor_ratio is not None
        and guest.unmanaged is None
        and not guest.is_latency_critical
        and tightest(view.picture.mode, guest.mode or Mode.ENFORCE) is Mode.ENFORCE
        and not was_refused_lately(setting, vp, "overlays", view.now_s, view.policy)
    )


def _share(desk: Desk, guest: Guest, part: float) -> Share:
    applied = desk.view.picture.applied.get(guest.uuid)
    given = cast(Quota, value_from_nova(guest, Knob.CPU_CAP, applied)).cores
    own = given * guest.vcpus
    wanted = HEADROOM * wanted_cores(desk, guest)
    floor = min(max((guest.cap_floor_ratio or 0.0) * own, AT_LEAST * guest.vcpus), own)
    weight = max(guest.priority, LEAST_WEIGHT) * times_of(desk, guest.uuid)
    most = min(max(wanted, floor), own)
    return Share(guest, own * part, floor * part, most * part, weight, guest.vcpus * part)


def dealt(cores: float, shares: Sequence[Share]) -> dict[str, float]:
    """Cores of each: the floors, then what is wanted, then the rest, each by weight."""
    found = {one.guest.uuid: one.floor_cores for one in shares}
    _fill(found, cores, shares, {one.guest.uuid: one.wanted_cores for one in shares})
    _fill(found, cores, shares, {one.guest.uuid: one.own_cores for one in shares})
    return found


def _fill(
    found: dict[str, float], cores: float, shares: Sequence[Share], most: Mapping[str, float]
) -> None:
    """Raise all in step with their weights until each has its most, or nothing is left."""
    hungry = [one for one in shares if found[one.guest.uuid] < most[one.guest.uuid]]
    left = cores - sum(found.values())
    while hungry and left > 1e-9:
        weights = sum(one.weight for one in hungry)
        step = min((most[one.guest.uuid] - found[one.guest.uuid]) / one.weight for one in hungry)
        step = min(step, left / weights)
        for one in hungry:
            found[one.guest.uuid] += step * one.weight
        left -= step * weights
        hungry = [one for one in hungry if most[one.guest.uuid] - found[one.guest.uuid] > 1e-9]


def _settled(
    desk: Desk,
    before: Mapping[str, float],
    wanted: Mapping[str, float],
    shares: Sequence[Share],
    cores: float,
) -> dict[str, float]:
    """Cores of each vCPU: those of before, as long as they add up and are near enough."""
    found = {one.guest.uuid: wanted[one.guest.uuid] / one.vcpus for one in shares}
    same = all(
        one.guest.uuid in before
        and abs(before[one.guest.uuid] - found[one.guest.uuid])
        <= DEAD_RATIO * one.own_cores / one.vcpus
        for one in shares
    )
    total = sum(before.get(one.guest.uuid, 0.0) * one.vcpus for one in shares)
    if same and total <= cores:
        return {uuid: before[uuid] for uuid in found}
    return found


def borrow_for_islands(desk: Desk) -> None:
    """Where the host is capped: a CPU for an island that uses all of its cap, from one that does
    not, for as long as it needs it. Islands with one cap together need no CPU to share it."""
    if desk.view.policy.host_cap_cores is None or Knob.PLACEMENT not in desk.view.host.knobs:
        return
    alone = [pool.islands[0] for pool in _pools(desk) if len(pool.islands) == 1]
    for island in alone:
        inside = [one for one in desk.on(island.cpus) if desk.home(one) == island]
        cap = cap_of(desk, island) or 0.0
        wanted = sum(wanted_cores(desk, one) for one in inside)
        has = [one for one in desk.loans if one.is_for_all and one.borrower == island.name]
        each = cap / cpus_now(desk, island)
        if wanted > FULL_RATIO * cap and inside:
            _extend(desk, has)
            _borrow(desk, island, inside, math.ceil((wanted - FULL_RATIO * cap) / each))
        elif has and wanted > FULL_RATIO * (cap - each):
            _extend(desk, has)


def _extend(desk: Desk, loans: Sequence[Loan]) -> None:
    until_s = desk.now_s + LOAN_S
    desk.loans = [one._replace(until_s=until_s) if one in loans else one for one in desk.loans]


def _borrow(desk: Desk, island: Island, inside: Sequence[Guest], cpus: int) -> None:
    """As many of so many CPUs as others can spare. One that lends has all back that it needs."""
    if full_node(desk, inside, cpus) is not None:
        return
    widest = max(inside, key=lambda one: (one.vcpus, one.uuid))
    lenders = [one for one in desk.view.islands if one.name != island.name]
    lenders.sort(key=lambda one: (-idle_cores(desk, one), one.name))
    found = [
        (cpu, lender.name) for lender in lenders for cpu in lendable(desk, lender, widest, island)
    ]
    until_s = desk.now_s + LOAN_S
    desk.loans += [
        Loan(cpu, name, island.name, "", desk.now_s, until_s) for cpu, name in found[:cpus]
    ]
