# SPDX-License-Identifier: Apache-2.0
"""What every step of a mitigation looks at, and the want that it ends with.

The steps that move guests are in `controller`, those that restrain them where they are in
`restrain`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from nova_vp.core.model.candidate import AcceptanceLimits, Candidate, within_allotment
from nova_vp.core.model.cost import price
from nova_vp.core.model.holds import signature
from nova_vp.core.model.host import DomainSet, Host
from nova_vp.core.model.what_if import WhatIfModel
from nova_vp.core.types.detection import Detection
from nova_vp.core.types.policy import Controller, Policy
from nova_vp.core.types.reason import Reason, Rejection, Rung
from nova_vp.core.types.state import CoreState
from nova_vp.core.types.want import Alternative, PredictedLoss, Want

LossIn = Callable[[str, DomainSet], PredictedLoss]
"""What everybody would lose if this guest moved there."""


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """What a ladder looks at."""

    host: Host
    what_if: WhatIfModel
    state: CoreState
    now_s: float
    policy: Policy
    loss_in: LossIn
    known_worst: dict[tuple[str, Rung, tuple[int, ...]], float] = field(default_factory=dict)

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
        """Those that were not done for this victim lately, in vain."""
        found = []
        for candidate in candidates:
            key = (detection.victim_uuid, signature(candidate.settings))
            if self.state.failed_actions.get(key, self.now_s) <= self.now_s:
                found.append(candidate)
                continue
            uuid, domain_id = candidate.guest_uuid, candidate.domain_ids[0]
            why = Rejection.FAILED_BEFORE
            rejected.append(Alternative(uuid, domain_id, why, rung=candidate.rung))
        return found

    def terms(self, detection: Detection) -> AcceptanceLimits:
        """The victim's own gain is measured, not predicted: nobody else may lose as much."""
        return AcceptanceLimits(
            least_gain=self.policy.least_gain_ratio,
            most_hurt=max(self.policy.most_hurt_ratio, detection.measured_loss_ratio / 2),
            price_of=lambda settings: price(
                settings, self.host, self.state.copy_kib_per_s, self.policy
            ),
        )


def want_of(
    host: Host,
    candidate: Candidate,
    reason: Reason,
    predicted_loss: PredictedLoss,
    detection: Detection,
    rejected: Sequence[Alternative],
) -> Want:
    return Want(
        controller=Controller.VP.value,
        guest_uuid=candidate.guest_uuid,
        settings=within_allotment(host, candidate.settings),
        domain_ids=candidate.domain_ids,
        reason=reason,
        predicted_loss=predicted_loss,
        detection=detection,
        rejected=tuple(rejected),
        rung=candidate.rung,
    )
