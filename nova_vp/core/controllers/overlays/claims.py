# SPDX-License-Identifier: Apache-2.0
"""What the ledger comes to: one value for each knob of each server, in groups by the calls that
changed them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, cast

from nova_vp.core.controllers.overlays.declaration import (
    CONCEDE,
    NAME,
    RESIZE,
    TIGHTEN,
    TRIGGER,
    TUNE,
)
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.controllers.overlays.memory_size import size_now_kib
from nova_vp.core.controllers.overlays.weights import most_times, times_of, weight_of
from nova_vp.core.model.cpu_cap import CAP_STEP, quota_of
from nova_vp.core.model.limits import value_from_nova
from nova_vp.core.types.claim import ClaimGroup, ClaimKey, PredictedLoss, Setting
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob, MemorySize, Quota
from nova_vp.core.types.reason import Reason


class Wanted(NamedTuple):
    setting: Setting
    reason: Reason
    on_behalf_of: str | None = None


class Touched(NamedTuple):
    """By granted calls."""

    uuids: frozenset[str]
    call_ids: tuple[str, ...]


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
            yield _group(parts, one.call_ids)
    for alone in wanted.values():
        for part in alone:
            yield _group([part], ())


def _together(touched: Iterable[Touched]) -> list[Touched]:
    """Calls that have a server in common are one."""
    found: list[Touched] = []
    for new in touched:
        apart = [one for one in found if not one.uuids & new.uuids]
        for one in found:
            if one.uuids & new.uuids:
                new = Touched(one.uuids | new.uuids, one.call_ids + new.call_ids)
        found = [*apart, new]
    return found


def _servers(desk: Desk) -> frozenset[str]:
    return frozenset((*desk.tuned, *desk.boosts, *desk.sizes, *desk.conceded))


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
    """While it runs first, without that of its own overlay."""
    tuned, conceded = desk.tuned.get(guest.uuid), desk.conceded.get(guest.uuid)
    own = tuned.cap_steps if tuned and guest.uuid not in desk.boosts else 0
    steps = own + (conceded.steps if conceded else 0)
    if not steps:
        return None
    applied = desk.view.picture.applied.get(guest.uuid)
    given = cast(Quota, value_from_nova(guest, Knob.CPU_CAP, applied))
    ratio = max(round(1.0 - CAP_STEP * steps, 6), guest.cap_floor_ratio or 0.0)
    setting = Setting(guest.uuid, Knob.CPU_CAP, quota_of(given, ratio))
    if own or conceded is None:
        return Wanted(setting, TIGHTEN)
    return Wanted(setting, CONCEDE, conceded.for_uuid)


def _group(parts: Sequence[Wanted], call_ids: tuple[str, ...]) -> ClaimGroup:
    first = parts[0]
    return ClaimGroup(
        controller=NAME,
        guest_uuid=first.setting.guest_uuid,
        settings=tuple(part.setting for part in parts),
        domain_ids=(),
        reason=first.reason,
        predicted_loss=PredictedLoss(0.0, 0.0),
        on_behalf_of=first.on_behalf_of,
        call_ids=call_ids,
    )
