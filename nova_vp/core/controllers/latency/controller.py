# SPDX-License-Identifier: Apache-2.0
"""Latency-critical servers beside best-effort ones (Padala, 2020): the latter get what the former
leave, as far as their latency stays within its target.

For each latency-critical server one loop says how much that is; `ruling.py` says whether latency,
silence or CPI decides, `source_loops.py` and `adaptive.py` how, `shares.py` who gets what.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from nova_vp.core.controllers.base import Answer, Controller, View
from nova_vp.core.controllers.latency.adaptive import adaptive
from nova_vp.core.controllers.latency.declaration import (
    FIGURES,
    NAME,
    REASONS,
    LatencySettings,
    Loop,
    Ruling,
    Watch,
    Watches,
)
from nova_vp.core.controllers.latency.overruled import (
    Left,
    least_of,
    with_given,
    within_a_step,
    without_rise,
)
from nova_vp.core.controllers.latency.room import room_of
from nova_vp.core.controllers.latency.ruling import (
    retreated,
    ruling_of,
    spent_per_s,
    with_starving,
)
from nova_vp.core.controllers.latency.seen import OwnCores, Seen, seen_of
from nova_vp.core.controllers.latency.shares import (
    Given,
    claims_of,
    left_to,
    protected,
)
from nova_vp.core.controllers.latency.source_loops import SOURCE_LOOPS, begun, cpi
from nova_vp.core.controllers.latency.starving import is_starving, unstarved_cores
from nova_vp.core.types.claim import ClaimGroup
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.service_level import ServiceClass

Beside = Mapping[str, tuple[Guest, ...]]
"""By latency-critical server: the best-effort servers that get what it leaves."""


class Latency(Controller):
    name = NAME
    summary = "leaves best-effort servers the CPU that latency-critical servers do not need"
    needs_counters = False
    changes_often = True
    serves_classes = True
    settings = LatencySettings
    state = Watches
    reasons = REASONS
    figures = FIGURES

    def run(self, view: View, state: Watches, settings: LatencySettings) -> Answer:
        beside, own = _beside(view), OwnCores(view)
        acted: dict[str, Watch] = {}
        rulings: dict[str, Ruling] = {}
        seen: dict[str, Seen] = {}
        for uuid, others in beside.items():
            guest = view.host.guests[uuid]
            seen[uuid] = seen_of(view, own, guest, others, settings)
            report = view.picture.latency_reports.get(uuid)
            rulings[uuid] = ruling_of(guest, seen[uuid], report, state, settings)
            watch = _watch_of(state, guest, settings, view.now_s)
            acted[uuid] = _ruled(watch, seen[uuid], rulings[uuid], settings)
            if watch.is_overruled:
                acted[uuid] = without_rise(acted[uuid], watch)
        watches, left = _settled(view, own, beside, acted, rulings, seen)
        groups = tuple(_claims(view, own, left, watches, seen, settings))
        starving = _starving(view, own, left, seen, settings)
        state = with_starving(replace(state, by_guest=watches), starving, view.now_s, settings)
        room = room_of(view, own, left, state.starving)
        figures = {
            uuid: _figures(
                view, uuid, _total(own, left[uuid]), rulings[uuid], seen[uuid], state, settings
            )
            for uuid in beside
        }
        return Answer(state, groups, figures=figures, class_room=room)

    def kept(self, state: Watches) -> Watches:
        return Watches(starved_s=state.starved_s, starving=state.starving)


def _beside(view: View) -> Beside:
    """Of each latency-critical server that runs and does not refuse help: the best-effort servers
    that share an LLC with it, run, and may be changed. The others get no share of the CPU."""
    host = view.host
    taking = {
        uuid
        for uuid, guest in host.guests.items()
        if guest.service_class is ServiceClass.BEST_EFFORT
        and guest.is_running
        and not guest.unmanaged
    }
    found = {}
    for uuid, guest in host.guests.items():
        if not guest.is_latency_critical:
            continue
        if not guest.is_running or guest.refuses_help:
            continue
        near = {other for domain in host.domains_of[uuid] for other in host.members[domain.id]}
        found[uuid] = tuple(host.guests[other] for other in sorted(near & taking))
    return found


def _settled(
    view: View,
    own: OwnCores,
    beside: Beside,
    watches: Mapping[str, Watch],
    rulings: Mapping[str, Ruling],
    seen: Mapping[str, Seen],
) -> tuple[Mapping[str, Watch], Mapping[str, Left]]:
    """As several of them together have it, and what each then leaves."""
    left = _left(view, own, beside, watches, rulings)
    given = least_of(left.values())
    watches = {
        uuid: within_a_step(watches[uuid], seen[uuid], shares, given, own)
        for uuid, shares in left.items()
    }
    left = _left(view, own, beside, watches, rulings)
    given = least_of(left.values())
    watches = {uuid: with_given(watches[uuid], shares, given, own) for uuid, shares in left.items()}
    return watches, left


def _left(
    view: View,
    own: OwnCores,
    beside: Beside,
    watches: Mapping[str, Watch],
    rulings: Mapping[str, Ruling],
) -> Mapping[str, Left]:
    found = {}
    for uuid, others in beside.items():
        watch, guest = watches[uuid], view.host.guests[uuid]
        most = unstarved_cores(own, others) if watch.is_blind else {}
        found[uuid] = left_to(own, guest, others, watch, rulings[uuid], most)
    return found


def _watch_of(state: Watches, guest: Guest, settings: LatencySettings, now_s: float) -> Watch:
    """Who was started anew, as after a resize, is learned anew."""
    before = state.by_guest.get(guest.uuid)
    if before is not None and before.generation == guest.generation:
        return before
    return begun(Watch(guest.generation, begun_at_s=now_s), settings.control_loop, now_s)


def _ruled(watch: Watch, seen: Seen, ruling: Ruling, settings: LatencySettings) -> Watch:
    is_by_cpi = ruling in (Ruling.CPI, Ruling.STARVED)
    loop = Loop.CPI if is_by_cpi else settings.control_loop
    is_alone = not seen.most_cores
    if watch.loop is not loop or (is_alone and loop in SOURCE_LOOPS):
        watch = begun(watch, loop, seen.now_s)
    if is_by_cpi:
        return cpi(watch, seen)
    if ruling is Ruling.HOLD:
        return watch
    if ruling is Ruling.RETREAT:
        return retreated(watch, seen)
    if loop is Loop.ADAPTIVE:
        return adaptive(watch, seen)
    return SOURCE_LOOPS[loop](watch, seen)


def _claims(
    view: View,
    own: OwnCores,
    left: Mapping[str, Mapping[str, float]],
    watches: Mapping[str, Watch],
    seen: Mapping[str, Seen],
    settings: LatencySettings,
) -> Iterator[ClaimGroup]:
    tightest: dict[str, Given] = {}
    for uuid, shares in left.items():
        if shares:
            yield from protected(view, view.host.guests[uuid])
        is_enabled = not watches[uuid].is_suspended
        for other, share in shares.items():
            given = Given(is_enabled, share, uuid)
            if other not in tightest or given < tightest[other]:
                tightest[other] = given
    evidence = {
        uuid: {"slack_ratio": seen[uuid].slack_ratio, "best_effort_cores": _total(own, left[uuid])}
        for uuid in {given.lc_uuid for given in tightest.values()}
    }
    for other, given in tightest.items():
        told = evidence[given.lc_uuid]
        yield from claims_of(view, view.host.guests[other], given, told, settings)


def _total(own: OwnCores, shares: Mapping[str, float]) -> float:
    """That they can use of them."""
    return sum(min(share, own[one]) for one, share in shares.items())


def _starving(
    view: View,
    own: OwnCores,
    left: Mapping[str, Mapping[str, float]],
    seen: Mapping[str, Seen],
    settings: LatencySettings,
) -> Mapping[str, float]:
    """By project whose servers leave too little to a best-effort server of another: what it spends
    of its budget per second, by the one that spends most."""
    found: dict[str, float] = {}
    for uuid, shares in left.items():
        guest = view.host.guests[uuid]
        if is_starving(view, own, guest, shares):
            spent = spent_per_s(seen[uuid], settings)
            found[guest.project_id] = max(found.get(guest.project_id, 0.0), spent)
    return found


def _figures(
    view: View,
    uuid: str,
    best_effort_cores: float,
    ruling: Ruling,
    seen: Seen,
    state: Watches,
    settings: LatencySettings,
) -> dict[str, float | str]:
    spent_s = state.starved_s.get(view.host.guests[uuid].project_id, 0.0)
    told: dict[str, float | str] = {
        "ruled_by": _told(ruling, state.by_guest[uuid]).value,
        "best_effort_cores": best_effort_cores,
        "starve_left_s": settings.starve_s - spent_s,
    }
    if seen.busy_ratio is not None:
        told["busy_ratio"] = seen.busy_ratio
    if seen.report is not None:
        told["slack_ratio"] = seen.slack_ratio
    return told


def _told(ruling: Ruling, watch: Watch) -> Ruling:
    return Ruling.CPU if ruling is Ruling.CPI and watch.is_blind else ruling
