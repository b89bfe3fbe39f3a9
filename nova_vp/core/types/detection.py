# SPDX-License-Identifier: Apache-2.0
"""Who is degraded, where, and by whom."""

import enum
from dataclasses import dataclass

from nova_vp.core.types.sample import Profile, Sample, State


class Kind(enum.Enum):
    """Where the interference happens."""

    CACHE = "cache"
    CONTROLLER = "memory-controller"
    LINK = "interconnect"
    REMOTE = "remote-latency"
    CPU = "cpu"
    """It waits for CPUs that others use. Of an escalation also: it wants more CPU than this host
    has for it (Merlin)."""
    HOST_CPU = "host-cpu"
    """It waits for CPUs that no guest uses meanwhile: processes of the host do, or the host's own
    host. Nothing that is done to a guest would end that."""


WAITING = frozenset({Kind.CPU, Kind.HOST_CPU})
"""Which cycles per instruction do not show."""


@dataclass(frozen=True, slots=True)
class Suspect:
    guest_uuid: str
    pressure_per_s: float
    """LLC misses per second now; for `Kind.CPU` the cores that it uses of the victim's CPUs."""
    rise_per_s: float
    """Against the moment the victim was last undisturbed; all of it where that is not known."""


@dataclass(frozen=True, slots=True)
class Detection:
    """One VP is being hurt: by whom, and the numbers that say so."""

    victim_uuid: str
    kind: Kind
    domain_id: int
    since_s: float
    before: Profile
    now: Sample
    state_now: State
    suspects: tuple[Suspect, ...]
    """Guilty ones only, the worst first."""
    waiting_ratio: float = 0.0
    """For kinds of CPU: of the CPU time that its quota let it want, the share that it waited."""
    host_cores: float = 0.0
    """For kinds of CPU: of its CPUs, those that no guest's vCPUs use."""

    @property
    def measured_loss_ratio(self) -> float:
        """What the victim loses now, from its cycles per instruction before and during; waiting for
        CPU does not show in them."""
        if self.kind in WAITING:
            return self.waiting_ratio
        return max(0.0, 1 - self.before.cpi / self.now.cpi) if self.now.cpi else 0.0
