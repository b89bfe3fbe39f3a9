# SPDX-License-Identifier: Apache-2.0
"""What a controller would like of one or several guests; it is granted whole or not at all."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from nova_vp.core.types.detection import Detection
from nova_vp.core.types.knob import Cpus, Knob, Value, all_cpus
from nova_vp.core.types.reason import Reason, Rejection, Rung


@dataclass(frozen=True, slots=True)
class PredictedLoss:
    """What a change is predicted to cost: shares of performance that those who come, and those who
    are there, lose."""

    newcomer_ratio: float
    worst_resident_ratio: float
    worst_strict_ratio: float = 0.0
    """The worst among residents with `vp:isolation=strict`: only they forbid a place."""

    @property
    def worst_ratio(self) -> float:
        return max(self.newcomer_ratio, self.worst_resident_ratio)


@dataclass(frozen=True, slots=True)
class Alternative:
    guest_uuid: str
    domain_id: int
    rejection: Rejection
    predicted_loss: PredictedLoss | None = None
    victim_uuid: str | None = None
    """For whose sake it was considered; set where the whole want was refused."""
    rung: Rung = Rung.MOVE


@dataclass(frozen=True, slots=True)
class Setting:
    """One knob of one guest as a controller would like it."""

    guest_uuid: str
    knob: Knob
    value: Value


@dataclass(frozen=True, slots=True)
class Want:
    """What one controller would like: all of its settings, or none. Without any it says that
    nothing helps, and why."""

    controller: str
    guest_uuid: str
    """The guest it is mainly about; others may have to make room."""
    settings: tuple[Setting, ...]
    domain_ids: tuple[int, ...]
    """Where that guest's vCPUs will be."""
    reason: Reason
    predicted_loss: PredictedLoss
    detection: Detection | None = None
    rejected: tuple[Alternative, ...] = ()
    evidence: Mapping[str, float] = field(default_factory=dict)
    rung: Rung | None = None
    on_behalf_of: str | None = None
    """Whose demand is met, where another one has to move for it."""


def placements_of(want: Want) -> dict[str, frozenset[int]]:
    """By guest, the CPUs that it would run on; those that stay are absent."""
    return {
        setting.guest_uuid: all_cpus(cast(Cpus, setting.value))
        for setting in want.settings
        if setting.knob is Knob.PLACEMENT
    }
