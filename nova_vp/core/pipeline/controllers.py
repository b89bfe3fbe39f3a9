# SPDX-License-Identifier: Apache-2.0
"""Running the enabled controllers, and giving each back what it remembers.

A controller that did not run keeps its claims; one that ran and does not restate one loses it in
the same tick, a place or memory apart, which it releases. What controllers know of each other goes
through the view: a request to raise a limit is answered by the controller whose limit it is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from nova_vp.core.controllers.base import Answer, View
from nova_vp.core.model.host import Host
from nova_vp.core.model.limits import PLACES, of_controller
from nova_vp.core.types.action import Outcome
from nova_vp.core.types.claim import Claim, ClaimGroup, ClaimKey, Release, Setting
from nova_vp.core.types.decision import NodeView
from nova_vp.core.types.island import IslandView
from nova_vp.core.types.overlay import Call, CallAnswer, OverlayView
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import REAPPLY
from nova_vp.core.types.sample import Incomplete
from nova_vp.core.types.service_level import ClassRoom
from nova_vp.core.types.state import CoreState
from nova_vp.core.types.usage import Usage

_UNMEASURED = frozenset(
    {Incomplete.UNREADABLE, Incomplete.PARTIAL, Incomplete.MULTIPLEXED, Incomplete.LATE}
)
"""The counters, or a tick that came late: silence about such a guest says nothing."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """What the controllers said in one tick."""

    groups: tuple[ClaimGroup, ...] = ()
    releases: Mapping[str, tuple[Release, ...]] = field(default_factory=dict)
    """By controller."""
    ran: frozenset[str] = frozenset()
    enabled: frozenset[str] = frozenset()
    """Those that ran, and those that could not run in this tick."""
    figures: Mapping[str, Mapping[str, Mapping[str, float | str]]] = field(default_factory=dict)
    """By controller and guest UUID."""
    usage: Mapping[str, tuple[Usage, ...]] = field(default_factory=dict)
    """By guest UUID."""
    answers: tuple[CallAnswer, ...] = ()
    restates: Mapping[str, frozenset[ClaimKey]] = field(default_factory=dict)
    """By controller."""
    islands: tuple[IslandView, ...] = ()
    overlays: tuple[OverlayView, ...] = ()
    next_end_s: float | None = None
    """The first of all."""
    ending_unmeasured: frozenset[str] = frozenset()
    """Those whose silence ends a claim even where its server could not be measured."""
    class_room: ClassRoom | None = None


class SeenHost(NamedTuple):
    """The host and the picture that it was made from."""

    host: Host
    picture: Picture


def run_controllers(
    state: CoreState,
    real: SeenHost,
    virtual: SeenHost,
    nodes: tuple[NodeView, ...],
    policy: Policy,
    on_call: bool = False,
) -> tuple[CoreState, View, Claimed]:
    """What each of them claims; they do not know of each other. `virtual`: with virtual places,
    where there are any, for controllers that place servers; the same is the view that is returned.
    `on_call`: between two ticks, when only those run that answer calls."""
    core = replace(state, controllers={})
    view = placing = View(real.host, nodes, real.picture, core, policy, on_call)
    if virtual is not real:
        placing = View(virtual.host, nodes, virtual.picture, core, policy, on_call)
    answers: dict[str, Answer] = {}
    is_poor = _is_poor(real.host)
    for controller, settings in policy.controllers:
        if (controller.needs_counters and is_poor) or (on_call and not controller.answers_calls):
            continue
        before = state.controllers.get(controller.name)
        seen = placing if controller.sees_virtual_places else view
        own = controller.state() if before is None else before
        answers[controller.name] = controller.run(seen, own, settings)
    return _remembered(state, answers), placing, _claimed(answers, policy)


def _remembered(state: CoreState, answers: Mapping[str, Answer]) -> CoreState:
    loans = [one.loans for one in answers.values() if one.loans is not None]
    own = {name: one.state for name, one in answers.items()}
    return replace(
        state,
        controllers={**state.controllers, **own},
        loans=loans[-1] if loans else state.loans,
    )


def _claimed(answers: Mapping[str, Answer], policy: Policy) -> Claimed:
    known = [one.controller for one in policy.controllers]
    told = answers.values()
    usage: dict[str, tuple[Usage, ...]] = {}
    for answer in told:
        for uuid, used in answer.usage.items():
            usage[uuid] = (*usage.get(uuid, ()), used)
    return Claimed(
        groups=tuple(group for one in told for group in one.groups),
        releases={name: one.releases for name, one in answers.items()},
        ran=frozenset(answers),
        enabled=frozenset(one.name for one in known),
        figures={name: one.figures for name, one in answers.items() if one.figures},
        usage=usage,
        answers=tuple(answer for one in told for answer in one.answers),
        restates={name: one.restates for name, one in answers.items()},
        class_room=next((one.class_room for one in told if one.class_room), None),
        islands=tuple(island for one in told for island in one.islands),
        overlays=tuple(overlay for one in told for overlay in one.overlays),
        next_end_s=min(
            (one.next_end_s for one in told if one.next_end_s is not None), default=None
        ),
        ending_unmeasured=frozenset(
            one.name for one in known if one.answers_calls or not one.needs_counters
        ),
    )


def _is_poor(host: Host) -> bool:
    """Guests run, and none of them could be measured."""
    seen = False
    for uuid, guest in host.guests.items():
        if guest.is_running:
            if host.vps[uuid].incomplete not in _UNMEASURED:
                return False
            seen = True
    return seen


def end_unclaimed(state: CoreState, claimed: Claimed) -> CoreState:
    """The claims without those that their controller, which ran, restates no more, and those of
    controllers that are not enabled any longer."""
    if not state.claims:
        return state
    stated = {
        (group.controller, setting.guest_uuid, setting.knob)
        for group in claimed.groups
        for setting in group.settings
    }
    released = {
        (name, *release) for name, releases in claimed.releases.items() for release in releases
    }

    def stands(key: ClaimKey, claim: Claim) -> bool:
        if claim.controller not in claimed.ran:
            return claim.controller in claimed.enabled
        if key[1] in PLACES:
            return (claim.controller, *key) not in released
        if key in claimed.restates[claim.controller] or (claim.controller, *key) in stated:
            return True
        if claim.controller in claimed.ending_unmeasured:
            return False
        return _is_unmeasured(state, key[0], claim)

    if all(stands(key, one) for key, claims in state.claims.items() for one in claims):
        return state
    kept = {
        key: tuple(one for one in claims if stands(key, one))
        for key, claims in state.claims.items()
    }
    return replace(state, claims={key: claims for key, claims in kept.items() if claims})


def _is_unmeasured(state: CoreState, guest_uuid: str, claim: Claim) -> bool:
    concerned = (state.vps.get(uuid) for uuid in (guest_uuid, claim.victim_uuid) if uuid)
    return any(vp is not None and vp.incomplete in _UNMEASURED for vp in concerned)


def is_restated(state: CoreState, group: ClaimGroup) -> bool:
    """It claims what stands, and nothing else."""

    def stands(setting: Setting) -> bool:
        claims = state.claims.get((setting.guest_uuid, setting.knob), ())
        own = of_controller(claims, group.controller)
        return own is not None and own.value == setting.value

    if group.reason.is_revert or group.reason is REAPPLY or group.relaxes:
        return False  # Of the pipeline, which has seen that it does not stand; or asks for more.
    return bool(group.settings) and all(map(stands, group.settings))


def note(state: CoreState, outcome: Outcome, names: Iterable[str], policy: Policy) -> CoreState:
    """Tell these controllers what became of an action."""
    remembered: dict[str, Any] = {}
    for controller, settings in policy.controllers:
        if controller.name in names:
            before = state.controllers.get(controller.name)
            own = controller.state() if before is None else before
            remembered[controller.name] = controller.note(own, outcome, state, settings)
    if not remembered:
        return state
    return replace(state, controllers={**state.controllers, **remembered})


def note_answers(
    state: CoreState, calls: Iterable[Call], answers: Iterable[CallAnswer], policy: Policy
) -> CoreState:
    """Tell controllers that answer calls what was answered in the end."""
    told = tuple(zip(calls, answers, strict=True))
    remembered = {
        controller.name: controller.answered(state.controllers[controller.name], told)
        for controller, _ in policy.controllers
        if controller.answers_calls and controller.name in state.controllers
    }
    if not remembered:
        return state
    return replace(state, controllers={**state.controllers, **remembered})
