# SPDX-License-Identifier: Apache-2.0
"""CPUs that servers share in slices of time, as a discrete-event model (SimPy).

Each CPU runs one vCPU for a slice at most, then takes the server that has had least for its weight.
A thread goes on where it ran if it can. Away from its server's memory it takes longer.
Quotas are those of CFS bandwidth control. It knows nothing of islands, overlays or the agent.
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import simpy

SLICE_S = 0.03
"""Of the source's scheduler (thesis 2013, 4.4)."""
PERIOD_S = 0.1
SWITCH_S = 2e-6
"""For so long a CPU is nobody's after a slice; a vCPU whose thread goes on at once is ready by
then."""
NS = 1_000_000_000
_LEAST_S = 1e-9


@dataclass(slots=True)
class Job:
    """What one thread of a server has to compute."""

    left_s: float
    done: simpy.Event
    ready_at_s: float
    cpu: int | None = None
    """Where it ran last."""


@dataclass(slots=True, eq=False)
class Vm:
    name: str
    vcpus: int
    cpus: frozenset[int]
    """Where its vCPUs may run."""
    weight: float = 100.0
    quota_cores: float = 1.0
    """Of each vCPU."""
    near: frozenset[int] | None = None
    """The CPUs of the NUMA node that has its memory. None: no CPU is remote."""
    remote_slowdown_ratio: float = 1.0
    """By how much longer it computes on any other CPU."""
    ready: deque[Job] = field(default_factory=deque)
    running: int = 0
    passed: float = 0.0
    """What it has had for its weight."""
    budget_s: float = math.inf
    """Of its quota, in this period."""
    ran_s: float = 0.0
    waited_s: float = 0.0
    throttled_s: float = 0.0
    counted_at_s: float = 0.0

    @property
    def is_throttled(self) -> bool:
        return self.budget_s < _LEAST_S

    def slowdown_on(self, cpu: int) -> float:
        return 1.0 if self.near is None or cpu in self.near else self.remote_slowdown_ratio

    def next_job(self, cpu: int, now_s: float) -> Job:
        """The one that waits longest, or one that ran on this CPU if nobody waited before."""
        job = self.ready[0]
        if now_s - job.ready_at_s <= SWITCH_S:
            job = next((one for one in self.ready if one.cpu == cpu), job)
        self.ready.remove(job)
        return job

    def count(self, now_s: float) -> None:
        """What it got since it was counted last."""
        span_s, self.counted_at_s = now_s - self.counted_at_s, now_s
        self.ran_s += self.running * span_s
        without = span_s * (min(len(self.ready), self.vcpus - self.running))
        if self.is_throttled:
            self.throttled_s += without
        else:
            self.waited_s += without


class Cpus:
    def __init__(self, env: simpy.Environment, cpus: Iterable[int]) -> None:
        self.env = env
        self.vms: dict[str, Vm] = {}
        self._idle = sorted(cpus)

    def add(self, vm: Vm) -> Vm:
        self.vms[vm.name] = vm
        self.env.process(self._refill(vm))
        return vm

    def compute(self, vm: Vm, core_s: float) -> simpy.Event:
        """What happens once a thread of this server has had so much CPU."""
        job = Job(core_s, self.env.event(), self.env.now)
        vm.count(self.env.now)
        if not vm.ready and not vm.running:
            self._wake(vm)
        vm.ready.append(job)
        self._dispatch()
        return job.done

    def change(
        self,
        vm: Vm,
        cpus: frozenset[int] | None = None,
        weight: float | None = None,
        quota_cores: float | None = None,
    ) -> None:
        """From the next slice on."""
        vm.count(self.env.now)
        vm.cpus = vm.cpus if cpus is None else cpus
        vm.weight = vm.weight if weight is None else weight
        if quota_cores is not None:
            was, vm.quota_cores = vm.quota_cores, quota_cores
            budget_s = _budget_s(vm)
            vm.budget_s = budget_s if was >= 1.0 else min(vm.budget_s, budget_s)
            if quota_cores >= 1.0:
                vm.budget_s = math.inf
        self._dispatch()

    def _wake(self, vm: Vm) -> None:
        """Who slept has a slice in hand, and not all that it left to others."""
        others = [
            one.passed
            for one in self.vms.values()
            if one is not vm and (one.ready or one.running) and one.cpus & vm.cpus
        ]
        if others:
            vm.passed = max(vm.passed, min(others) - SLICE_S / vm.weight)

    def _refill(self, vm: Vm) -> simpy.events.ProcessGenerator:
        while True:
            yield self.env.timeout(PERIOD_S)
            if vm.quota_cores < 1.0:
                vm.count(self.env.now)
                vm.budget_s = _budget_s(vm)
                self._dispatch()

    def _dispatch(self) -> None:
        hungry = [vm for vm in self.vms.values() if _may_run(vm)]
        if not hungry:
            return
        for cpu in list(self._idle):
            here = [vm for vm in hungry if cpu in vm.cpus and _may_run(vm)]
            if here:
                self._idle.remove(cpu)
                self._run(cpu, min(here, key=lambda vm: (vm.passed, vm.name)))

    def _run(self, cpu: int, vm: Vm) -> None:
        vm.count(self.env.now)
        job, slowdown = vm.next_job(cpu, self.env.now), vm.slowdown_on(cpu)
        job.cpu = cpu
        slice_s = min(SLICE_S, job.left_s * slowdown, vm.budget_s)
        vm.running += 1
        vm.budget_s -= slice_s
        vm.passed += slice_s / vm.weight
        job.left_s -= slice_s / slowdown
        self.env.timeout(slice_s).callbacks.append(lambda _: self._end(cpu, vm, job))

    def _end(self, cpu: int, vm: Vm, job: Job) -> None:
        vm.count(self.env.now)
        vm.running -= 1
        if job.left_s < _LEAST_S:
            job.done.succeed()
        self.env.timeout(SWITCH_S).callbacks.append(lambda _: self._free(cpu, vm, job))

    def _free(self, cpu: int, vm: Vm, job: Job) -> None:
        """It looks for work before CPUs that are idle, so that its thread can go on."""
        if job.left_s >= _LEAST_S:
            vm.count(self.env.now)
            job.ready_at_s = self.env.now
            vm.ready.append(job)
        self._idle.insert(0, cpu)
        self._dispatch()


def _may_run(vm: Vm) -> bool:
    return bool(vm.ready) and vm.running < vm.vcpus and not vm.is_throttled


def _budget_s(vm: Vm) -> float:
    return math.inf if vm.quota_cores >= 1.0 else vm.quota_cores * vm.vcpus * PERIOD_S
