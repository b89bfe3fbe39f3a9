# SPDX-License-Identifier: Apache-2.0
"""Applications on modelled servers: tiers with sessions, phases up to barriers, streams, a web
server whose clients give up. Each is one object whose processes run until the simulation ends.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import simpy

from vp_sim.overlay.scheduler import Cpus, Vm

Process = simpy.events.ProcessGenerator
SPIN_S = 0.0005
"""CPU between two looks of a thread that waits without sleeping."""


@dataclass(frozen=True, slots=True)
class Request:
    """One that was answered."""

    kind: str
    at_s: float
    took_s: float


@dataclass
class Tiers:
    """Sessions that pause, ask, and wait for the answer."""

    cpus: Cpus
    dice: Random
    vms: Sequence[Vm]
    host: Vm
    host_ms: float
    demands_ms: dict[str, Sequence[float]]
    """Of each kind of request, by server. The first kind begins as the frequent one."""
    think_s: float
    phase_s: float
    frequent_ratio: float
    answered: list[Request] = field(default_factory=list)
    seen: Callable[[str], None] = lambda kind: None
    """Called with the kind of each request that arrives."""

    def begin(self, sessions: int) -> None:
        for _ in range(sessions):
            self.cpus.env.process(self._session())

    def _session(self) -> Process:
        env, dice = self.cpus.env, self.dice
        yield env.timeout(dice.uniform(0.0, self.think_s))
        while True:
            kind, began_s = self._kind(), env.now
            self.seen(kind)
            yield self.cpus.compute(self.host, dice.expovariate(1000 / self.host_ms))
            for vm, ms in zip(self.vms, self.demands_ms[kind], strict=True):
                yield self.cpus.compute(vm, dice.expovariate(1000 / ms))
            self.answered.append(Request(kind, env.now, env.now - began_s))
            yield env.timeout(dice.expovariate(1 / self.think_s))

    def _kind(self) -> str:
        first, second = self.demands_ms
        is_first = (self.cpus.env.now // self.phase_s) % 2 == 0
        frequent, rare = (first, second) if is_first else (second, first)
        return frequent if self.dice.random() < self.frequent_ratio else rare


@dataclass
class Parallel:
    """Threads of several servers that compute up to a barrier, again and again; then they rest."""

    cpus: Cpus
    dice: Random
    vms: Sequence[Vm]
    thread_s: float
    """CPU of each thread up to the barrier."""
    noise_ratio: float
    phases: int
    rest_s: float = 0.0
    begin_s: float = 0.0
    spins: bool = False
    """A thread that waits for others computes meanwhile, as MPI's do."""
    ended_at_s: float | None = None
    is_over: simpy.Event = field(init=False)
    arriving: Callable[[], None] = lambda: None
    """Called at the begin of each phase."""

    def __post_init__(self) -> None:
        self.is_over = self.cpus.env.event()

    def begin(self) -> None:
        self.cpus.env.process(self._run())

    def _run(self) -> Process:
        env = self.cpus.env
        yield env.timeout(self.begin_s)
        for _ in range(self.phases):
            self.arriving()
            computed = [
                (vm, self.cpus.compute(vm, self._noisy(self.thread_s))) for vm in self._threads()
            ]
            barrier = env.all_of([event for _, event in computed])
            if self.spins:
                for vm, event in computed:
                    env.process(self._spin(vm, event, barrier))
            yield barrier
            yield env.timeout(self._noisy(self.rest_s))
        self.ended_at_s = env.now - self.begin_s
        self.is_over.succeed()

    def _spin(self, vm: Vm, arrived: simpy.Event, barrier: simpy.Event) -> Process:
        yield arrived
        while not barrier.triggered:
            yield self.cpus.compute(vm, SPIN_S)

    def _threads(self) -> Sequence[Vm]:
        return [vm for vm in self.vms for _ in range(vm.vcpus)]

    def _noisy(self, seconds: float) -> float:
        return seconds * self.dice.uniform(1 - self.noise_ratio, 1 + self.noise_ratio)


@dataclass
class Player:
    """Decodes a stream as it comes; what its buffer cannot hold is lost."""

    cpus: Cpus
    dice: Random
    vm: Vm
    frame_ms: float
    offered_fps: float | None = None
    """None: from its disk, as fast as it can."""
    frame_kib: float = 0.0
    buffer_kib: float = 0.0
    waiting_kib: float = 0.0
    decoded: int = 0
    lost: int = 0
    arrived: Callable[[], None] = lambda: None
    """Called with each frame that arrives."""

    def begin(self) -> None:
        env = self.cpus.env
        if self.offered_fps is None:
            env.process(self._play())
            return
        frames = simpy.Store(env)
        env.process(self._receive(frames))
        env.process(self._decode(frames))

    def _play(self) -> Process:
        while True:
            yield self.cpus.compute(self.vm, self._frame_s())
            self.decoded += 1

    def _receive(self, frames: simpy.Store) -> Process:
        while True:
            yield self.cpus.env.timeout(1 / (self.offered_fps or 1.0))
            if self.waiting_kib + self.frame_kib > self.buffer_kib:
                self.lost += 1
            else:
                self.waiting_kib += self.frame_kib
                frames.put(None)
            self.arrived()

    def _decode(self, frames: simpy.Store) -> Process:
        while True:
            yield frames.get()
            yield self.cpus.compute(self.vm, self._frame_s())
            self.waiting_kib -= self.frame_kib
            self.decoded += 1

    def _frame_s(self) -> float:
        return self.frame_ms / 1000 * self.dice.uniform(0.8, 1.2)


@dataclass
class WebServer:
    """Requests come whether it keeps up or not. A client that waits too long goes away, and the
    server answers it none the less. One that is turned away has cost it a handshake."""

    cpus: Cpus
    dice: Random
    vm: Vm
    request_ms: float
    refused_ms: float
    per_s: float
    timeout_s: float
    backlog: int
    accepted: int = 0
    served_at_s: list[float] = field(default_factory=list)

    def begin(self) -> None:
        self.cpus.env.process(self._arrive())

    def _arrive(self) -> Process:
        while True:
            yield self.cpus.env.timeout(self.dice.expovariate(self.per_s))
            if self.accepted < self.backlog:
                self.accepted += 1
                self.cpus.env.process(self._serve())
            else:
                self.cpus.compute(self.vm, self.refused_ms / 1000)

    def _serve(self) -> Process:
        env, began_s = self.cpus.env, self.cpus.env.now
        yield self.cpus.compute(self.vm, self.dice.expovariate(1000 / self.request_ms))
        self.accepted -= 1
        if env.now - began_s <= self.timeout_s:
            self.served_at_s.append(env.now)
