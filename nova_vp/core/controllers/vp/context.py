# SPDX-License-Identifier: Apache-2.0
"""What every step of a mitigation looks at, and the claims that it ends with.

The steps that move guests are in `relocate` and `relieve_cpu`, those that restrain them where they
are in `restrain`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from nova_vp.core.controllers.base import View
from nova_vp.core.controllers.vp.declaration import (
    MOVE_AGGRESSOR,
    MOVE_VICTIM,
    NAME,
    CapHistory,
    VpSettings,
)
from nova_vp.core.model.candidate import AcceptanceLimits, Candidate, within_allotment
from nova_vp.core.model.cost import price
from nova_vp.core.model.holds import why_not_again
from nova_vp.core.model.host import DomainSet, Host
from nova_vp.core.model.what_if import WhatIfModel
from nova_vp.core.types.claim import Alternative, ClaimGroup, PredictedLoss
from nova_vp.core.types.detection import Detection
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import Reason, Rejection, Rung
from nova_vp.core.types.state import CoreState

LossIn = Callable[[str, DomainSet], PredictedLoss]
"""What everybody would lose if this guest moved there."""


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """What a ladder looks at."""

    view: View
    history: CapHistory
    settings: VpSettings
    loss_in: LossIn
    known_worst: dict[tuple[str, Rung, tuple[int, ...]], float] = field(default_factory=dict)

    @property
    def host(self) -> Host:
        return self.view.host

    @property
    def what_if(self) -> WhatIfModel:
        return self.view.what_if

    @property
    def state(self) -> CoreState:
        return self.view.core

    @property
    def now_s(self) -> float:
        return self.view.now_s

    @property
    def policy(self) -> Policy:
        return self.view.policy

    def worst_of(self, candidate: Candidate) -> float:
        """What it would cost the one it costs most. Twenty victims suspect the same few."""
        key = (candidate.guest_uuid, candidate.rung, candidate.domain_ids)
        if key not in self.known_worst:
            self.known_worst[key] = self.what_if.evaluate(candidate.locations).worst
        return self.known_worst[key]

    def fresh(
        self,
        detection: Detection,
        candidates: Iterable[Candidate],
        rejected: list[Alternative],
    ) -> list[Candidate]:
        """Those that were not done for this victim lately, in vain, and that nobody with a lower
        rank stands in the way of."""
        found = []
        for candidate in candidates:
            why = why_not_again(detection.victim_uuid, candidate.settings, self.state, self.now_s)
            if why is None and self._may_claim(candidate):
                found.append(candidate)
                continue
            uuid, domain_id = candidate.guest_uuid, candidate.domain_ids[0]
            why = why or Rejection.OUTRANKED
            rejected.append(Alternative(uuid, domain_id, why, rung=candidate.rung))
        return found

    def _may_claim(self, candidate: Candidate) -> bool:
        return all(
            self.view.may_claim(setting.guest_uuid, setting.knob, NAME, MOVE_AGGRESSOR.rank)
            for setting in candidate.settings
        )

    def terms(self, detection: Detection) -> AcceptanceLimits:
        """The victim's own gain is measured, not predicted: nobody else may lose as much."""
        return AcceptanceLimits(
            least_gain=self.policy.least_gain_ratio,
            most_hurt=max(self.policy.most_hurt_ratio, detection.measured_loss_ratio / 2),
            price_of=lambda settings: price(
                settings, self.host, self.state.copy_kib_per_s, self.policy
            ),
        )


def group_of(
    host: Host,
    candidate: Candidate,
    reason: Reason,
    predicted_loss: PredictedLoss,
    detection: Detection,
    rejected: Sequence[Alternative],
) -> ClaimGroup:
    return ClaimGroup(
        controller=NAME,
        guest_uuid=candidate.guest_uuid,
        settings=within_allotment(host, candidate.settings),
        domain_ids=candidate.domain_ids,
        reason=reason,
        predicted_loss=predicted_loss,
        detection=detection,
        rejected=tuple(rejected),
        rung=candidate.rung,
    )


def nothing_helps(detection: Detection, rejected: Iterable[Alternative]) -> ClaimGroup:
    """A group without claims: these are the reasons."""
    nowhere = PredictedLoss(detection.measured_loss_ratio, 0.0)
    victim = detection.victim_uuid
    return ClaimGroup(NAME, victim, (), (), MOVE_VICTIM, nowhere, detection, tuple(rejected))
