# SPDX-License-Identifier: Apache-2.0
"""Modelled CPUs behind the drivers of a real host, and the agent's core on them. It ticks every
second, answers calls at once, and takes back at once what has ended.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast
from uuid import UUID

from nova_vp.controllers import with_controllers
from nova_vp.core.types.cpu_time import CpuTimes
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.island import Island
from nova_vp.core.types.knob import Cpus as Placement
from nova_vp.core.types.knob import CpuWeight, Knob, Quota, Value, all_cpus
from nova_vp.core.types.overlay import Call, Nack, Overlay
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.sample import Reading
from nova_vp.core.types.topology import LlcDomain, Topology
from nova_vp.monitors.base import Monitor, Wanted, make_in_order
from vp_agent.drivers.base import VcpuThreads
from vp_sim.overlay.applications import Process
from vp_sim.overlay.scheduler import Cpus, Vm
from vp_sim.overlay.setups import Setup
from vp_sim.plain_host import GENERATION, PlainHost
from vp_sim.policies.core import CorePolicy

CPI = 1.0
"""No result depends on it: nobody here shares a cache."""
HZ = 2_000_000_000
NS = 1_000_000_000
FLOOR_RATIO = 0.1
SHARED_S = 1e-6


def uuid_of(name: str) -> str:
    return str(UUID(name.encode().ljust(16, b"\0").hex()))


@dataclass(slots=True, kw_only=True)
class OverlayHost(PlainHost):
    """All drivers of one host in one object."""

    cpus: Cpus
    islands: Mapping[str, frozenset[int]]
    unseen: frozenset[str] = frozenset()
    """Names of what are no servers: the host's own threads."""
    vms: dict[str, Vm] = field(init=False)
    """By UUID."""

    def __post_init__(self) -> None:
        seen = (vm for vm in self.cpus.vms.values() if vm.name not in self.unseen)
        self.vms = {uuid_of(vm.name): vm for vm in seen}
        allowed = frozenset().union(*self.islands.values())
        self.guests_by_uuid = {uuid: _guest(uuid, vm, allowed) for uuid, vm in self.vms.items()}

    def topology(self) -> Topology:
        """An LLC for each island."""
        return Topology(
            tuple(LlcDomain(n, n, cpus) for n, cpus in enumerate(self.islands.values()))
        )

    @property
    def guests(self) -> "OverlayHost":
        return self

    @property
    def counters(self) -> "_Counters":
        return _Counters(self.vms)

    @property
    def actuator(self) -> "OverlayHost":
        return self

    def read(self) -> tuple[Guest, ...]:
        now_s = self.cpus.env.now
        for uuid, vm in self.vms.items():
            vm.count(now_s)
            throttled_ns = round(vm.throttled_s * NS)
            times = CpuTimes(
                round(vm.ran_s * NS),
                round(vm.waited_s * NS) + throttled_ns,
                throttled_ns,
                GENERATION,
            )
            self.guests_by_uuid[uuid] = self.guests_by_uuid[uuid]._replace(
                cpu_times=times, cpu_time_ns=times.ran_ns
            )
        return tuple(self.guests_by_uuid.values())

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        guest, vm = self.guests_by_uuid[guest_uuid], self.vms[guest_uuid]
        if knob is Knob.PLACEMENT:
            cpus = all_cpus(cast(Placement, value))
            guest = guest._replace(placement=cpus)
            self.cpus.change(vm, cpus=cpus)
        elif knob is Knob.CPU_CAP:
            guest = guest._replace(quota=cast(Quota, value))
            self.cpus.change(vm, quota_cores=guest.quota.cores)
        else:
            guest = guest._replace(cpu_weight=cast(CpuWeight, value))
            self.cpus.change(vm, weight=float(guest.cpu_weight.number))
        self.guests_by_uuid[guest_uuid] = guest


@dataclass(frozen=True, slots=True)
class _Counters:
    vms: Mapping[str, Vm]
    name: str = "overlay-model"

    def read(self, threads: Iterable[VcpuThreads]) -> Mapping[str, Reading]:
        found = {}
        for uuid, vm in self.vms.items():
            cycles = round(vm.ran_s * HZ)
            found[uuid] = Reading(round(cycles / CPI), cycles, 0, 0, 0, vm.vcpus, 1.0, GENERATION)
        return found


def _guest(uuid: str, vm: Vm, allowed: frozenset[int]) -> Guest:
    return Guest(
        uuid=uuid,
        domain_name=f"instance-{vm.name}",
        name=vm.name,
        project_id="0" * 32,
        flavor="sim",
        vcpus=vm.vcpus,
        memory_kib=1 << 20,
        allowed_cpus=allowed,
        placement=vm.cpus,
        cpu_time_ns=0,
        generation=GENERATION,
        cap_floor_ratio=FLOOR_RATIO,
        quota=Quota(round(vm.quota_cores * 100_000)) if vm.quota_cores < 1.0 else Quota(),
        cpu_weight=CpuWeight(round(vm.weight)),
    )


class Coordinated:
    """The agent's core with `overlays` alone, on the CPUs of a setup."""

    def __init__(
        self,
        setup: Setup,
        overlays: Sequence[Overlay] = (),
        knobs: frozenset[Knob] | None = None,
        host_cap_cores: float | None = None,
        unseen: frozenset[str] = frozenset(),
    ) -> None:
        self.setup = setup
        self.host = OverlayHost(cpus=setup.cpus, islands=setup.islands, unseen=unseen)
        self.host.knobs = self.host.knobs if knobs is None else knobs
        islands = tuple(Island(name, cpus) for name, cpus in setup.islands.items())
        policy = replace(
            with_controllers(Policy(), ("overlays",)),
            islands=islands,
            host_cap_cores=host_cap_cores,
        )
        known = {one.id: one for one in overlays}
        self.core = CorePolicy(self.host, policy, overlays=known)
        self._calls = 0
        setup.env.process(self._tick())

    def _tick(self) -> Process:
        env = self.setup.env
        while True:
            self.core.tick(env.now)
            next_s = env.now + 1.0
            while (end_s := self.core.next_end_s) is not None and env.now < end_s < next_s:
                yield env.timeout(end_s - env.now + SHARED_S)
                self.core.answer((), env.now)
            yield env.timeout(max(next_s - env.now, SHARED_S))

    def call(self, overlay_id: str, wanted: Sequence[Wanted]) -> list[Nack | None]:
        """In this order; None: it was granted."""
        return self.call_together([(overlay_id, one) for one in wanted])

    def call_together(self, wanted: Sequence[tuple[str, Wanted]]) -> list[Nack | None]:
        """Calls of several overlays, each by its id, that arrive at one time."""
        calls = [self._call_of(overlay_id, one) for overlay_id, one in wanted]
        answers = {one.call_id: one.nack for one in self.core.answer(calls, self.setup.env.now)}
        return [answers[call.id] for call in calls]

    def _call_of(self, overlay_id: str, wanted: Wanted) -> Call:
        self._calls += 1
        return Call(
            id=f"call-{self._calls}",
            overlay_id=overlay_id,
            verb=wanted.verb,
            resource=wanted.resource,
            direction=wanted.direction,
            guest_uuid=uuid_of(wanted.server) if wanted.server else "",
            cpus=wanted.cpus,
            island=wanted.island,
            lease_s=wanted.lease_s,
        )

    def serve(self, overlay_id: str, monitor: Monitor) -> None:
        """Make the calls that it wants now."""
        make_in_order(
            monitor,
            monitor.wanted(self.setup.env.now),
            lambda wanted: self.call(overlay_id, [wanted])[0],
            lambda: self.setup.env.now,
        )


def overlay_of(
    setup: Setup,
    vms: Iterable[Vm] | None = None,
    name: str = "application",
    **about: Any,
) -> Overlay:
    members = frozenset(uuid_of(vm.name) for vm in (setup.overlay if vms is None else vms))
    return Overlay(name, name, "0" * 32, members, **about)
