# SPDX-License-Identifier: Apache-2.0
"""Builders for core tests: a host whose guests run at rates the test sets, and a clock it moves.

The host does what the decision says (placements change), so that closed-loop stories can be told
in virtual time. Who hurts whom is the test's own table, never the model under test.
"""

from dataclasses import dataclass, field, replace

from nova_vp.core.memory import Memory, confirm
from nova_vp.core.model import (
    Applied,
    Decision,
    Guest,
    Isolation,
    LlcDomain,
    Mode,
    Outcome,
    Picture,
    Policy,
    Reading,
    Result,
    Topology,
    Unmanaged,
)
from nova_vp.core.step import step

MILLION = 1e6


@dataclass(frozen=True)
class Rates:
    """How a guest runs: instructions per second, misses per 1000 instructions, cycles each."""

    mips: float
    l2_mpki: float = 0.0
    mpki: float = 0.0
    cpi: float = 1.0
    cores: float = 0.3


COMPUTE = Rates(mips=50, l2_mpki=0.01, cpi=1.0)
CHASE = Rates(mips=16, l2_mpki=77.0, mpki=0.1, cpi=3.7)
CHASE_HURT = Rates(mips=4, l2_mpki=77.0, mpki=67.0, cpi=14.0)
STREAM = Rates(mips=30, l2_mpki=45.0, mpki=45.0, cpi=1.9)


def two_sockets(cpus: int = 1) -> Topology:
    return Topology(
        (
            LlcDomain(0, 0, frozenset(range(cpus))),
            LlcDomain(1, 1, frozenset(range(cpus, 2 * cpus))),
        )
    )


def uuid_of(name: str) -> str:
    return f"00000000-0000-0000-0000-{sum(map(ord, name)):012d}"


@dataclass
class Host:
    topology: Topology = field(default_factory=two_sockets)
    policy: Policy = field(default_factory=Policy)
    mode: Mode = Mode.ENFORCE
    now_s: float = 1000.0
    memory: Memory = field(default_factory=Memory)
    guests: dict[str, Guest] = field(default_factory=dict)
    rates: dict[str, Rates] = field(default_factory=dict)
    counts: dict[str, Reading] = field(default_factory=dict)
    applied: dict[str, Applied] = field(default_factory=dict)
    approved: frozenset[str] = frozenset()
    outcomes: list[Outcome] = field(default_factory=list)
    refuse: bool = False

    def add(
        self,
        name: str,
        rates: Rates,
        cpus: set[int] | None = None,
        vcpus: int = 1,
        isolation: Isolation = Isolation.NONE,
        unmanaged: Unmanaged | None = None,
    ) -> str:
        uuid = uuid_of(name)
        allowed = self.topology.cpus
        self.guests[uuid] = Guest(
            uuid=uuid,
            domain_name=f"instance-{name}",
            name=name,
            project_id="p1",
            flavor="f1",
            vcpus=vcpus,
            memory_kib=98304,
            allowed_cpus=allowed,
            placement=frozenset(cpus) if cpus is not None else allowed,
            cpu_time_ns=0,
            generation="1",
            isolation=isolation,
            unmanaged=unmanaged,
        )
        self.rates[uuid] = rates
        self.counts[uuid] = Reading(0, 0, 0, 0, 0, vcpus, 1.0, "1")
        return uuid

    def run(self, name: str, rates: Rates) -> None:
        self.rates[uuid_of(name)] = rates

    def change(self, name: str, **values: object) -> None:
        uuid = uuid_of(name)
        self.guests[uuid] = replace(self.guests[uuid], **values)

    def placement(self, name: str) -> set[int]:
        return set(self.guests[uuid_of(name)].placement)

    def pass_time(self, span_s: float) -> None:
        self.now_s += span_s
        for uuid, rates in self.rates.items():
            self._count(uuid, rates, span_s)

    def _count(self, uuid: str, rates: Rates, span_s: float) -> None:
        instructions = rates.mips * MILLION * span_s
        old = self.counts[uuid]
        self.counts[uuid] = replace(
            old,
            instructions=old.instructions + round(instructions),
            cycles=old.cycles + round(instructions * rates.cpi),
            llc_references=old.llc_references + round(instructions * rates.l2_mpki / 1000),
            llc_misses=old.llc_misses + round(instructions * rates.mpki / 1000),
        )
        guest = self.guests[uuid]
        cpu_time_ns = guest.cpu_time_ns + round(rates.cores * span_s * 1e9)
        self.guests[uuid] = replace(guest, cpu_time_ns=cpu_time_ns)

    def tick(self, span_s: float = 1.0) -> Decision:
        """One second passes; the decision is carried out."""
        self.pass_time(span_s)
        picture = Picture(
            at_s=self.now_s,
            mode=self.mode,
            topology=self.topology,
            guests=tuple(self.guests.values()),
            readings=dict(self.counts),
            applied=dict(self.applied),
            approved=self.approved,
        )
        self.memory, decision = step(self.memory, picture, self.policy)
        outcomes = [self._apply(action) for action in decision.actions]
        self.memory = confirm(self.memory, outcomes)
        self.outcomes += outcomes
        return decision

    def _apply(self, action) -> Outcome:
        if self.refuse:
            return Outcome(action, Result.FAILED, self.now_s, "the host refused")
        guest = self.guests[action.guest_uuid]
        self.applied[action.guest_uuid] = Applied(
            action.guest_uuid,
            action.cpus,
            action.original_cpus,
            action.controller,
            action.id,
            epoch=1,
        )
        self.guests[action.guest_uuid] = replace(guest, placement=action.cpus)
        return Outcome(action, Result.APPLIED, self.now_s)

    def ticks(self, count: int) -> list[Decision]:
        return [self.tick() for _ in range(count)]

    def view(self, name: str, decision: Decision):
        return next(v for v in decision.vps if v.guest.name == name)
