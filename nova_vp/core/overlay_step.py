# SPDX-License-Identifier: Apache-2.0
"""What is done at once for the calls of overlays, between two ticks.

Only the controllers that answer calls run, on the picture of the last tick with what was applied
since; what they claim goes the way of all claims. Nothing is measured, and nobody else's claims
end, are renewed or are put right: that is the next tick's.
"""

from dataclasses import replace

from nova_vp.core.model.host import build_host
from nova_vp.core.model.islands import bound_to_islands
from nova_vp.core.model.limits import Claims
from nova_vp.core.pipeline.answers import answers_of
from nova_vp.core.pipeline.arbitrate import arbitrate
from nova_vp.core.pipeline.controllers import (
    Claimed,
    SeenHost,
    end_unclaimed,
    note_answers,
    run_controllers,
)
from nova_vp.core.pipeline.foreign import respect_noted
from nova_vp.core.pipeline.ledger import note_applied
from nova_vp.core.pipeline.plan import Plan
from nova_vp.core.pipeline.rate_limit import rate_limit
from nova_vp.core.types.claim import ClaimKey
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.knob import Applied
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.state import CoreState


def answer_calls(state: CoreState, picture: Picture, policy: Policy) -> tuple[CoreState, Decision]:
    """Answers to the picture's calls, and what is to be done for them now. Without any call, what
    has ended since is taken back. Its guests are those of the last tick."""
    picture = bound_to_islands(state, respect_noted(state, picture), policy)
    host = build_host(picture, state.vps, state.undisturbed)
    stood = state.claims
    real = SeenHost(host, picture)
    state, view, claimed = run_controllers(state, real, real, (), policy, on_call=True)
    state = end_unclaimed(state, claimed)
    granted, outranked = arbitrate(claimed.groups, state, view)
    allowed, deferred = rate_limit(granted, state, picture.at_s, policy)
    keys = _concerned(stood, state.claims, claimed)
    own, others = _parted(state.claims, keys)
    state = replace(state, claims=own)
    plan = Plan(allowed, state, _narrowed(picture, keys), policy)
    for action in plan.unchanging:
        state = note_applied(state, action, picture.at_s)
    refused = outranked + deferred
    answers = answers_of(claimed, refused, plan.proposals, picture)
    state = note_answers(state, picture.calls, answers, policy)
    decision = Decision(
        at_s=picture.at_s,
        mode=picture.mode,
        vps=(),
        domains=state.domains,
        detections=(),
        proposals=plan.proposals,
        actions=plan.actions,
        refused=refused,
        answers=answers,
        next_end_s=claimed.next_end_s,
    )
    return replace(state, claims={**others, **state.claims}), decision


def _concerned(stood: Claims, stands: Claims, claimed: Claimed) -> frozenset[ClaimKey]:
    """What ended now, or is claimed now."""
    ended = (key for key, claims in stood.items() if stands.get(key) != claims)
    now = ((one.guest_uuid, one.knob) for group in claimed.groups for one in group.settings)
    return frozenset((*ended, *now))


def _parted(claims: Claims, keys: frozenset[ClaimKey]) -> tuple[Claims, Claims]:
    inside = {key: some for key, some in claims.items() if key in keys}
    return inside, {key: some for key, some in claims.items() if key not in keys}


def _narrowed(picture: Picture, keys: frozenset[ClaimKey]) -> Picture:
    """Where nothing is held but these."""
    applied = {
        uuid: Applied(uuid, one.epoch, held)
        for uuid, one in picture.applied.items()
        if (held := tuple(held for held in one.held if (uuid, held.knob) in keys))
    }
    return replace(picture, applied=applied)
