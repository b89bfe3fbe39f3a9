# SPDX-License-Identifier: Apache-2.0
"""Places that are bad although nobody's state changed: hurt from the first second.

The thesis mends those whatever the initial configuration was (2.3.1), and separates the State-8 VPs
of a hot node, vCPUs and memory, one node each (2.1.3). On a full host nobody can move unless
somebody else does, so several steps are planned on the what-if model and claimed together; what is
measured afterwards judges them, like any other action.
"""

from collections.abc import Iterator
from dataclasses import replace

from nova_vp.core.controllers.base import Answer, Controller, View
from nova_vp.core.controllers.rebalance.declaration import (
    NAME,
    REARRANGE,
    REASONS,
    SEPARATE,
    Looks,
    RebalanceSettings,
)
from nova_vp.core.model.arrangement import Plan, Search, best_plan
from nova_vp.core.model.candidate import predicted_loss_of, within_allotment
from nova_vp.core.model.holds import why_not_again
from nova_vp.core.model.host import Host
from nova_vp.core.types.action import Outcome, Result
from nova_vp.core.types.claim import ClaimGroup
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import Reason, Rung
from nova_vp.core.types.sample import Incomplete
from nova_vp.core.types.state import CoreState

FIRST_WAIT_S = 30.0
MOST_DOUBLINGS = 4
"""Of the wait after a look for a better arrangement that brought nothing."""

_NEVER_KNOWN = frozenset({Incomplete.UNREADABLE, Incomplete.PARTIAL, Incomplete.IDLE})


class Rebalance(Controller):
    name = NAME
    summary = (
        "rebalances servers by prediction, before a degradation is measured (Virtual Platforms "
        "thesis 2013, section 2.3.1)"
    )
    is_default = True
    sees_virtual_places = True
    settings = RebalanceSettings
    state = Looks
    reasons = REASONS

    def run(self, view: View, state: Looks, settings: RebalanceSettings) -> Answer:
        if not is_due(view, state, settings):
            return Answer(state)
        return Answer(back_off(state, view.now_s), tuple(rebalance(view, settings)))

    def note(
        self, state: Looks, outcome: Outcome, core: CoreState, settings: RebalanceSettings
    ) -> Looks:
        """A plan that helped makes up for the fruitless looks before it."""
        if outcome.result is Result.MENDED:
            return replace(state, fruitless=0)
        if outcome.result in (Result.INEFFECTIVE, Result.UNDONE) and outcome.settled_s is not None:
            return back_off(state, outcome.settled_s)
        return state


def back_off(state: Looks, now_s: float) -> Looks:
    """The next look is farther away, until one of them brings some."""
    wait_s = FIRST_WAIT_S * 2.0 ** min(state.fruitless, MOST_DOUBLINGS)
    return Looks(now_s + wait_s, state.fruitless + 1)


def rebalance(view: View, settings: RebalanceSettings) -> Iterator[ClaimGroup]:
    """The best plan that was found, if any brings enough."""
    host, what_if = view.host, view.what_if
    if not any(what_if.loss(uuid) > settings.felt_loss_ratio for uuid in host.undisturbed):
        return
    search = _search(view)
    plan = best_plan(search)
    if plan is not None and plan.worth >= view.policy.least_gain_ratio:
        yield _group(host, plan, search.hot_nodes)


def is_due(view: View, looks: Looks, settings: RebalanceSettings) -> bool:
    """Everything is settled and known, nobody is being helped, and the last look is long ago."""
    host, state, now_s, policy = view.host, view.core, view.now_s, view.policy
    return (
        now_s >= looks.next_s
        and now_s - state.placed_at_s >= settings.rearrange_after_s
        and not state.pending
        and not host.memory_moves
        and not _is_being_mitigated(host)
        and all(_is_settled(host, uuid, policy) for uuid in host.guests)
    )


def _is_being_mitigated(host: Host) -> bool:
    """A VP is hurt in its cache by somebody known: that comes first."""
    return any(
        vp.detection is not None and vp.detection.kind is Kind.CACHE and vp.detection.suspects
        for vp in host.vps.values()
    )


def _is_settled(host: Host, uuid: str, policy: Policy) -> bool:
    """Known well enough to predict by, or never to be known."""
    guest, vp = host.guests[uuid], host.vps[uuid]
    if not guest.is_running or vp.incomplete in _NEVER_KNOWN:
        return True
    return vp.samples_seen >= policy.settle_samples


def _search(view: View) -> Search:
    """Those who lose most come first: on a full host there is no time for all."""
    core, what_if = view.core, view.what_if
    return Search(
        host=view.host,
        what_if=what_if,
        policy=view.policy,
        copy_kib_per_s=core.copy_kib_per_s,
        hot_nodes=frozenset(one.node for one in view.nodes if one.is_hot),
        may_change=lambda setting: view.may_change(setting, NAME, REARRANGE.rank),
        has_failed=lambda settings: bool(why_not_again("", settings, core, view.now_s)),
        helped=sorted(view.host.guests, key=lambda uuid: (-what_if.loss(uuid), uuid)),
    )


def _group(host: Host, plan: Plan, hot_nodes: frozenset[int]) -> ClaimGroup:
    settings = within_allotment(host, plan.settings.values())
    main = max(plan.locations, key=lambda uuid: (plan.gain.by_guest[uuid], uuid))
    domain_set = plan.domain_sets.get(main, host.domains_of[main])
    return ClaimGroup(
        controller=NAME,
        guest_uuid=main,
        settings=settings,
        domain_ids=tuple(d.id for d in domain_set),
        reason=_why(host, plan, hot_nodes),
        predicted_loss=predicted_loss_of(plan.locations, plan.gain),
        rung=Rung.MOVE if len(plan.locations) == 1 else Rung.SWAP,
        evidence={"predicted_gain_ratio": plan.gain.total, "guests": float(len(plan.locations))},
    )


def _why(host: Host, plan: Plan, hot_nodes: frozenset[int]) -> Reason:
    """The thesis's separation where memory of a State-8 VP leaves a hot node."""
    for uuid, knob in plan.settings:
        profile = host.undisturbed.get(uuid)
        is_state_8 = profile is not None and profile.state.number == 8
        if knob is Knob.MEMORY and is_state_8 and host.memory_of(uuid).keys() & hot_nodes:
            return SEPARATE
    return REARRANGE
