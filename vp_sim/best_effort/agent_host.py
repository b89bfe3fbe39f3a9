# SPDX-License-Identifier: Apache-2.0
"""The modelled socket behind the drivers of a real host, so that the agent's core runs on it.

One latency-critical server and one or several best-effort ones, each with its own cap and weight.
The core sees counters, CPU times, caps, weights and what the application reports, as on a host.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import cast

from nova_vp.core.types.guest import Guest, Isolation
from nova_vp.core.types.knob import (
    CpuWeight,
    Knob,
    Quota,
    Value,
    WeightUnit,
)
from nova_vp.core.types.sample import Reading
from nova_vp.core.types.service_level import LatencyReport, ServiceClass
from nova_vp.core.types.topology import LlcDomain, Topology
from vp_agent.drivers.base import ApplyFailed, VcpuThreads
from vp_sim.best_effort.figures import Figures
from vp_sim.best_effort.socket import STEP_S, Socket
from vp_sim.plain_host import GENERATION, PlainHost

LC, BE = "00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b"
DEFAULT_SHARES = 1024
BE_INSTRUCTIONS_PER_CORE_S = 2e9


def topology_of(figures: Figures) -> Topology:
    """Two sockets alike; both servers are on the first."""
    half = figures.machine_cpus // 2
    return Topology(
        (
            LlcDomain(0, 0, frozenset(range(half))),
            LlcDomain(1, 1, frozenset(range(half, figures.machine_cpus))),
        )
    )


@dataclass(slots=True, kw_only=True)
class AgentHost(PlainHost):
    """All drivers of one host in one object."""

    socket: Socket
    be_mpki: float = 0.0
    """LLC misses per 1000 instructions of the best-effort server, which here cost nobody anything
    but its pollution permit."""
    is_silent: bool = False
    """The application reports nothing."""
    told_at_s: float | None = None
    _topology: Topology = field(init=False)
    name: str = "best-effort-model"

    def __post_init__(self) -> None:
        figures = self.socket.figures
        self._topology = topology_of(figures)
        self._add(LC, figures.lc_cores, ServiceClass.LATENCY_CRITICAL)
        self._add(BE, figures.be_cores, ServiceClass.BEST_EFFORT)
        self._give()

    def _add(self, uuid: str, vcpus: int, service_class: ServiceClass) -> None:
        figures, cpus = self.socket.figures, topology_of(self.socket.figures).domains[0].cpus
        is_lc = service_class is ServiceClass.LATENCY_CRITICAL
        self.guests_by_uuid[uuid] = Guest(
            uuid=uuid,
            domain_name=f"instance-{uuid[-8:]}",
            name="memcached" if is_lc else "stress-ng",
            project_id="0" * 31 + "1",
            flavor="sim",
            vcpus=vcpus,
            memory_kib=4 << 20,
            allowed_cpus=cpus,
            placement=cpus,
            cpu_time_ns=0,
            generation=GENERATION,
            isolation=Isolation.NONE,
            cap_floor_ratio=None if is_lc else 0.01,
            cpu_weight=CpuWeight(DEFAULT_SHARES, WeightUnit.SHARES),
            service_class=service_class,
            latency_target_ms=figures.target_ms if is_lc else None,
            max_load=figures.max_rps if is_lc else None,
            may_suspend=not is_lc,
        )

    def advance(self, rps: float) -> None:
        """One second."""
        for _ in range(round(1 / STEP_S)):
            self.socket.advance(rps)
        if not self.is_silent:
            self.told_at_s = self.socket.now_s
        for uuid, core_s in ((LC, self.socket.lc_core_s), (BE, self.socket.be_core_s)):
            guest = self.guests_by_uuid[uuid]
            self.guests_by_uuid[uuid] = guest._replace(cpu_time_ns=int(core_s * 1e9))

    def _give(self) -> None:
        lc, be = self.guests_by_uuid[LC], self.guests_by_uuid[BE]
        self.socket.quota_cores = be.vcpus * be.quota.cores
        self.socket.weight_ratio = be.cpu_weight.number / lc.cpu_weight.number

    @property
    def guests(self) -> "AgentHost":
        return self

    @property
    def counters(self) -> "_Counters":
        return _Counters(self.socket, self.be_mpki)

    @property
    def actuator(self) -> "AgentHost":
        return self

    def topology(self) -> Topology:
        return self._topology

    def latency_reports(self) -> Mapping[str, LatencyReport]:
        socket = self.socket
        if self.told_at_s is None:
            return {}
        age_s = socket.now_s - self.told_at_s
        return {LC: LatencyReport(socket.latency_ms, socket.offered_rps, age_s)}

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        guest = self.guests_by_uuid[guest_uuid]
        if knob is Knob.CPU_CAP:
            guest = guest._replace(quota=cast(Quota, value))
        elif knob is Knob.CPU_WEIGHT:
            guest = guest._replace(cpu_weight=cast(CpuWeight, value))
        else:
            raise ApplyFailed(f"this model has no {knob.value} to turn")
        self.guests_by_uuid[guest_uuid] = guest
        self._give()


@dataclass(frozen=True, slots=True)
class _Counters:
    socket: Socket
    be_mpki: float
    name: str = "best-effort-model"

    def read(self, threads: Iterable[VcpuThreads]) -> Mapping[str, Reading]:
        socket, figures = self.socket, self.socket.figures
        # A request of memcached is some thousand instructions.
        lc = _reading(1000 * socket.instructions, 1000 * socket.cycles, figures.lc_cores)
        work = socket.be_core_s * BE_INSTRUCTIONS_PER_CORE_S
        return {LC: lc, BE: _reading(work, work, figures.be_cores, self.be_mpki)}


def _reading(instructions: float, cycles: float, vcpus: int, mpki: float = 0.0) -> Reading:
    misses = int(instructions * mpki / 1000)
    return Reading(int(instructions), int(cycles), 2 * misses, misses, 0, vcpus, 1.0, GENERATION)


def agent_host(figures: Figures, seed: int) -> AgentHost:
    return AgentHost(socket=Socket(figures, Random(f"run-{seed}")))
