# SPDX-License-Identifier: Apache-2.0
"""Socket dedication (Kyoto, 2016, 3.3 and 4.5): for a sample a server has an LLC to itself.

Where neither its counters nor a profile say what a server misses by its own doing, those that share
its LLC and miss frequently run elsewhere for some seconds; then all go back. One server at a time,
where there is room, and as seldom as keeps its cost to the others within a share of their work.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import cast

from nova_vp.core.controllers.base import View
from nova_vp.core.controllers.permits.attribution import Attribution
from nova_vp.core.controllers.permits.declaration import (
    DEDICATE,
    DEDICATION_ENDED,
    NAME,
    Account,
    Accounts,
    Dedication,
    PermitsSettings,
)
from nova_vp.core.model.candidate import CPU_SLACK, Candidate, is_allotted, move, predicted_loss_of
from nova_vp.core.model.host import DomainSet
from nova_vp.core.model.limits import PLACES
from nova_vp.core.model.same_work import l2_holds
from nova_vp.core.types.action import Outcome, Result
from nova_vp.core.types.claim import ClaimGroup, PredictedLoss, Release, Setting
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Cpus, Knob, all_cpus
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.state import CoreState

SURE_RATIO = 0.9
"""Who is charged less surely, for so many samples in a row, needs an LLC to itself."""
UNSURE_SAMPLES = 10
REFILL_S = 2.0
"""After the moves, until the cache is filled: no measure of what a server misses in it."""
LOOK_S = 30.0
"""Until room is sought again that was not there."""
JUDGED_TICKS = 3
"""Before what the others lose ends it: one sample may be far off."""


def begun(
    view: View, state: Accounts, attribution: Attribution, settings: PermitsSettings
) -> tuple[Accounts, tuple[ClaimGroup, ...]]:
    """The state, and what is claimed for the next server that needs it."""
    if not _may_begin(view, state, settings):
        return state, ()
    unsure = _unsure(view, state.by_guest, settings)
    if not unsure:
        return state, ()
    for uuid in unsure:
        for candidate in _candidates(view, uuid, attribution):
            gain = view.what_if.evaluate(candidate.locations)
            if -gain.worst <= settings.dedication_most_loss_ratio:
                loss = predicted_loss_of(candidate.locations, gain)
                return state, (_group(candidate, loss),)
    return replace(state, dedicate_from_s=view.now_s + LOOK_S), ()


def _may_begin(view: View, state: Accounts, settings: PermitsSettings) -> bool:
    return (
        settings.dedication
        and view.picture.mode is Mode.ENFORCE
        and Knob.PLACEMENT in view.host.knobs
        and view.now_s >= state.dedicate_from_s
        and not view.core.pending
        and not view.host.memory_moves
    )


def _unsure(
    view: View, accounts: Mapping[str, Account], settings: PermitsSettings
) -> tuple[str, ...]:
    """Those that pay the largest share of their permit come first."""
    found = [
        (account.charge.misses_per_ms / account.permit, uuid)
        for uuid, account in accounts.items()
        if account.charge is not None
        and account.unsure_samples >= UNSURE_SAMPLES
        and view.host.vps[uuid].incomplete is None
        and view.now_s - account.dedicated_at_s >= settings.dedication_again_s
        and _may_be_moved(view, uuid)
    ]
    return tuple(uuid for _, uuid in sorted(found, reverse=True))


def _may_be_moved(view: View, uuid: str) -> bool:
    guest = view.host.guests[uuid]
    return (
        not guest.unmanaged
        and not guest.refuses_help
        and guest.mode in (None, Mode.ENFORCE)
        and not is_allotted(view.host, guest)
        and not any((uuid, knob) in view.core.claims for knob in PLACES)
    )


def _candidates(view: View, uuid: str, attribution: Attribution) -> list[Candidate]:
    """Those with the fewest moves first, and its own LLC before others."""
    host, guest = view.host, view.host.guests[uuid]
    found = (_cleared(view, guest, one, attribution) for one in host.domain_sets(guest))
    allowed = [
        candidate
        for candidate in found
        if candidate is not None
        and all(view.may_change(one, NAME, DEDICATE.rank) for one in candidate.settings)
    ]
    here = host.domains_of[uuid]
    return sorted(allowed, key=lambda one: (len(one.settings), one.domain_set != here))


def _cleared(
    view: View, guest: Guest, domain_set: DomainSet, attribution: Attribution
) -> Candidate | None:
    """It alone there, but for those that miss rarely. None: that cannot be."""
    host = view.host
    inside = {uuid for domain in domain_set for uuid in host.members[domain.id]}
    leaving = sorted(u for u in inside if u != guest.uuid and attribution.is_frequent(u))
    if not all(_may_be_moved(view, uuid) for uuid in leaving):
        return None
    room = _Room(view, domain_set, (guest.uuid, *leaving))
    parts = []
    if host.domains_of[guest.uuid] != domain_set:
        if not room.is_enough(domain_set, guest):
            return None
        parts.append(_to(view, guest, domain_set))
    for uuid in leaving:
        target = room.take(host.guests[uuid])
        if target is None:
            return None
        parts.append(_to(view, host.guests[uuid], target))
    return Candidate(
        rung=parts[0].rung,
        guest_uuid=guest.uuid,
        domain_set=domain_set,
        settings=tuple(setting for part in parts for setting in part.settings),
        locations={uuid: one for part in parts for uuid, one in part.locations.items()},
    )


def _to(view: View, guest: Guest, domain_set: DomainSet) -> Candidate:
    return move(view.host, (guest,), domain_set, with_memory=False)


class _Room:
    """CPU that is free outside the LLC that is cleared, less what was given away."""

    def __init__(self, view: View, cleared: DomainSet, moved: Iterable[str]) -> None:
        self._host = view.host
        self._cleared = {domain.id for domain in cleared}
        self._moved = frozenset(moved)
        self._taken: dict[int, float] = {}

    def take(self, guest: Guest) -> DomainSet | None:
        """The roomiest place for one guest."""
        places = [
            domain_set
            for domain_set in self._host.domain_sets(guest)
            if not self._cleared & {domain.id for domain in domain_set}
        ]
        best = max(places, key=lambda one: (self._left(one), -one[0].id), default=None)
        if best is None or not self.is_enough(best, guest):
            return None
        for domain in best:
            taken = self._taken.get(domain.id, 0.0)
            self._taken[domain.id] = taken + self._host.wanted_cores(guest.uuid) / len(best)
        return best

    def is_enough(self, domain_set: DomainSet, guest: Guest) -> bool:
        return self._left(domain_set) >= self._host.wanted_cores(guest.uuid) * (1 - CPU_SLACK)

    def _left(self, domain_set: DomainSet) -> float:
        taken = sum(self._taken.get(domain.id, 0.0) for domain in domain_set)
        return self._host.room_cores(domain_set, self._moved) - taken


def _group(candidate: Candidate, loss: PredictedLoss) -> ClaimGroup:
    return ClaimGroup(
        controller=NAME,
        guest_uuid=candidate.guest_uuid,
        settings=candidate.settings,
        domain_ids=candidate.domain_ids,
        reason=DEDICATE,
        predicted_loss=loss,
        rung=candidate.rung,
        evidence={"guests": float(len(candidate.settings))},
    )


def noted(
    state: Accounts, outcome: Outcome, core: CoreState, settings: PermitsSettings
) -> Accounts:
    """With what became of the moves."""
    action, result = outcome.action, outcome.result
    if action.reason is DEDICATION_ENDED and result is Result.APPLIED:
        return replace(state, dedication=None)
    if action.reason is not DEDICATE:
        return state
    if result is Result.APPLIED:
        places = tuple((change.guest_uuid, change.now) for change in action.changes)
        before = {
            uuid: vp.window
            for uuid, vp in core.vps.items()
            if vp.window.samples and uuid != action.guest_uuid
        }
        began = Dedication(
            action.guest_uuid, outcome.at_s, cast(tuple[tuple[str, Cpus]], places), before
        )
        return replace(state, dedication=began)
    # The host refused it, or an operator took it back.
    pause_until_s = outcome.at_s + settings.dedication_pause_s
    return replace(state, dedication=None, dedicate_from_s=pause_until_s)


def continued(
    view: View, state: Accounts, attribution: Attribution, settings: PermitsSettings
) -> tuple[Accounts, tuple[ClaimGroup, ...], tuple[Release, ...]]:
    """The state after this tick of a dedication; once it is over, what puts all back."""
    now = state.dedication
    if now is None:
        standing = [key for key, _ in view.standing(NAME) if key[1] in PLACES]
        return state, (), tuple(Release(*key) for key in standing)
    if not now.is_over:
        now = _with_sample(view, now, attribution)
        state = replace(state, dedication=now)
        if not _is_over(view, now, attribution, settings):
            return state, (), ()
        state = _ended(view, state, now, settings)
    back = tuple(_places_back(view, now))
    if not back:
        return replace(state, dedication=None), (), ()
    return state, (_return(view, now, back),), ()


def _with_sample(view: View, now: Dedication, attribution: Attribution) -> Dedication:
    ticks, lost = now.ticks + 1, dict(now.lost)
    for uuid, before in now.before.items():
        vp = view.host.vps.get(uuid)
        sample = vp.sample if vp is not None and vp.incomplete is None else None
        if sample is None:
            continue
        if l2_holds(before.l2_mpki, sample.l2_mpki, view.policy):
            lost[uuid] = lost.get(uuid, 0.0) + 1.0 - before.cpi / sample.cpi
    own, samples = now.own, now.samples
    if view.now_s - now.began_at_s > REFILL_S:
        own = attribution.alone(now.guest_uuid, own, samples)
        samples += own is not now.own
    return now._replace(ticks=ticks, lost=lost, own=own, samples=samples)


def _is_over(
    view: View, now: Dedication, attribution: Attribution, settings: PermitsSettings
) -> bool:
    is_costly = now.loss_ratio > settings.dedication_most_loss_ratio and now.ticks >= JUDGED_TICKS
    return (
        is_costly
        or view.now_s - now.began_at_s >= settings.dedication_s
        or now.guest_uuid not in view.host.guests
        or not _may_still(view, now)
        or attribution.meets_frequent(now.guest_uuid)
    )


def _may_still(view: View, now: Dedication) -> bool:
    guest = view.host.guests[now.guest_uuid]
    return guest.is_running and not guest.unmanaged and view.picture.mode is Mode.ENFORCE


def _ended(view: View, state: Accounts, now: Dedication, settings: PermitsSettings) -> Accounts:
    """With what was learned, and the pause that keeps the cost to the others within its share."""
    span_s = view.now_s - now.began_at_s + REFILL_S
    pause_s = max(
        settings.dedication_pause_s, span_s * now.loss_ratio / settings.dedication_cost_ratio
    )
    accounts = dict(state.by_guest)
    account = accounts.get(now.guest_uuid)
    if account is not None:
        is_known = now.samples >= view.policy.settle_samples
        accounts[now.guest_uuid] = replace(
            account,
            own=now.own if is_known else account.own,
            dedicated_at_s=view.now_s,
            unsure_samples=0,
        )
    return replace(
        state,
        by_guest=accounts,
        dedication=now._replace(is_over=True),
        dedicate_from_s=view.now_s + pause_s,
    )


def _places_back(view: View, now: Dedication) -> Iterator[Setting]:
    """Of those that are still where they were moved to by us, within their bounds of now."""
    moved = {key[0] for key, _ in view.standing(NAME) if key[1] is Knob.PLACEMENT}
    for uuid, cpus in now.places:
        guest = view.host.guests.get(uuid)
        if guest is None or guest.unmanaged or uuid not in moved:
            continue
        within: Cpus = tuple(one & guest.allowed_cpus for one in cpus)
        to = within if all(within) else (guest.allowed_cpus,)
        if to != guest.cpus:
            yield Setting(uuid, Knob.PLACEMENT, to)


def _return(view: View, now: Dedication, back: tuple[Setting, ...]) -> ClaimGroup:
    """Named after the sampled server, unless it left."""
    main = now.guest_uuid if now.guest_uuid in view.host.guests else back[0].guest_uuid
    cpus = next((all_cpus(cast(Cpus, one.value)) for one in back if one.guest_uuid == main), None)
    if cpus is None:
        cpus = view.host.guests[main].placement
    return ClaimGroup(
        controller=NAME,
        guest_uuid=main,
        settings=back,
        domain_ids=tuple(d.id for d in view.host.topology.domains if d.cpus & cpus),
        reason=DEDICATION_ENDED,
        predicted_loss=PredictedLoss(0.0, 0.0),
        evidence={"seconds": view.now_s - now.began_at_s, "worst_loss_ratio": now.loss_ratio},
    )
