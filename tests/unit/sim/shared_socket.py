# SPDX-License-Identifier: Apache-2.0
"""The modelled socket with several servers of either class, behind the drivers of a real host.

Each latency-critical server has a queue of its own (`vp_sim.best_effort.socket`), and all
best-effort work disturbs each of them. They share the CPUs, of which best-effort servers get what
is not needed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from nova_vp.core.types.cpu_time import CpuTimes
from nova_vp.core.types.guest import Guest, Isolation
from nova_vp.core.types.knob import CpuWeight, Knob, Quota, Value, WeightUnit
from nova_vp.core.types.sample import Reading
from nova_vp.core.types.service_level import LatencyReport, ServiceClass
from nova_vp.core.types.topology import Topology
from vp_agent.drivers.base import VcpuThreads
from vp_sim.best_effort.agent_host import BE_INSTRUCTIONS_PER_CORE_S, topology_of
from vp_sim.best_effort.figures import Figures
from vp_sim.best_effort.socket import LEAST_WEIGHT_RATIO, Socket, needed_cores
from vp_sim.plain_host import GENERATION, PlainHost

SHARES = CpuWeight(1024, WeightUnit.SHARES)


@dataclass
class Serving:
    """One latency-critical server."""

    socket: Socket
    silent_from_s: int
    told: LatencyReport | None = None


@dataclass
class Working:
    """One best-effort server."""

    busy_vcpus: int
    mpki: float = 0.0
    """LLC misses per 1000 instructions, which cost nobody anything but its pollution permit."""
    wanted_ratio: float = 1.0
    """Of a CPU, by each busy vCPU."""
    core_s: float = 0.0
    denied_s: float = 0.0
    """That its cap denied it."""
    waited_s: float = 0.0


@dataclass(kw_only=True)
class SharedSocket(PlainHost):
    figures: Figures
    """Of all latency-critical servers together."""
    has_kernel_times: bool = True
    tells_vcpus: bool = True
    serving: dict[str, Serving] = field(default_factory=dict)
    working: dict[str, Working] = field(default_factory=dict)
    now_s: int = 0
    name: str = "shared-socket"

    def __post_init__(self) -> None:
        self._topology = topology_of(self.figures)

    def serve(self, uuid: str, part: int, seed: str, project_id: str, silent_from_s: int) -> None:
        """One of so many alike, each with its part of the CPU that one alone would need."""
        whole = self.figures
        figures = replace(
            whole,
            needed_at_lowest_ratio=whole.needed_at_lowest_ratio / part,
            alone_at_lowest_ratio=whole.alone_at_lowest_ratio / part,
            be_cores=whole.machine_cpus,
        )
        self.serving[uuid] = Serving(Socket(figures, Random(seed)), silent_from_s)
        guest = self._guest(uuid, -(-whole.lc_cores // part), project_id)
        self.guests_by_uuid[uuid] = guest._replace(
            service_class=ServiceClass.LATENCY_CRITICAL,
            latency_target_ms=whole.target_ms,
            max_load=whole.max_rps,
        )

    def work(
        self, uuid: str, working: Working, vcpus: int, project_id: str, **keys: object
    ) -> None:
        self.working[uuid] = working
        guest = self._guest(uuid, vcpus, project_id)._replace(
            service_class=ServiceClass.BEST_EFFORT, cap_floor_ratio=0.01
        )
        self.guests_by_uuid[uuid] = guest._replace(**keys)

    def _guest(self, uuid: str, vcpus: int, project_id: str) -> Guest:
        cpus = self._topology.domains[0].cpus
        return Guest(
            uuid=uuid,
            domain_name=f"instance-{uuid[-8:]}",
            name=uuid[-4:],
            project_id=project_id,
            flavor="sim",
            vcpus=vcpus,
            memory_kib=4 << 20,
            allowed_cpus=cpus,
            placement=cpus,
            cpu_time_ns=0,
            generation=GENERATION,
            isolation=Isolation.NONE,
            cpu_weight=SHARES,
        )

    def advance(self, loads: Mapping[str, float]) -> None:
        """One second. `loads`: by latency-critical server."""
        self.now_s += 1
        needed = {
            uuid: needed_cores(one.socket.figures, loads[uuid])
            for uuid, one in self.serving.items()
        }
        used = self._work(sum(needed.values()))
        for uuid, one in self.serving.items():
            socket = one.socket
            socket.others_cores = sum(needed.values()) - needed[uuid]
            socket.quota_cores, socket.weight_ratio = used, LEAST_WEIGHT_RATIO
            socket.advance(loads[uuid])
            socket.advance(loads[uuid])
            if self.now_s < one.silent_from_s:
                one.told = LatencyReport(socket.latency_ms, socket.offered_rps, float(self.now_s))
            self._ran(uuid, socket.lc_core_s, 0.0, 0.0)

    def _work(self, needed: float) -> float:
        """What all best-effort servers use together."""
        wants = {
            uuid: one.busy_vcpus * min(self.guests_by_uuid[uuid].quota.cores, one.wanted_ratio)
            for uuid, one in self.working.items()
        }
        most = max(self.figures.lc_cores - needed, self.figures.lc_cores * LEAST_WEIGHT_RATIO)
        share = min(1.0, most / max(sum(wants.values()), 1e-9))
        for uuid, one in self.working.items():
            one.core_s += share * wants[uuid]
            one.waited_s += (1.0 - share) * wants[uuid]
            one.denied_s += one.busy_vcpus * one.wanted_ratio - wants[uuid]
            self._ran(uuid, one.core_s, one.denied_s, one.waited_s)
        return share * sum(wants.values())

    def _ran(self, uuid: str, ran_s: float, denied_s: float, waited_s: float) -> None:
        ran, denied, delay = (int(one * 1e9) for one in (ran_s, denied_s, denied_s + waited_s))
        times = CpuTimes(ran, delay, denied, GENERATION) if self.has_kernel_times else None
        guest = self.guests_by_uuid[uuid]
        self.guests_by_uuid[uuid] = guest._replace(cpu_time_ns=ran, cpu_times=times)

    @property
    def guests(self) -> "SharedSocket":
        return self

    @property
    def counters(self) -> "_Counters":
        return _Counters(self)

    @property
    def actuator(self) -> "SharedSocket":
        return self

    def topology(self) -> Topology:
        return self._topology

    def latency_reports(self) -> Mapping[str, LatencyReport]:
        return {
            uuid: one.told._replace(age_s=self.now_s - one.told.age_s)
            for uuid, one in self.serving.items()
            if one.told is not None
        }

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        guest = self.guests_by_uuid[guest_uuid]
        if knob is Knob.CPU_CAP:
            assert isinstance(value, Quota)
            self.guests_by_uuid[guest_uuid] = guest._replace(quota=value)
        else:
            assert isinstance(value, CpuWeight), f"this model has no {knob.value} to turn"
            self.guests_by_uuid[guest_uuid] = guest._replace(cpu_weight=value)


@dataclass(frozen=True)
class _Counters:
    host: SharedSocket
    name: str = "shared-socket"

    def read(self, threads: Iterable[VcpuThreads]) -> Mapping[str, Reading]:
        found = {}
        for uuid, one in self.host.serving.items():
            # A request is some thousand instructions.
            socket, vcpus = one.socket, self.host.guests_by_uuid[uuid].vcpus
            found[uuid] = self._reading(
                1000 * socket.instructions, 1000 * socket.cycles, vcpus, vcpus
            )
        for uuid, work in self.host.working.items():
            done = work.core_s * BE_INSTRUCTIONS_PER_CORE_S
            vcpus = self.host.guests_by_uuid[uuid].vcpus
            found[uuid] = self._reading(done, done, vcpus, work.busy_vcpus, work.mpki)
        return found

    def _reading(
        self, instructions: float, cycles: float, vcpus: int, busy_vcpus: int, mpki: float = 0.0
    ) -> Reading:
        misses = int(instructions * mpki / 1000)
        each = tuple((n < busy_vcpus) * int(cycles / busy_vcpus) for n in range(vcpus))
        return Reading(
            instructions=int(instructions),
            cycles=int(cycles),
            llc_references=2 * misses,
            llc_misses=misses,
            llc_misses_remote=0,
            vcpus_read=vcpus,
            running_ratio=1.0,
            generation=GENERATION,
            vcpu_cycles=each if self.host.tells_vcpus else (),
        )
