# SPDX-License-Identifier: Apache-2.0
"""After so many refusals in a row for lack of room the host itself arbitrates.

It limits that server of another overlay whose degradation weighs least (the source: one chosen at
random), as little as takes CPU from it: one on the same CPUs, or, if CPUs are to be borrowed, one
whose island can lend them then. A server of another project, or of an overlay with a higher
priority, loses at most `most_harm_ratio`, now and later. If there is none, nothing on this host
helps: the cluster is asked.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from nova_vp.core.controllers.overlays.declaration import NAME, TUNE, Conceded, Refusals
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.controllers.overlays.lending import (
    is_full,
    left_cores,
    short_of,
    wanted_cores,
)
from nova_vp.core.model.cpu_cap import CAP_STEP
from nova_vp.core.types.claim import Alternative, ClaimGroup, PredictedLoss
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.overlay import Overlay
from nova_vp.core.types.reason import Rejection

INTERVAL_S = 0.03
"""In which the source answers calls, and counts one refusal."""
WAITS_RATIO = 0.01
"""Of what it wants: who waits for less lacks none."""
SETTLES_S = 1.0
"""After a limit: by then a sample shows what it brought."""
UNMET_S = 60.0
"""After its last refusal an overlay is not in need any more."""


def note_nack(desk: Desk, overlay: Overlay, guest: Guest, cpus: int) -> None:
    """A call for this server, that borrows so many CPUs, was refused, since others leave too little
    CPU. Each island counts its own, and one in an interval."""
    if not _is_in_need(desk, guest, cpus):
        return
    island, refusals = island_name(desk, guest), desk.account(overlay.id).refusals
    before = refusals.get(island, Refusals(0, -math.inf))
    age_s = desk.now_s - before.at_s
    if age_s < INTERVAL_S:
        return
    row = Refusals(before.in_a_row + 1 if age_s <= UNMET_S else 1, desk.now_s)
    desk.change_account(overlay.id, refusals={**refusals, island: row})
    if row.in_a_row % desk.settings.escalate_nacks == 0:
        _arbitrate(desk, overlay, guest, cpus)


def island_name(desk: Desk, guest: Guest) -> str:
    home = desk.home(guest)
    return home.name if home is not None else ""


def _is_in_need(desk: Desk, guest: Guest, cpus: int) -> bool:
    """Whatever it says: its island is full, or, of who borrows nothing, it waits for CPU as far as
    that is measured."""
    if cpus:
        home = desk.home(guest)
        return home is None or is_full(desk, home)
    use = desk.view.host.vps[guest.uuid].cpu_use
    return use is None or use.waited_cores > WAITS_RATIO * (use.ran_cores + use.waited_cores)


def _arbitrate(desk: Desk, overlay: Overlay, guest: Guest, cpus: int) -> None:
    if any(
        one.for_uuid == guest.uuid and _is_settling(desk, one) for one in desk.conceded.values()
    ):
        return
    found = sorted(_candidates(desk, overlay, guest, cpus))
    if not found:
        since_s = desk.account(overlay.id).unmet_since_s
        since_s = desk.now_s if since_s is None else since_s
        desk.change_account(overlay.id, unmet_since_s=since_s, unmet_uuid=guest.uuid)
        return
    _, uuid, steps = found[0]
    until_s = desk.now_s + desk.settings.tune_lease_s
    desk.note_change(uuid)
    desk.conceded[uuid] = Conceded(overlay.id, guest.uuid, until_s, steps, desk.now_s)


def _is_settling(desk: Desk, one: Conceded) -> bool:
    return desk.now_s - one.at_s < SETTLES_S


class Limit(NamedTuple):
    """What would help, and how far."""

    guest: Guest
    steps: int
    loss: float
    """Of its performance, at most."""


def _candidates(
    desk: Desk, overlay: Overlay, guest: Guest, cpus: int
) -> Iterator[tuple[float, str, int]]:
    """Weighted loss, server and steps of those that may be limited further."""
    if Knob.CPU_CAP not in desk.view.host.knobs:
        return
    for one, steps, loss in (*_beside(desk, guest), *_lending(desk, guest, cpus)):
        priority = _priority(desk, overlay, one)
        if priority is None or not _may_be_limited(one):
            continue
        if round(1.0 - CAP_STEP * steps, 6) < (one.cap_floor_ratio or 0.0):
            continue
        if _may_lose_more(desk, overlay, guest, one) or loss <= desk.settings.most_harm_ratio:
            yield loss * priority * one.priority, one.uuid, steps


def _beside(desk: Desk, guest: Guest) -> Iterator[Limit]:
    """On its CPUs: it gets what they use less."""
    for one in desk.beside(guest):
        used = _used_ratio(desk, one)
        yield _limit(desk, one, _steps(used, _steps_now(desk, one)))


def _lending(desk: Desk, guest: Guest, cpus: int) -> Iterator[Limit]:
    """In islands that lend so many CPUs more if one of their servers wants less."""
    borrower = desk.home(guest)
    if borrower is None or not cpus:
        return
    for island in desk.view.islands:
        short = short_of(desk, island, guest, borrower, cpus) if island != borrower else None
        if short is None:
            continue
        for one in desk.on(island.cpus):
            if desk.home(one) == island:
                left = max(wanted_cores(desk, one) - short, 0.0) / left_cores(desk, one, 0)
                steps = math.ceil(round((1.0 - left) / CAP_STEP, 6))
                yield _limit(desk, one, max(steps, _steps_now(desk, one)))


def _limit(desk: Desk, guest: Guest, steps: int) -> Limit:
    """Its busiest vCPU loses most."""
    used = _used_ratio(desk, guest)
    left = round(1.0 - CAP_STEP * steps, 6)
    return Limit(guest, steps, max(1.0 - left / used, 0.0) if used else 0.0)


def _steps_now(desk: Desk, guest: Guest) -> int:
    before = desk.conceded.get(guest.uuid)
    return before.steps if before else 0


def _priority(desk: Desk, overlay: Overlay, guest: Guest) -> float | None:
    """The highest of its overlays; None: it has none, or is of the same overlay."""
    if guest.uuid in overlay.members:
        return None
    of = [one.priority for one in desk.overlays.values() if guest.uuid in one.members]
    return max(of, default=None)


def _may_lose_more(desk: Desk, overlay: Overlay, helped: Guest, guest: Guest) -> bool:
    """For a server of its own project, whose overlay matters as much."""
    priority = _priority(desk, overlay, guest) or 0.0
    return guest.project_id == helped.project_id and priority <= overlay.priority


def _may_be_limited(guest: Guest) -> bool:
    return (
        guest.cap_floor_ratio is not None
        and guest.unmanaged is None
        and not guest.is_latency_critical
    )


def _used_ratio(desk: Desk, guest: Guest) -> float:
    """By its busiest vCPU, of what Nova gave it."""
    given = left_cores(desk, guest, 0) / guest.vcpus
    return (desk.view.host.vps[guest.uuid].busiest_cores or 0.0) / given


def _steps(used_ratio: float, before: int) -> int:
    """The fewest more that take CPU from it: nobody has more of what another one leaves idle."""
    idle = math.floor(round((1.0 - used_ratio) / CAP_STEP, 6))
    return max(before, idle) + 1


def end_too_dear(desk: Desk) -> None:
    """A server that may lose little and wants more now than when it was limited is limited no more,
    where its limit costs it more than it may."""
    guests = desk.view.host.guests
    for uuid, one in list(desk.conceded.items()):
        overlay, use = desk.overlays[one.overlay_id], desk.view.host.vps[uuid].cpu_use
        if use is None or _may_lose_more(desk, overlay, guests[one.for_uuid], guests[uuid]):
            continue
        wanted = use.ran_cores + use.waited_cores + use.throttled_ours_cores
        if use.throttled_ours_cores > desk.settings.most_harm_ratio * wanted:
            del desk.conceded[uuid]
            desk.note_change(uuid)


def unmet(desk: Desk) -> Iterator[ClaimGroup]:
    """What nothing on this host helps, for as long as it is asked for."""
    for overlay_id, account in desk.accounts.items():
        uuid = account.unmet_uuid
        if account.unmet_since_s is None:
            continue
        guest = desk.view.host.guests.get(uuid)
        row = account.refusals.get(island_name(desk, guest)) if guest is not None else None
        if row is None or desk.now_s - row.at_s > UNMET_S:
            desk.change_account(overlay_id, unmet_since_s=None, unmet_uuid="")
            continue
        yield ClaimGroup(
            controller=NAME,
            guest_uuid=uuid,
            settings=(),
            domain_ids=(),
            reason=TUNE,
            predicted_loss=PredictedLoss(0.0, 0.0),
            rejected=(Alternative(uuid, 0, Rejection.NO_FREE_CPU),),
            evidence={"refused_calls": float(row.in_a_row)},
            unmet_since_s=account.unmet_since_s,
        )
