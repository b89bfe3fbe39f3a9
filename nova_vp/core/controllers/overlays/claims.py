# SPDX-License-Identifier: Apache-2.0
"""What the ledger comes to: one value for each knob of each server, in groups by the calls that
changed them."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, cast

from nova_vp.core.controllers.overlays.declaration import (
    BORROW,
    CONCEDE,
    EXCLUSIVE,
    ISLAND_CAP,
    NAME,
    RESIZE,
    REWEIGH,
    TIGHTEN,
    TRIGGER,
    TUNE,
)
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.controllers.overlays.emulator_weight import weight_at
from nova_vp.core.controllers.overlays.memory_size import size_now_kib
from nova_vp.core.controllers.overlays.places import domain_ids, placement_of
from nova_vp.core.controllers.overlays.weights import most_times, times_of, weight_of
from nova_vp.core.model.cpu_cap import CAP_STEP, quota_of
from nova_vp.core.model.limits import value_from_nova
from nova_vp.core.types.claim import ClaimGroup, ClaimKey, PredictedLoss, Setting
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.island import Scheduler
from nova_vp.core.types.knob import Cpus, Knob, MemorySize, Quota
from nova_vp.core.types.reason import Reason


class Wanted(NamedTuple):
    setting: Setting
    reason: Reason
    on_behalf_of: str | None = None


class Touched(NamedTuple):
    """By granted calls."""

    uuids: frozenset[str]
    call_ids: tuple[str, ...]
    for_uuid: str
    """Whose sake it is for."""


def kept(desk: Desk) -> frozenset[ClaimKey]:
    """What stands on between two ticks, since nothing was measured and nobody called for it."""
    if not desk.view.on_call:
        return frozenset()
    servers = _servers(desk) - desk.changed
    return frozenset(key for key in desk.standing if key[0] in servers)


def claims_of(desk: Desk, touched: Iterable[Touched]) -> Iterator[ClaimGroup]:
    """What calls of this run changed is granted or refused with them; the rest stands alone."""
    servers = _servers(desk) & desk.changed if desk.view.on_call else _servers(desk)
    wanted = {uuid: tuple(_wanted(desk, uuid)) for uuid in sorted(servers)}
    for one in _together(touched):
        parts = [part for uuid in sorted(one.uuids) for part in wanted.pop(uuid, ())]
        if parts:
            yield _group(desk, parts, one.call_ids, one.for_uuid)
    for alone in wanted.values():
        for part in alone:
            yield _group(desk, [part], (), part.on_behalf_of)


def _together(touched: Iterable[Touched]) -> list[Touched]:
    """Calls that have a server in common are one."""
    found: list[Touched] = []
    for new in touched:
        apart = [one for one in found if not one.uuids & new.uuids]
        for one in found:
            if one.uuids & new.uuids:
                new = Touched(one.uuids | new.uuids, one.call_ids + new.call_ids, one.for_uuid)
        found = [*apart, new]
    return found


def _servers(desk: Desk) -> frozenset[str]:
    asked = (*desk.tuned, *desk.boosts, *desk.sizes, *desk.emulators)
    ours = (*asked, *desk.conceded, *desk.places, *desk.caps)
    return frozenset(desk.view.host.guests.keys() & ours)


def _wanted(desk: Desk, uuid: str) -> Iterator[Wanted]:
    guest = desk.view.host.guests[uuid]
    weight = _weight(desk, guest)
    if weight is not None:
        yield weight
    limit = _limit(desk, guest)
    if limit is not None:
        yield limit
    sized = desk.sizes.get(uuid)
    if sized is not None:
        size = MemorySize(size_now_kib(guest, sized))
        yield Wanted(Setting(uuid, Knob.MEMORY_SIZE, size), RESIZE)
    reweighed = desk.emulators.get(uuid)
    if reweighed is not None:
        weight_of_threads = weight_at(desk, guest, reweighed.steps)
        yield Wanted(Setting(uuid, Knob.EMULATOR_WEIGHT, weight_of_threads), REWEIGH)
    place = placement_of(desk, guest)
    if place is not None:
        home = desk.home(guest)
        is_pinned = home is not None and home.scheduler is Scheduler.EXCLUSIVE
        yield Wanted(Setting(uuid, Knob.PLACEMENT, place), EXCLUSIVE if is_pinned else BORROW)


def _weight(desk: Desk, guest: Guest) -> Wanted | None:
    """Who came meanwhile keeps its floor too."""
    boost, times = desk.boosts.get(guest.uuid), times_of(desk, guest.uuid)
    if times > 1.0:
        grant = boost or desk.tuned[guest.uuid]
        overlay = desk.overlays[grant.overlay_id]
        times = max(min(times, most_times(desk, (guest,), overlay)), 1.0)
    if times == 1.0 and boost is None:
        return None
    setting = Setting(guest.uuid, Knob.CPU_WEIGHT, weight_of(desk, guest, times))
    return Wanted(setting, TRIGGER if boost else TUNE)


def _limit(desk: Desk, guest: Guest) -> Wanted | None:
    """The tightest of that of its island, and those of overlays. While it runs first, without that
    of its own overlay."""
    tuned, conceded = desk.tuned.get(guest.uuid), desk.conceded.get(guest.uuid)
    own = tuned.cap_steps if tuned and guest.uuid not in desk.boosts else 0
    steps = own + (conceded.steps if conceded else 0)
    island = desk.caps.get(guest.uuid, math.inf)
    applied = desk.view.picture.applied.get(guest.uuid)
    given = cast(Quota, value_from_nova(guest, Knob.CPU_CAP, applied))
    ratio = max(round(1.0 - CAP_STEP * steps, 6), guest.cap_floor_ratio or 0.0)
    if min(island / given.cores, ratio) >= 1.0:
        return None
    if island < ratio * given.cores:
        quota = quota_of(given, round(island / given.cores, 4))
        return Wanted(Setting(guest.uuid, Knob.CPU_CAP, quota), ISLAND_CAP)
    setting = Setting(guest.uuid, Knob.CPU_CAP, quota_of(given, ratio))
    if own or conceded is None:
        return Wanted(setting, TIGHTEN)
    return Wanted(setting, CONCEDE, conceded.for_uuid)


def _group(
    desk: Desk, parts: Sequence[Wanted], call_ids: tuple[str, ...], for_uuid: str | None
) -> ClaimGroup:
    first = parts[0]
    places = [part.setting for part in parts if part.setting.knob is Knob.PLACEMENT]
    is_loan = any(part.reason is BORROW for part in parts)
    return ClaimGroup(
        controller=NAME,
        guest_uuid=first.setting.guest_uuid,
        settings=tuple(part.setting for part in parts),
        domain_ids=domain_ids(desk, cast(Cpus, places[0].value)) if places else (),
        reason=BORROW if is_loan else first.reason,
        predicted_loss=PredictedLoss(0.0, 0.0),
        on_behalf_of=for_uuid,
        call_ids=call_ids,
    )
