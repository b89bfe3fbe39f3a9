# SPDX-License-Identifier: Apache-2.0
"""`core:A+B`: the agent's own decision core on the modelled host, with the controllers A and B.

The picture is made of what the drivers give and the actions pass the agent's own executor, as in
`vp_agent.loop.tick`. Nothing here decides.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import Protocol

from nova_vp.controllers import with_controllers
from nova_vp.core.overlay_step import answer_calls
from nova_vp.core.pipeline.confirm import confirm
from nova_vp.core.step import step
from nova_vp.core.types.claim import Claim, ClaimKey
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.guest import Guest, MemoryMove
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.overlay import Call, CallAnswer, Overlay
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Mode, Policy
from nova_vp.core.types.sample import Profile, Reading
from nova_vp.core.types.service_level import LatencyReport
from nova_vp.core.types.state import CoreState
from nova_vp.core.types.topology import Limits, Topology
from vp_agent.drivers.base import Actuator, Journal, VcpuThreads
from vp_agent.loop.executor import Executor
from vp_agent.loop.picture import Commanded, HostReading, assemble
from vp_sim.sim_drivers import SimDrivers

EPOCH = 1


class GuestsOfHost(Protocol):
    def read(self) -> tuple[Guest, ...]: ...
    def topology(self) -> Topology: ...
    def threads(self) -> tuple[VcpuThreads, ...]: ...


class CountersOfHost(Protocol):
    def read(self, threads: Iterable[VcpuThreads]) -> Mapping[str, Reading]: ...


class MemoryOfHost(Protocol):
    def moves(self) -> Mapping[str, MemoryMove]: ...
    def set_copy_rates(self, kib_per_s: Mapping[str, float]) -> None: ...


class CoreDrivers(Protocol):
    """A modelled host as the core has it."""

    @property
    def guests(self) -> GuestsOfHost: ...
    @property
    def counters(self) -> CountersOfHost: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def actuator(self) -> MemoryOfHost: ...
    def limits(self) -> Limits: ...
    def actuators(self) -> Mapping[Knob, Actuator]: ...
    def latency_reports(self) -> Mapping[str, LatencyReport]: ...


class CorePolicy:
    def __init__(
        self,
        drivers: CoreDrivers,
        policy: Policy,
        profiles: Mapping[str, Profile] | None = None,
        overlays: Mapping[str, Overlay] = MappingProxyType({}),
    ) -> None:
        """`profiles`: of guests that are known from before, by UUID."""
        self._drivers = drivers
        self._policy = policy
        self._executor = Executor(drivers.journal, drivers.actuators(), EPOCH)
        self._state = CoreState(profiles=profiles or {})
        self._limits = drivers.limits()
        self._overlays = overlays
        self.decision: Decision | None = None
        """The last one, for who watches."""
        self.next_end_s: float | None = None
        """When something that was granted ends, which an agent takes back at once."""

    @property
    def claims(self) -> Mapping[ClaimKey, tuple[Claim, ...]]:
        """That stand, for who watches."""
        return self._state.claims

    def tick(self, now_s: float) -> None:
        picture = self._picture(now_s)
        state, decision = step(self._state, picture, self._policy)
        self.decision = decision
        self._executor.drop_foreign(decision.foreign)
        self._carry_out(state, decision, now_s)
        self._executor.renew(decision.renewals)
        self._drivers.actuator.set_copy_rates(decision.copy_rate_kib_per_s)

    def _carry_out(self, state: CoreState, decision: Decision, now_s: float) -> None:
        self.next_end_s = decision.next_end_s
        self._state = confirm(state, self._executor.apply(decision.actions, now_s), self._policy)

    def answer(self, calls: Sequence[Call], now_s: float) -> tuple[CallAnswer, ...]:
        """At once, between two ticks. Without calls, what has ended is taken back."""
        picture = replace(self._picture(now_s), calls=tuple(calls))
        state, decision = answer_calls(self._state, picture, self._policy)
        self._carry_out(state, decision, now_s)
        return decision.answers

    def give_back(self) -> tuple[str, ...]:
        """All goes back, as when the agent stops; memory is then on its way. Returns the guests
        that could not be restored."""
        return self._executor.undo(self._drivers.journal.read().values(), waits=False)

    def finish_moves(self) -> None:
        """Of memory on its way back."""
        self._executor.finish_moves(self._drivers.actuator.moves())

    def _picture(self, now_s: float) -> Picture:
        drivers = self._drivers
        reading = HostReading(
            guests=drivers.guests.read(),
            readings=drivers.counters.read(drivers.guests.threads()),
            topology=drivers.guests.topology(),
            memory_moves=drivers.actuator.moves(),
            latency_reports=drivers.latency_reports(),
        )
        self._executor.finish_moves(reading.memory_moves)
        applied, commanded = drivers.journal.read(), Commanded(Mode.ENFORCE)
        knobs, limits = self._executor.knobs, self._limits
        return assemble(reading, applied, commanded, knobs, limits, now_s, overlays=self._overlays)


def creator(names: Iterable[str]) -> Callable[[SimDrivers, Random], CorePolicy]:
    """Of the policy with these controllers. Raises ControllerUnavailable."""
    policy = with_controllers(Policy(), names)

    def create(drivers: SimDrivers, random: Random) -> CorePolicy:
        return CorePolicy(drivers, policy)

    return create
