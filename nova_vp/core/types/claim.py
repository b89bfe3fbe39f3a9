# SPDX-License-Identifier: Apache-2.0
"""What a controller claims of one or several guests; a group is granted whole or not at all."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from nova_vp.core.types.detection import Detection, Kind
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
    resource: Kind | None = None
    """Where most of the worst of these losses comes from; None: nothing is lost."""

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
    """For whose sake it was considered; set where the whole group was refused."""
    rung: Rung = Rung.MOVE
    call_ids: tuple[str, ...] = ()
    """Calls of overlays that asked for it."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One knob of one guest, as a controller claims it."""

    guest_uuid: str
    knob: Knob
    value: Value


@dataclass(frozen=True, slots=True)
class ClaimGroup:
    """Claims of one controller that belong together: all of them are granted, or none. Without any
    it says that nothing on this host helps, and why."""

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
    relaxes: tuple[Setting, ...] = ()
    """Limits of other controllers that it asks to raise so far: the one whose limit it is grants
    or refuses."""
    ignores_mode: bool = False
    """The operator allowed it in mode `advise` without being asked."""
    is_first_place: bool = False
    """It places a server that has no place yet. A host that only observes takes it as done where
    it decides what to propose: see `nova_vp.core.pipeline.virtual_places`."""
    unmet_since_s: float | None = None
    """Since when nothing on this host meets a demand for CPU; None: this is no such demand."""
    call_ids: tuple[str, ...] = ()
    """Calls of overlays that it answers: they are granted if it is."""

    @property
    def helped_uuid(self) -> str | None:
        """For whose sake it is; None: for that of all, or it takes back or gives back."""
        if self.reason.is_for_host or self.reason.is_revert or self.reason.gives_back:
            return None
        if self.detection is not None:
            return self.detection.victim_uuid
        return self.on_behalf_of or self.guest_uuid


class Release(NamedTuple):
    """A place or memory that its controller does not need to keep any longer. It stays as it is
    until somebody claims it."""

    guest_uuid: str
    knob: Knob


class Claim(NamedTuple):
    """One granted claim, for as long as it stands."""

    controller: str
    value: Value
    """As it was claimed: a floor, or the tighter limit of another controller, may hold instead."""
    reason: Reason
    action_id: str
    """The claims of one group have the same."""
    changed_at_s: float
    victim_uuid: str | None = None
    """For whose sake it was made last."""
    earlier: tuple[tuple[str, Value], ...] = ()
    """What the same controller claimed before, step by step, each with its action's id: that stands
    again if the last step is taken back."""


ClaimKey = tuple[str, Knob]
"""Guest UUID and knob."""


def placements_of(group: ClaimGroup) -> dict[str, frozenset[int]]:
    """By guest, the CPUs that it would run on; those that stay are absent."""
    return {
        setting.guest_uuid: all_cpus(cast(Cpus, setting.value))
        for setting in group.settings
        if setting.knob is Knob.PLACEMENT
    }
