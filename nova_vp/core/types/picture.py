# SPDX-License-Identifier: Apache-2.0
"""Everything that one tick decides from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nova_vp.core.types.cpu_time import HostCpuTimes
from nova_vp.core.types.guest import Guest, MemoryMove
from nova_vp.core.types.knob import (
    Applied,
    Knob,
)
from nova_vp.core.types.overlay import Call, Overlay
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.sample import Reading
from nova_vp.core.types.service_level import LatencyReport
from nova_vp.core.types.topology import NO_LIMITS, Limits, Topology


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything one tick decides from. Nobody fetches more halfway."""

    at_s: float
    """Monotonic."""
    mode: Mode
    topology: Topology
    guests: tuple[Guest, ...]
    readings: Mapping[str, Reading]
    """By guest UUID; a guest that could not be read is absent."""
    applied: Mapping[str, Applied]
    """By guest UUID."""
    approved: frozenset[str] = frozenset()
    """Ids of proposals that an operator told us to apply."""
    revoked: frozenset[str] = frozenset()
    """Ids of actions that an operator told us to undo."""
    rejected: Mapping[str, str] = field(default_factory=dict)
    """Ids of proposals that an operator rejected, with who it was and why."""
    knobs: frozenset[Knob] = frozenset({Knob.PLACEMENT})
    """What the actuators of this host can turn."""
    memory_moves: Mapping[str, MemoryMove] = field(default_factory=dict)
    """By guest UUID: moves under way, and those that ended since the last tick."""
    limits: Limits = NO_LIMITS
    epoch: int = 0
    """Of the run of the agent that sees it."""
    host_cpu: HostCpuTimes | None = None
    """None: the kernel does not say."""
    latency_reports: Mapping[str, LatencyReport] = field(default_factory=dict)
    """By guest UUID: the last one of each application that ever made one."""
    overlays: Mapping[str, Overlay] = field(default_factory=dict)
    """By id: those that have a member on this host, or are about the host itself."""
    calls: tuple[Call, ...] = ()
    """Made since they were last answered, in the order of their arrival."""

    @property
    def only_observes(self) -> bool:
        """No server of this host may be changed, and no change is proposed to be accepted."""
        return self.mode is Mode.OBSERVE and not any(guest.mode for guest in self.guests)
