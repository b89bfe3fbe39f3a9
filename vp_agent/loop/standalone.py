# SPDX-License-Identifier: Apache-2.0
"""A host watched without an agent: the same drivers and core, nothing that could change anything.

It knows no actuator, writes no journal, keeps no state and speaks to no bus; libvirt is asked over
a connection that may only read. What the core would like to do is reported as proposals.
"""

import time
from dataclasses import dataclass, field
from typing import Any

from nova_vp import wire
from nova_vp.core.step import step
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Mode, Policy
from nova_vp.core.types.state import CoreState
from nova_vp.core.types.topology import Limits
from vp_agent.drivers.base import CountersDriver, GuestsDriver, Journal
from vp_agent.loop.picture import Commanded, assemble, read_host
from vp_agent.publish.host_info import HostInfo
from vp_agent.publish.report import report

KNOBS = frozenset({Knob.PLACEMENT, Knob.CPU_CAP})
"""What any agent could turn here: its proposals are asked for, not carried out."""


@dataclass(frozen=True, slots=True)
class ReadOnlyHost:
    """This host, as the drivers that only read give it."""

    name: str
    guests: GuestsDriver
    counters: CountersDriver
    journal: Journal
    """For what an agent that ran here left."""
    limits: Limits = field(default_factory=Limits)


class Standalone:
    def __init__(self, host: ReadOnlyHost, policy: Policy, state: CoreState) -> None:
        self._host = host
        self._policy = policy
        self._state = state

    @property
    def warm_up(self) -> int:
        """Looks before the one that knows states: a rate needs two samples, a state a few rates."""
        return self._policy.dwell_samples

    def look(self, now_s: float) -> dict[str, Any]:
        """One more sample, as the report that an agent would give. Raises HostUnavailable."""
        reading = read_host(self._host.guests, self._host.counters)
        applied, commanded = self._host.journal.read(), Commanded(Mode.OBSERVE)
        picture = assemble(reading, applied, commanded, KNOBS, self._host.limits, now_s)
        self._state, decision = step(self._state, picture, self._policy)
        return self._report(decision)

    def _report(self, decision: Decision) -> dict[str, Any]:
        problems = self._host.counters.problems()
        host_info = HostInfo(
            host=self._host.name,
            counters=self._host.counters.name,
            actuator="none",
            is_homing=False,
            epoch_offset_s=time.time() - time.monotonic(),
            problems=tuple(f"{who}: {why}" for who, why in problems.items()),
            hypervisor=self._host.guests.host_name(),
            knobs=KNOBS,
        )
        return report(decision, host_info, wire.MessageVersion(0, 0))
