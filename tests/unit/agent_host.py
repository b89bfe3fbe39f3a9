# SPDX-License-Identifier: Apache-2.0
"""A whole agent on a host in memory: real loop, real core, fake drivers, a clock the test moves."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from nova_vp.core.types.action import Outcome
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.policy import Mode, Policy
from tests.policies import a_policy
from tests.unit.core.build import CHASE, CHASE_HURT, COMPUTE, STREAM, Rates
from vp_agent.drivers.counters_fake import FakeCounters, VcpuCounts
from vp_agent.drivers.fake import FakeActuator, FakeGuests, FakeHost, FakeJournal
from vp_agent.drivers.fake_balloon import FakeBalloon
from vp_agent.drivers.fake_emulator import FakeEmulatorWeights
from vp_agent.drivers.memory_fake import FakeMover
from vp_agent.drivers.reserving_journal import ReservingJournal
from vp_agent.loop.command_handler import CommandHandler
from vp_agent.loop.executor import Executor
from vp_agent.loop.picture import OwnHost
from vp_agent.loop.recorder import Recorder
from vp_agent.loop.state import StateFolder, StateKeeper
from vp_agent.loop.tick import Agent, Cluster, Tally
from vp_agent.wiring import by_knob


@dataclass
class Heard:
    """A publisher that keeps what it was given."""

    decisions: list[Decision] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)

    def publish(self, decision: Decision, outcomes: Iterable[Outcome]) -> None:
        self.decisions.append(decision)
        self.outcomes += outcomes

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class World:
    """The host, and one agent after the other on it."""

    folder: Path
    host: FakeHost = field(default_factory=FakeHost)
    counters: FakeCounters = field(default_factory=FakeCounters)
    rates: dict[str, Rates] = field(default_factory=dict)
    policy: Policy = field(default_factory=a_policy)
    mode: Mode | None = Mode.ENFORCE
    now_s: float = 1000.0
    heard: Heard = field(default_factory=Heard)
    record_max_bytes: int = 1 << 30
    cluster: Cluster | None = None
    tally: Tally | None = None

    def boot(self, rates: Rates, **about: object) -> str:
        uuid = self.host.boot(vcpus=1, **about)
        self.counters.start(uuid, 1, self.host.guests[uuid].guest.generation)
        self.rates[uuid] = rates
        return uuid

    def start_agent(self, journal=None, actuator=None) -> Agent:
        state = StateFolder(str(self.folder))
        earlier_epochs, epoch = state.epochs(), state.next_epoch()
        journal = ReservingJournal(journal or FakeJournal(self.host), epoch)
        actuator = actuator or FakeActuator(self.host)
        self.mover, self.balloon = FakeMover(self.host), FakeBalloon(self.host)
        self.emulator = FakeEmulatorWeights(self.host)
        turning = by_knob(actuator, self.mover, self.balloon, self.emulator)
        self.control = CommandHandler(state, self.mode)
        self.recorder = Recorder("here", self.record_max_bytes)
        self.agent = Agent(
            OwnHost(
                guests=FakeGuests(self.host),
                counters=self.counters,
                memory=self.mover,
                balloon=self.balloon,
                journal=journal,
                executor=Executor(journal, turning, epoch),
                epoch=epoch,
                earlier_epochs=earlier_epochs,
            ),
            self.control,
            self.heard,
            StateKeeper(state),
            self.policy,
            state.remembered(time.time()),
            self.recorder,
            self.cluster,
            self.tally,
        )
        return self.agent

    def tick(self, count: int = 1) -> Decision:
        for _ in range(count):
            self.now_s += 1
            for uuid, rates in self.rates.items():
                self.counters.add(uuid, counts(rates))
            decision = self.agent.tick(self.now_s)
        return decision

    def placement(self, uuid: str) -> set[int]:
        return set(self.host.guests[uuid].guest.placement)

    def is_untouched(self, uuid: str) -> bool:
        entry = self.host.guests[uuid]
        return entry.journal is None and entry.guest.placement == entry.guest.allowed_cpus


def counts(rates: Rates) -> VcpuCounts:
    instructions = round(rates.mips * 1e6)
    return VcpuCounts(
        instructions=instructions,
        cycles=round(instructions * rates.cpi),
        llc_references=round(instructions * rates.l2_mpki / 1000),
        llc_misses_local=round(instructions * rates.mpki / 1000),
    )


def a_hurt_pair(world: World) -> tuple[str, str]:
    """A victim and a neighbour beside each other, the neighbour just turned to stream."""
    world.policy = replace(world.policy, moves_per_minute=world.policy.moves_per_minute)
    filler = world.boot(COMPUTE)
    victim, neighbour = world.boot(CHASE), world.boot(COMPUTE)
    home = world.host.topology.domains[0].cpus
    for uuid in (victim, neighbour):
        world.host.change(uuid, allowed_cpus=world.host.topology.cpus, placement=home)
    world.host.change(filler, placement=world.host.topology.domains[1].cpus)
    world.tick(6)
    world.rates[neighbour] = STREAM
    world.rates[victim] = CHASE_HURT
    return victim, neighbour
