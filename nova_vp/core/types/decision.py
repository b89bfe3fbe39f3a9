# SPDX-License-Identifier: Apache-2.0
"""What a tick makes of its picture: the views of host and VPs, actions, proposals, escalations."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from nova_vp.core.types.action import Action, Outcome, Renewal
from nova_vp.core.types.claim import Alternative, PredictedLoss
from nova_vp.core.types.cpu_time import CpuUse
from nova_vp.core.types.detection import Detection, Kind
from nova_vp.core.types.guest import Guest, MemoryMove
from nova_vp.core.types.island import IslandView
from nova_vp.core.types.overlay import CallAnswer, OverlayView
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.reason import Rejection
from nova_vp.core.types.sample import Incomplete, Profile, Sample, Sensitivity, State
from nova_vp.core.types.service_level import ClassRoom
from nova_vp.core.types.topology import LlcDomain
from nova_vp.core.types.usage import Usage


class Role(enum.Enum):
    """What a guest is to a victim that nothing on this node helps."""

    VICTIM = "victim"
    AGGRESSOR = "aggressor"
    CO_RUNNER = "co-runner"


class Migrant(NamedTuple):
    """A guest that could leave this host, and what that would bring."""

    guest_uuid: str
    role: Role
    relief_ratio: float
    """Share of its undisturbed performance that the victim would regain."""
    others_ratio: float
    """What all the others would, summed up; negative if they would pay for it."""


@dataclass(frozen=True, slots=True)
class Escalation:
    """Nothing on this node helps: the cluster must (Merlin's last rung)."""

    id: str
    victim_uuid: str
    kind: Kind
    decided_s: float
    since_s: float
    evidence: Mapping[str, float]
    rejected: tuple[Alternative, ...]
    candidates: tuple[Migrant, ...] = ()
    """All who run here, the greatest relief first; empty until all are weighed."""


class VpView(NamedTuple):
    """What is known of one VP after this tick."""

    guest: Guest
    domain_ids: tuple[int, ...]
    """LLC domains its vCPUs may run in."""
    sample: Sample | None
    incomplete: Incomplete | None
    state: State | None
    since_s: float | None
    sensitivity: Sensitivity
    undisturbed: Profile | None
    detection: Detection | None
    history: tuple[Outcome, ...]
    """Latest last; concerns this guest as the one moved or as the victim."""
    cpu_use: CpuUse | None = None
    """None: unknown."""
    figures: Mapping[str, Mapping[str, float | str]] = MappingProxyType({})
    """By controller: what it tells of it, by the name of each figure."""
    usage: tuple[Usage, ...] = ()
    """Since the last tick, of each controller that sells something."""
    virtual_domain_ids: tuple[int, ...] = ()
    """Where it would be placed, on a host that only observes; empty: nowhere else."""
    degradation_ratio: float = 0.0
    """Share of its performance that it loses to what `detection` says; 0: nothing degrades it."""


@dataclass(frozen=True, slots=True)
class DomainView:
    """One LLC domain: what a newcomer would find there."""

    domain: LlcDomain
    free_cores: float
    allocated_vcpus: float
    pressure_per_s: float
    table: tuple[PredictedLoss, ...]
    """By newcomer: states 0-8, then index 9 = unknown."""
    by_resource: Mapping[Kind, tuple[float, ...]]
    """By newcomer as in `table`: what whoever loses most to a resource would lose to it alone."""
    llc_permits: float = 0.0
    """LLC misses per ms that the servers here have booked."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """One NUMA node's memory controller."""

    node: int
    misses_per_s: float
    """Served by its memory, whoever missed."""
    mpki: float
    """The thesis's measure: summed over the VPs whose memory lies there."""
    limit_misses_per_s: float | None
    is_hot: bool


@dataclass(frozen=True, slots=True)
class Decision:
    at_s: float
    mode: Mode
    vps: tuple[VpView, ...]
    domains: tuple[DomainView, ...]
    detections: tuple[Detection, ...]
    proposals: tuple[Action, ...]
    """Granted, but the mode does not let us: observe and advise."""
    actions: tuple[Action, ...]
    refused: tuple[Alternative, ...] = ()
    """Claimed, but arbitration, rate limits or the lack of a place stopped it."""
    nodes: tuple[NodeView, ...] = ()
    memory_moves: tuple[MemoryMove, ...] = ()
    copy_rate_kib_per_s: Mapping[str, float] = field(default_factory=dict)
    """By guest whose memory is under way: how fast it may go on."""
    escalations: tuple[Escalation, ...] = ()
    over_budget: Mapping[str, Rejection] = field(default_factory=dict)
    """By degraded server: why no other server may be changed for it now."""
    renewals: tuple[Renewal, ...] = ()
    """Leases of limits that stand on."""
    steal_ratio: float | None = None
    """Of all CPU time of this host, the share that its own host took; None: unknown."""
    class_room: ClassRoom | None = None
    """None: no controller serves classes, or it did not run in this tick."""
    foreign: tuple[str, ...] = ()
    """Guests whose placement somebody else changed: ours no more, their journal is dropped."""
    answers: tuple[CallAnswer, ...] = ()
    """To the picture's calls, in their order. An action that fails refuses its calls after all."""
    islands: tuple[IslandView, ...] = ()
    """Of a tick, as the controller that answers calls sees them; empty: none does."""
    overlays: tuple[OverlayView, ...] = ()
    next_end_s: float | None = None
    """When the next grant of a call ends: `answer_calls` without calls takes it back then. None:
    none does."""
