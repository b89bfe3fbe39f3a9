# SPDX-License-Identifier: Apache-2.0
"""A granted group of claims, the changes that it makes, and what became of it."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from nova_vp.core.types.claim import Alternative, PredictedLoss, Setting
from nova_vp.core.types.knob import Cpus, Knob, Value, all_cpus
from nova_vp.core.types.reason import Reason, Rung


@dataclass(frozen=True, slots=True)
class Change:
    """One knob of one guest, from what stands there now."""

    guest_uuid: str
    knob: Knob
    to: Value
    now: Value
    original: Value
    """What stood there before us."""
    until_s: float | None = None

    @property
    def is_restoring(self) -> bool:
        """It leaves nothing of ours."""
        return self.to == self.original


@dataclass(frozen=True, slots=True)
class Action:
    """Granted claims that may be acted on: their changes, in this order, because of the reason and
    numbers given. One that fails takes back those before it."""

    id: str
    controller: str
    guest_uuid: str
    changes: tuple[Change, ...]
    domain_ids: tuple[int, ...]
    reason: Reason
    decided_s: float
    predicted_loss: PredictedLoss
    victim_uuid: str | None = None
    evidence: Mapping[str, float] = field(default_factory=dict)
    rejected: tuple[Alternative, ...] = ()
    is_undo: bool = False
    rung: Rung | None = None
    on_behalf_of: str | None = None
    """Whose demand is met, where another one has to move for it."""
    claims: tuple[Setting, ...] = ()
    """What stands once it is applied; a limit may be claimed tighter than the change makes it."""
    relaxes: tuple[Setting, ...] = ()
    """Limits of other controllers, as far as they were raised for it."""
    ignores_mode: bool = False
    call_ids: tuple[str, ...] = ()
    """Calls of overlays that it answers: refused where it is only proposed, or fails."""

    @property
    def is_tried(self) -> bool:
        """It must prove itself afterwards, and is undone if it does not."""
        return self.reason.is_verified and not self.is_undo

    @property
    def cpus(self) -> frozenset[int]:
        """Where the guest's vCPUs will run; empty if they stay."""
        change = self.change_of(Knob.PLACEMENT)
        return all_cpus(cast(Cpus, change.to)) if change else frozenset()

    @property
    def from_cpus(self) -> frozenset[int]:
        change = self.change_of(Knob.PLACEMENT)
        return all_cpus(cast(Cpus, change.now)) if change else frozenset()

    def change_of(self, knob: Knob) -> Change | None:
        """Of the guest that it is about."""
        mine = (c for c in self.changes if c.guest_uuid == self.guest_uuid and c.knob is knob)
        return next(mine, None)


class Renewal(NamedTuple):
    """The lease of a limit that stands on."""

    guest_uuid: str
    knob: Knob
    until_s: float


class Result(enum.Enum):
    APPLIED = "applied"
    FAILED = "failed"
    MENDED = "mended"
    INEFFECTIVE = "ineffective"
    UNJUDGED = "unjudged"
    """Whether it helped could not be told: too little was seen, or its victim left."""
    UNDONE = "undone"
    """By order."""
    REJECTED = "rejected"
    """A proposal, by an operator: it was never applied."""


NEVER_APPLIED = frozenset({Result.FAILED, Result.REJECTED})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an action. A failure is an outcome, not an exception."""

    action: Action
    result: Result
    at_s: float
    """When it was done, or failed."""
    detail: str = ""
    settled_s: float | None = None
    """When a later result than that of the doing was known; None: there is none."""
