# SPDX-License-Identifier: Apache-2.0
"""CPUs and servers for the benchmark of overlays: who gets how much of which CPU, and how far that
brings its work.

A fluid model: in each tenth of a second every CPU is shared by weight among the servers that may
run there, within their quotas and threads; what one cannot use goes to the others. It knows nothing
of islands or overlays. A server computes in parallel phases, each up to a barrier, with a rest
between them in which one thread does little.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from nova_vp.core.types.cpu_time import CpuTimes
from nova_vp.core.types.knob import CpuWeight
from tests.unit.core.build import Host, Rates

STEP_S = 0.1
ROUNDS = 12
NS = 1_000_000_000
MIPS_PER_CORE = 1000.0
REST_CORES = 0.2


@dataclass
class Work:
    """Of one server."""

    threads: int
    core_s: float
    """Of each parallel phase."""
    rest_s: float
    phases: int
    """0: it never ends."""
    left_core_s: float = 0.0
    resting_s: float = 0.0
    done: int = 0
    ended_at_s: float | None = None
    used_core_s: float = 0.0
    """Since the last second began, as the next two."""
    waited_core_s: float = 0.0
    throttled_core_s: float = 0.0

    @property
    def wanted_cores(self) -> float:
        if self.ended_at_s is not None:
            return 0.0
        return float(self.threads) if self.left_core_s > 0.0 else REST_CORES

    def go_on(self, cores: float, now_s: float, dice: Random) -> None:
        if self.ended_at_s is not None:
            return
        if self.left_core_s > 0.0:
            self.left_core_s -= cores * STEP_S
            if self.left_core_s <= 0.0:
                self.done += 1
                self.resting_s = self.rest_s * dice.uniform(0.8, 1.2)
                if self.done == self.phases:
                    self.ended_at_s = now_s
            return
        self.resting_s -= STEP_S
        if self.resting_s <= 0.0:
            self.left_core_s = self.core_s * dice.uniform(0.8, 1.2)


@dataclass
class Machine:
    """The physics of a `Host`: give it as its rule."""

    dice: Random
    works: dict[str, Work] = field(default_factory=dict)
    """By the server's name."""
    used: list[float] = field(default_factory=list)
    """Cores that all used, by second."""

    def __call__(self, host: Host) -> None:
        steps = round(1 / STEP_S)
        for step in range(steps):
            now_s = host.now_s - 1.0 + (step + 1) * STEP_S
            given = shared(host, {name: one.wanted_cores for name, one in self.works.items()})
            for name, work in self.works.items():
                self._account(host, work, name, given[name])
                work.go_on(given[name], now_s, self.dice)
        self.used.append(sum(work.used_core_s for work in self.works.values()))
        for name, work in self.works.items():
            self._tell(host, name, work)

    def _account(self, host: Host, work: Work, name: str, cores: float) -> None:
        guest = host.guest(name)
        may = min(work.wanted_cores, guest.quota.cores * min(work.threads, guest.vcpus))
        work.used_core_s += cores * STEP_S
        work.waited_core_s += max(may - cores, 0.0) * STEP_S
        work.throttled_core_s += max(work.wanted_cores - may, 0.0) * STEP_S

    def _tell(self, host: Host, name: str, work: Work) -> None:
        """What counters and the kernel would say of the last second."""
        before = host.guest(name).cpu_times or CpuTimes(0, 0, 0, "1")
        now = CpuTimes(
            before.ran_ns + round(work.used_core_s * NS),
            before.run_delay_ns + round((work.waited_core_s + work.throttled_core_s) * NS),
            before.throttled_ns + round(work.throttled_core_s * NS),
            "1",
        )
        host.change(name, cpu_times=now)
        host.run(name, Rates(mips=MIPS_PER_CORE * work.used_core_s, cores=work.used_core_s))
        work.used_core_s = work.waited_core_s = work.throttled_core_s = 0.0


def shared(host: Host, wanted: dict[str, float]) -> dict[str, float]:
    """Cores by server."""
    given = dict.fromkeys(wanted, 0.0)
    left = dict.fromkeys(host.topology.cpus, 1.0)
    most = {
        name: min(cores, host.guest(name).quota.cores * host.guest(name).vcpus)
        for name, cores in wanted.items()
    }
    for _ in range(ROUNDS):
        hungry = [name for name in wanted if most[name] - given[name] > 1e-6]
        asks = {name: _asks(host, name, left, most[name] - given[name]) for name in hungry}
        for cpu, room in left.items():
            here = {name: asks[name][cpu] for name in hungry if cpu in asks[name]}
            for name, cores in _by_weight(host, here, room).items():
                given[name] += cores
                left[cpu] -= cores
    return given


def _asks(host: Host, name: str, left: dict[int, float], cores: float) -> dict[int, float]:
    """What it asks of each CPU that it may use and that has some left, in step."""
    cpus = [cpu for cpu in host.guest(name).placement if left[cpu] > 1e-6]
    room = sum(left[cpu] for cpu in cpus)
    return {cpu: cores * left[cpu] / room for cpu in cpus}


def _by_weight(host: Host, asked: dict[str, float], room: float) -> dict[str, float]:
    if sum(asked.values()) <= room:
        return asked
    weights = {name: asked[name] * host.guest(name).cpu_weight.number for name in asked}
    total = sum(weights.values())
    return {name: min(asked[name], room * weight / total) for name, weight in weights.items()}


def add(
    host: Host, machine: Machine, name: str, cpus: set[int], work: Work, **about: object
) -> None:
    told = {"cap_floor_ratio": 0.1, "cpu_weight": CpuWeight(100), **about}
    host.add(name, Rates(mips=0, cores=0.0), cpus, vcpus=work.threads, **told)
    machine.works[name] = work


def finished(host: Host, machine: Machine, names: Sequence[str], most_s: int) -> Iterator[float]:
    """Seconds after which each had done its work. The host ticks until all have."""
    began_s = host.now_s
    for _ in range(most_s):
        host.tick()
        if all(machine.works[name].ended_at_s is not None for name in names):
            break
    for name in names:
        ended_s = machine.works[name].ended_at_s
        yield most_s if ended_s is None else ended_s - began_s
