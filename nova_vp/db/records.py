# SPDX-License-Identifier: Apache-2.0
"""What leaves the database: frozen values, without row or session. Nothing here is SQLAlchemy."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from nova_vp.core.types.policy import Mode
from nova_vp.degradation import Degradation
from nova_vp.escalation_status import Status
from nova_vp.server_override import ServerOverride
from nova_vp.service_levels import NO_SERVICE, Service
from nova_vp.wire import MessageVersion


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to have one guest migrated. Moments are aware, as everywhere outside the tables."""

    attempt: int
    server: str
    name: str
    project_id: str
    role: str
    memory_kib: int
    timeout_s: int
    source_host: str
    status: Status
    started_at: datetime
    detail: str = ""
    dest_host: str | None = None
    nova_floor: int | None = None
    nova_id: int | None = None
    nova_uuid: str | None = None
    nova_status: str | None = None
    asked: int = 0
    requested_at: datetime | None = None
    abort_asked_at: datetime | None = None
    ended_at: datetime | None = None
    told_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Escalation:
    id: str
    host: str
    status: Status
    reason: str
    message: str
    victim: str
    project_id: str
    """The victim's; empty where the message does not say."""
    choice: str | None
    received_at: datetime
    accepted_at: datetime | None
    accepted_by: str | None
    changed_at: datetime
    not_before: datetime | None
    owner: str | None
    version: int
    settled_at: datetime | None
    attempts: tuple[Attempt, ...] = ()

    @property
    def latest(self) -> Attempt:
        """Raises IndexError where none was begun."""
        return self.attempts[-1]


class VpMinute(NamedTuple):
    uuid: str
    project_id: str
    state: int | None
    interference: str | None
    """What it suffered from, if it did (`nova_vp.core.types.detection.Kind`)."""
    metrics: Mapping[str, float]
    """By the names of METRICS; empty if it was not measured."""
    loss_ratio: float | None = None
    """Share of its performance that it lost; None, as below: nobody knows."""
    waiting_ratio: float | None = None
    """Of the CPU time that it wanted, the share that it waited."""


@dataclass(frozen=True, slots=True)
class HostMinute:
    mode: str
    vps: tuple[VpMinute, ...]


class VpHead(NamedTuple):
    """One VP as lists show it."""

    uuid: str
    host: str
    project_id: str
    name: str
    isolation: str
    state: int | None
    since: int | None
    incomplete: str | None
    is_hurt: bool | None
    """None: it was never measured long enough."""
    received_at: datetime
    group: str
    """Within its project, which servers are one VP; empty: it is alone."""
    service: Service = NO_SERVICE
    degradation: Degradation | None = None
    """None: nobody knows whether anything degrades it."""


@dataclass(frozen=True, slots=True)
class HostSummary:
    host: str
    mode: str
    mode_source: str | None
    """On which level it is set, as `aggregate:NAME`; None: the agent does not say."""
    received_at: datetime
    counters: Mapping[str, Any]
    vps_count: int
    hurt_count: int
    heat: Mapping[str, Any] | None = None
    """As `nova_vp.db.heat` has it; None: not asked for, or the agent does not say."""


class HostHeat(NamedTuple):
    """What one host says of its LLC domains and NUMA nodes."""

    host: str
    received_at: datetime
    heat: Mapping[str, Any] | None
    """As `nova_vp.db.heat` has it; None: the agent does not say."""


@dataclass(frozen=True, slots=True)
class HostAt:
    """One kept minute of a host."""

    at: datetime
    host: str
    minute: HostMinute


@dataclass(frozen=True, slots=True)
class VpAt:
    """One kept minute of a VP, wherever it was then."""

    at: datetime
    host: str
    vp: VpMinute


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """An action of an agent, as it turned out."""

    host: str
    at: datetime
    """Aware, by the clock of the host."""
    project_id: str
    action: Mapping[str, Any]
    """As the report had it (`wire.REPORT_SCHEMA`), and `rows.NAMES`; `result` is one of
    `nova_vp.action_results.RESULTS`."""
    accepted_by: str | None = None
    """Id of the keystone user who accepted it through vp-api; None: nobody did."""


@dataclass(frozen=True, slots=True)
class ClassCount:
    """How many running VPs of a flavor and image were last measured to be of a class, and how many
    projects stand for it: each votes once, for the median of its VPs."""

    flavor: str
    image: str | None
    """None: whatever the image."""
    vp_class: int
    vps: int
    projects: int


class ClassesOf(NamedTuple):
    """What was measured of servers of one flavor and image."""

    flavor: str
    image: str
    counts: tuple[ClassCount, ...]


@dataclass(frozen=True, slots=True)
class StoredOverride:
    """What is overridden of one server."""

    uuid: str
    project_id: str
    mode: Mode | None
    """At most this, whatever its host may do; None: as its host."""
    opt_out: bool
    """Nothing is done for its sake; what keeps it from harming others is."""
    priority: int | None
    """0 to 9, in place of the flavor's; None: the flavor's."""
    exempt: bool
    """It is measured and never touched, whomever it harms."""
    by: str
    """Id of the keystone user who set it, or took it back."""
    at: datetime
    """Aware."""
    version: int
    latency_target_ms: float | None = None
    latency_percentile: float | None = None
    max_load: float | None = None
    """As `ServerOverride` has these three."""

    @property
    def override(self) -> ServerOverride:
        return ServerOverride(*(getattr(self, name) for name in ServerOverride._fields))

    @property
    def is_empty(self) -> bool:
        return self.override.is_nothing


@dataclass(frozen=True, slots=True)
class HostRecord:
    """The latest report of one host."""

    host: str
    epoch: int
    sequence: int
    mode: str
    received_at: datetime
    """Aware, by the clock of the vp-scheduler that stored it."""
    report: Mapping[str, Any]
    """Per `wire.REPORT_SCHEMA`."""


@dataclass(frozen=True, slots=True)
class HostHead:
    """That a host reports, without what: a cloud's reports are hundreds of MiB."""

    host: str
    version: MessageVersion
    mode: str
    received_at: datetime
    """Aware, by the clock of the vp-scheduler that stored it."""


NAMES = "names"
"""In a stored action, beside what the report had: what its servers were called, by UUID."""


def concerned(action: Mapping[str, Any]) -> frozenset[str]:
    """The server that an action is about, whom it is for, and those that make room."""
    told = [action["uuid"], action["victim"], action.get("on_behalf_of")]
    told += [change["uuid"] for change in action.get("changes", [])]
    return frozenset(uuid.lower() for uuid in told if uuid)
