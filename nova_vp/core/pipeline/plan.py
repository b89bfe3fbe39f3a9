# SPDX-License-Identifier: Apache-2.0
"""From granted claims to actions: only what differs from what stands, each with its reason and id.

An id is made from what the action means, so that a proposal keeps its name while it stands and
an operator can accept it a minute later. What is done again, or by another run of the agent, is
another action. Limits come down to what all claims compose to, whoever made them; their leases are
renewed here as long as they stand.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from nova_vp.core.model.holds import was_refused_lately
from nova_vp.core.model.limits import (
    LIMITS,
    PLACES,
    Claims,
    compose,
    differs,
    holding,
    size,
    value_from_nova,
    value_now,
)
from nova_vp.core.pipeline.ledger import beside, relaxed
from nova_vp.core.pipeline.permit import is_permitted, modes_of
from nova_vp.core.types.action import Action, Change, Renewal
from nova_vp.core.types.claim import Claim, ClaimGroup, ClaimKey, PredictedLoss, Setting
from nova_vp.core.types.detection import Detection, Kind
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Cpus, Held, Knob, Value, all_cpus, plain
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Mode, Policy
from nova_vp.core.types.reason import REAPPLY, RELEASED, REVOKED, Reason
from nova_vp.core.types.state import CoreState

LEASE_S = 60.0
"""Of a limit: an agent that dies leaves none behind for longer."""

_NO_LOSS = PredictedLoss(0.0, 0.0)


class Plan:
    """What one tick would change: made once, read by the stages after it."""

    def __init__(
        self, groups: Iterable[ClaimGroup], state: CoreState, picture: Picture, policy: Policy
    ) -> None:
        self._state = state
        self._picture = picture
        self._policy = policy
        self._guests = {guest.uuid: guest for guest in picture.guests}
        self._modes = modes_of(picture)
        self.virtual: tuple[ClaimGroup, ...] = ()
        """First places that are neither given nor proposed, since the host only observes."""
        if picture.only_observes:
            groups = tuple(groups)
            self.virtual = tuple(group for group in groups if group.is_first_place)
            groups = [group for group in groups if not group.is_first_place]
        # What is only proposed counts for itself, and not for what the others come to.
        alone = [(group, self._proposed(group)) for group in groups]
        may = [group for group, action in alone if self._is_permitted(action)]
        proposed = [action for _, action in alone if not self._is_permitted(action)]
        self._claims = _claims_with(may, state.claims, picture.at_s)
        found = [self._action(group, self._claims) for group in may]
        turned = {(c.guest_uuid, c.knob) for action in found for c in action.changes}
        for action in self._outstanding(turned):
            (found if self._is_permitted(action) else proposed).append(action)
        self.actions = tuple(action for action in found if action.changes)
        self.proposals = tuple(action for action in proposed if action.changes)
        self.unchanging = tuple(action for action in found if action.claims and not action.changes)
        """Granted claims to what stands already, or that a tighter one covers: nothing has to be
        done for them to stand."""
        turned |= {(c.guest_uuid, c.knob) for action in found for c in action.changes}
        self.renewals = tuple(self._renewals(turned))

    def _is_permitted(self, action: Action) -> bool:
        return is_permitted(action, self._picture, self._modes)

    def _proposed(self, group: ClaimGroup) -> Action:
        """As if it were the only one."""
        return self._action(group, _claims_with((group,), self._state.claims, self._picture.at_s))

    def _action(self, group: ClaimGroup, claims: Claims) -> Action:
        detection = group.detection
        changes = (self._change(group, one, claims) for one in (*group.settings, *group.relaxes))
        return Action(
            id=self._id(group),
            controller=group.controller,
            guest_uuid=group.guest_uuid,
            changes=tuple(change for change in changes if change is not None),
            domain_ids=group.domain_ids,
            reason=group.reason,
            decided_s=self._picture.at_s,
            predicted_loss=group.predicted_loss,
            victim_uuid=detection.victim_uuid if detection else None,
            evidence={**_evidence(group), **group.evidence},
            rejected=group.rejected,
            is_undo=group.reason.is_revert,
            rung=group.rung,
            on_behalf_of=group.on_behalf_of,
            claims=() if _is_of_pipeline(group.reason) else group.settings,
            relaxes=group.relaxes,
            ignores_mode=group.ignores_mode,
            call_ids=group.call_ids,
        )

    def _change(self, group: ClaimGroup, setting: Setting, claims: Claims) -> Change | None:
        """None: nothing to do for it now."""
        guest, knob = self._guests[setting.guest_uuid], setting.knob
        to, now = setting.value, value_now(guest, knob)
        if knob not in PLACES:
            for_knob = claims.get((guest.uuid, knob), ())
            if not _is_effective(group, knob, for_knob):
                return None
            to = compose(guest, knob, for_knob, self._original(guest, knob), self._policy)
        # Memory may just have begun to move: what a person had reverted goes back in any case.
        if group.reason is not REVOKED and not self._is_due(guest, knob, to):
            return None
        return self._turned(guest, knob, to, now)

    def _is_due(self, guest: Guest, knob: Knob, to: Value) -> bool:
        """Limits that come to the same are the same, however they are written: two controllers may
        write one in turn. What Nova gave goes back exactly."""
        now = value_now(guest, knob)
        if knob in LIMITS and to != self._original(guest, knob):
            return size(to) != size(now)
        return differs(to, now) and not self._is_under_way(guest, knob, to)

    def _is_under_way(self, guest: Guest, knob: Knob, to: Value) -> bool:
        """A guest gives memory back in its own time."""
        if knob is not Knob.MEMORY_SIZE:
            return False
        applied = self._picture.applied.get(guest.uuid)
        held = applied.of(knob) if applied else None
        return held is not None and held.value == to and value_now(guest, knob) != held.original

    def _turned(self, guest: Guest, knob: Knob, to: Value, now: Value) -> Change:
        original = self._original(guest, knob)
        has_lease = knob not in PLACES and to != original
        until_s = self._picture.at_s + LEASE_S if has_lease else None
        return Change(guest.uuid, knob, to, now, original, until_s)

    def _original(self, guest: Guest, knob: Knob) -> Value:
        return value_from_nova(guest, knob, self._picture.applied.get(guest.uuid))

    def _outstanding(self, turned: set[ClaimKey]) -> Iterator[Action]:
        """What no group of this tick changes, and still is not as the claims compose: a claim
        ended, a tighter one did, or the host lost what was set."""
        keys = dict.fromkeys(key for key in self._claims if key[1] not in PLACES)
        for uuid, applied in self._picture.applied.items():
            for held in applied.held:
                # By identity: the hash of an enum is slow, and most guests have a place.
                if held.knob is not Knob.PLACEMENT and held.knob is not Knob.MEMORY:
                    keys[uuid, held.knob] = None
        for key in keys:
            guest = self._guests.get(key[0])
            if guest is None or guest.unmanaged or key in turned:
                continue
            claims, knob = self._claims.get(key, ()), key[1]
            to = compose(guest, knob, claims, self._original(guest, knob), self._policy)
            if self._is_due(guest, knob, to):
                action = self._restored(guest, knob, to, holding(knob, claims))
                if action.reason is RELEASED or not self._was_refused(action):
                    yield action

    def _was_refused(self, action: Action) -> bool:
        """What gives back is tried all the same."""
        [change] = action.changes
        setting, vp = Setting(change.guest_uuid, change.knob, change.to), self._state.vps
        now_s, policy = self._picture.at_s, self._policy
        return was_refused_lately(setting, vp[change.guest_uuid], action.controller, now_s, policy)

    def _restored(self, guest: Guest, knob: Knob, to: Value, claim: Claim | None) -> Action:
        applied = self._picture.applied.get(guest.uuid)
        held = applied.of(knob) if applied else None
        now = value_now(guest, knob)
        change = self._turned(guest, knob, to, now)
        group = ClaimGroup(
            controller=claim.controller if claim else held.controller if held else "",
            guest_uuid=guest.uuid,
            settings=(Setting(guest.uuid, knob, to),),
            domain_ids=(),
            reason=_why(change, claim, held),
            predicted_loss=_NO_LOSS,
        )
        is_new = claim is not None and group.reason is claim.reason
        return Action(
            id=self._id(group),
            controller=group.controller,
            guest_uuid=guest.uuid,
            changes=(change,),
            domain_ids=(),
            reason=group.reason,
            decided_s=self._picture.at_s,
            predicted_loss=_NO_LOSS,
            victim_uuid=claim.victim_uuid if claim and is_new else None,
            claims=(Setting(guest.uuid, knob, claim.value),) if claim and is_new else (),
        )

    def _renewals(self, turned: set[ClaimKey]) -> Iterator[Renewal]:
        now_s = self._picture.at_s
        for uuid, applied in self._picture.applied.items():
            for held in applied.held:
                if held.until_s is None or held.until_s - now_s >= LEASE_S / 2:
                    continue
                guest, key = self._guests.get(uuid), (uuid, held.knob)
                if guest is None or guest.unmanaged or key in turned or key not in self._claims:
                    continue
                if (guest.mode or self._picture.mode) is Mode.ENFORCE:
                    yield Renewal(uuid, held.knob, now_s + LEASE_S)

    def _id(self, group: ClaimGroup) -> str:
        guest = self._guests[group.guest_uuid]
        since_s = group.detection.since_s if group.detection else 0.0
        settings = [
            (s.guest_uuid, s.knob.value, plain(s.value)) for s in (*group.settings, *group.relaxes)
        ]
        when = (self._picture.epoch, self._state.vps[guest.uuid].actions_done, since_s)
        meaning = (group.reason.code, guest.uuid, guest.generation, settings, when)
        return f"{group.controller}-{zlib.crc32(repr(meaning).encode()):08x}"


def _claims_with(groups: Iterable[ClaimGroup], claims: Claims, at_s: float) -> Claims:
    """What stands beside places and memory once all of these are applied."""
    found = dict(claims)
    for group in groups:
        template = Claim(group.controller, (), group.reason, "", at_s)
        for setting in () if _is_of_pipeline(group.reason) else group.settings:
            if setting.knob not in PLACES:
                key = (setting.guest_uuid, setting.knob)
                found[key] = beside(found.get(key, ()), setting, template)
        if group.relaxes:
            found = relaxed(found, group.relaxes, "", at_s)
    return found


def _is_of_pipeline(reason: Reason) -> bool:
    """It puts things back, and claims nothing."""
    return reason.is_revert or reason is REAPPLY or reason is RELEASED


def _is_effective(group: ClaimGroup, knob: Knob, claims: Iterable[Claim]) -> bool:
    """Whether what holds is this group's, or was raised or taken back by it."""
    if group.reason.is_revert or group.relaxes:
        return True
    holds = holding(knob, claims)
    return holds is not None and holds.controller == group.controller


def _why(change: Change, claim: Claim | None, held: Held | None) -> Reason:
    if claim is None or (change.knob in LIMITS and size(change.to) > size(change.now)):
        return RELEASED
    return REAPPLY if held is not None and held.value == change.to else claim.reason


def _evidence(group: ClaimGroup) -> Mapping[str, float]:
    """The numbers behind the action, by name: what the API and the CLI show as its reason."""
    detection = group.detection
    if detection is None:
        return {}
    if detection.kind is Kind.CPU:
        return {"waiting_ratio": detection.waiting_ratio, **_suspects_cores(group, detection)}
    evidence = {
        "memory_factor_before": detection.before.memory_factor,
        "memory_factor_now": detection.now.memory_factor,
        "l2_mpki_before": detection.before.l2_mpki,
        "l2_mpki_now": detection.now.l2_mpki,
        "mpki_before": detection.before.mpki,
        "mpki_now": detection.now.mpki,
        "measured_loss_ratio": detection.measured_loss_ratio,
    }
    for suspect in detection.suspects:
        if suspect.guest_uuid == group.guest_uuid:
            evidence["suspect_misses_per_s"] = suspect.pressure_per_s
            evidence["suspect_rise_per_s"] = suspect.rise_per_s
    return evidence


def _suspects_cores(group: ClaimGroup, detection: Detection) -> Mapping[str, float]:
    """What the one that is changed uses of the victim's CPUs."""
    for suspect in detection.suspects:
        if suspect.guest_uuid == group.guest_uuid:
            return {"suspect_cpu_cores": suspect.pressure_per_s}
    return {}


def lost_places(picture: Picture) -> tuple[ClaimGroup, ...]:
    """What the host forgot of our journal: new vCPU threads run anywhere.

    A placement beyond the guest's bound of now (a CPU went offline) stays forgotten.
    """
    return tuple(
        _again(held, guest, picture)
        for guest in picture.guests
        if not guest.unmanaged and (applied := picture.applied.get(guest.uuid))
        for held in applied.held
        if held.knob is Knob.PLACEMENT
        and guest.cpus == held.original != held.value
        and all_cpus(cast(Cpus, held.value)) <= guest.allowed_cpus & picture.topology.cpus
    )


def _again(held: Held, guest: Guest, picture: Picture) -> ClaimGroup:
    cpus = all_cpus(cast(Cpus, held.value))
    return ClaimGroup(
        controller=held.controller,
        guest_uuid=guest.uuid,
        settings=(Setting(guest.uuid, held.knob, held.value),),
        domain_ids=tuple(d.id for d in picture.topology.domains if d.cpus & cpus),
        reason=REAPPLY,
        predicted_loss=_NO_LOSS,
    )
