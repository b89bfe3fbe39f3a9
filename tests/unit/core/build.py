# SPDX-License-Identifier: Apache-2.0
"""Builders for core tests: a host whose guests run at rates the test sets, and a clock it moves.

The host does what the decision says (placements, caps, memory, partitions), so that closed-loop
stories can be told in virtual time. Who hurts whom is the test's own table, or its own rule over
places and caps, never the model under test.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from uuid import UUID

from nova_vp.core.overlay_step import answer_calls
from nova_vp.core.pipeline.confirm import confirm
from nova_vp.core.step import step
from nova_vp.core.types.action import Action, Change, Outcome, Renewal, Result
from nova_vp.core.types.cpu_time import HostCpuTimes
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.guest import Guest, Isolation, MemoryMove, Unmanaged
from nova_vp.core.types.knob import Applied, Held, Knob
from nova_vp.core.types.overlay import Call, Overlay
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Mode, Policy
from nova_vp.core.types.reason import Reason
from nova_vp.core.types.sample import Reading
from nova_vp.core.types.service_level import LatencyReport
from nova_vp.core.types.state import CoreState
from nova_vp.core.types.topology import Limits, LlcDomain, Topology
from tests.policies import a_policy

MILLION = 1e6


@dataclass(frozen=True)
class Rates:
    """How a guest runs: instructions per second, misses per 1000 instructions, cycles each, and
    the CPU that it would use. Where it gets less CPU, it runs so much slower."""

    mips: float
    l2_mpki: float = 0.0
    mpki: float = 0.0
    cpi: float = 1.0
    cores: float = 0.3
    busy_vcpus: int = 0
    """So many use it, the others idle; 0: all of them alike."""


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


def nodes_of(*nodes: int, cpus: int = 2, far: int = 20) -> Topology:
    """One LLC domain for each node number given: `nodes_of(0, 0, 1)` has three, on two nodes."""
    domains = tuple(
        LlcDomain(number, node, frozenset(range(number * cpus, (number + 1) * cpus)))
        for number, node in enumerate(nodes)
    )
    return Topology(
        domains,
        distances=tuple((a, b, 10 if a == b else far) for a in set(nodes) for b in set(nodes)),
    )


def hyper_threads(cores: int, is_side_by_side: bool = False) -> Topology:
    """Two nodes with so many cores each, of two CPUs each: numbered as Linux does, the first one of
    every core before all second ones; or the two of a core side by side."""

    def core(number: int) -> frozenset[int]:
        cpus = (2 * number, 2 * number + 1) if is_side_by_side else (number, number + 2 * cores)
        return frozenset(cpus)

    found = []
    for node in range(2):
        of_node = tuple(core(number) for number in range(node * cores, (node + 1) * cores))
        found.append(LlcDomain(node, node, frozenset().union(*of_node), of_node))
    return Topology(tuple(found))


ALL_KNOBS = frozenset({Knob.PLACEMENT, Knob.MEMORY, Knob.CPU_CAP})


def uuid_of(name: str) -> str:
    """Readable, in the order of the names, and no two names share one."""
    digits = name.encode().ljust(16, b"\0").hex()
    assert len(digits) == 32, f"at most 16 characters make a UUID: {name}"
    return str(UUID(digits))


@dataclass
class Host:
    topology: Topology = field(default_factory=two_sockets)
    policy: Policy = field(default_factory=a_policy)
    mode: Mode = Mode.ENFORCE
    now_s: float = 1000.0
    state: CoreState = field(default_factory=CoreState)
    guests: dict[str, Guest] = field(default_factory=dict)
    rates: dict[str, Rates] = field(default_factory=dict)
    counts: dict[str, Reading] = field(default_factory=dict)
    applied: dict[str, Applied] = field(default_factory=dict)
    approved: frozenset[str] = frozenset()
    revoked: frozenset[str] = frozenset()
    rejected: dict[str, str] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    refuse: bool = False
    knobs: frozenset[Knob] = frozenset({Knob.PLACEMENT})
    limits: Limits = field(default_factory=Limits)
    rule: Callable[["Host"], None] | None = None
    """The test's own physics: sets everybody's rates before each second passes."""
    copy_kib_per_s: float | None = None
    """How fast memory moves at most; None: at once."""
    memory_moves: dict[str, MemoryMove] = field(default_factory=dict)
    pace_kib_per_s: dict[str, float] = field(default_factory=dict)
    host_cpu: HostCpuTimes | None = None
    latency_reports: dict[str, LatencyReport] = field(default_factory=dict)
    overlays: dict[str, Overlay] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    """Answered by the next decision."""

    def add(
        self,
        name: str,
        rates: Rates,
        cpus: set[int] | None = None,
        vcpus: int = 1,
        isolation: Isolation = Isolation.NONE,
        unmanaged: Unmanaged | None = None,
        **fields: object,
    ) -> str:
        """Any other field of a guest may be given too; `node=0` puts all of its memory there."""
        uuid = uuid_of(name)
        allowed = self.topology.cpus
        node = fields.pop("node", None)
        guest = Guest(
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
        guest = guest._replace(**fields)
        if node is not None:
            guest = guest._replace(memory_by_node=((node, guest.memory_kib),))
        self.guests[uuid] = guest
        self.rates[uuid] = rates
        self.counts[uuid] = Reading(0, 0, 0, 0, 0, vcpus, 1.0, "1", (0,) * vcpus)
        return uuid

    def run(self, name: str, rates: Rates) -> None:
        self.rates[uuid_of(name)] = rates

    def change(self, name: str, **values: object) -> None:
        uuid = uuid_of(name)
        self.guests[uuid] = self.guests[uuid]._replace(**values)

    def placement(self, name: str) -> set[int]:
        return set(self.guests[uuid_of(name)].placement)

    def guest(self, name: str) -> Guest:
        return self.guests[uuid_of(name)]

    def nodes(self, name: str) -> set[int]:
        """Where its memory lies."""
        return {node for node, kib in self.guest(name).memory_by_node if kib}

    def cap_ratio(self, name: str) -> float:
        return self.guest(name).quota.cores

    def domains(self, name: str) -> set[int]:
        placement = self.placement(name)
        return {d.id for d in self.topology.domains if d.cpus & placement}

    def share_a_cache(self, name: str, other: str) -> bool:
        return bool(self.domains(name) & self.domains(other))

    def leave(self, name: str) -> None:
        uuid = uuid_of(name)
        for known in (self.guests, self.rates, self.counts, self.applied, self.memory_moves):
            known.pop(uuid, None)

    def pass_time(self, span_s: float) -> None:
        self.now_s += span_s
        self._end_leases()
        self._copy(span_s)
        if self.rule is not None:
            self.rule(self)
        for uuid, rates in self.rates.items():
            self._count(uuid, rates, span_s)

    def _end_leases(self) -> None:
        """What nobody renews goes back to Nova's value without the agent."""
        for uuid, applied in list(self.applied.items()):
            for held in applied.held:
                if held.until_s is not None and held.until_s < self.now_s:
                    back = Change(uuid, held.knob, held.original, held.value, held.original)
                    self.guests[uuid] = self.turned(self.guests[uuid], back)
                    self._journal(uuid, self.applied[uuid].without(held.knob))

    def _copy(self, span_s: float) -> None:
        """Memory under way comes nearer; what arrived is told as over once, as the agent does."""
        for uuid, move in list(self.memory_moves.items()):
            if move.is_over:
                del self.memory_moves[uuid]
                continue
            fastest = self.copy_kib_per_s or 0.0
            pace = min(fastest, self.pace_kib_per_s.get(uuid, fastest))
            kib = min(move.left_kib, round(pace * span_s))
            left = move.left_kib - kib
            self.memory_moves[uuid] = replace(
                move, moved_kib=move.moved_kib + kib, left_kib=left, is_over=left == 0
            )
            guest = self.guests[uuid]
            wanted = {node: round(share * guest.memory_kib) for node, share in move.to}
            by_node = dict(guest.memory_by_node)
            for node, there in by_node.items():
                taken = min(max(0, there - wanted.get(node, 0)), kib)
                by_node[node], kib = there - taken, kib - taken
            arrived = guest.memory_kib - sum(by_node.values())
            for node, share in move.to:
                by_node[node] = by_node.get(node, 0) + round(share * arrived)
            self.guests[uuid] = guest._replace(memory_by_node=tuple(sorted(by_node.items())))

    def _count(self, uuid: str, rates: Rates, span_s: float) -> None:
        old = self.guests[uuid]
        busy = rates.busy_vcpus or old.vcpus
        room = min(busy, len(old.placement)) * old.quota.cores
        given = min(1.0, room / rates.cores) if rates.cores else 1.0
        rates = replace(rates, mips=rates.mips * given, cores=rates.cores * given)
        instructions = rates.mips * MILLION * span_s
        old = self.counts[uuid]
        cycles = round(instructions * rates.cpi)
        vcpus = range(len(old.vcpu_cycles))
        self.counts[uuid] = old._replace(
            instructions=old.instructions + round(instructions),
            cycles=old.cycles + cycles,
            vcpu_cycles=tuple(old.vcpu_cycles[n] + (n < busy) * cycles // busy for n in vcpus),
            llc_references=old.llc_references + round(instructions * rates.l2_mpki / 1000),
            llc_misses=old.llc_misses + round(instructions * rates.mpki / 1000),
        )
        guest = self.guests[uuid]
        cpu_time_ns = guest.cpu_time_ns + round(rates.cores * span_s * 1e9)
        self.guests[uuid] = guest._replace(cpu_time_ns=cpu_time_ns)

    def tick(self, span_s: float = 1.0) -> Decision:
        """One second passes; the decision is carried out."""
        self.pass_time(span_s)
        return self.decide()

    def decide(self) -> Decision:
        """At this very moment."""
        self.state, decision = step(self.state, self.picture(), self.policy)
        self.pace_kib_per_s = dict(decision.copy_rate_kib_per_s)
        return self._carry_out(decision)

    def answer(self, *calls: Call) -> Decision:
        """At this very moment, between two ticks."""
        self.calls += calls
        self.state, decision = answer_calls(self.state, self.picture(), self.policy)
        return self._carry_out(decision)

    def _carry_out(self, decision: Decision) -> Decision:
        self.calls.clear()
        outcomes = [self._apply(action) for action in decision.actions]
        self.state = confirm(self.state, outcomes, self.policy)
        for renewal in decision.renewals:
            self._renew(renewal)
        self.outcomes += outcomes
        return decision

    def picture(self) -> Picture:
        return Picture(
            at_s=self.now_s,
            mode=self.mode,
            topology=self.topology,
            guests=tuple(self.guests.values()),
            readings=dict(self.counts),
            applied=dict(self.applied),
            approved=self.approved,
            revoked=self.revoked,
            rejected=dict(self.rejected),
            knobs=self.knobs,
            memory_moves=dict(self.memory_moves),
            limits=self.limits,
            host_cpu=self.host_cpu,
            latency_reports=dict(self.latency_reports),
            overlays=dict(self.overlays),
            calls=tuple(self.calls),
        )

    def _apply(self, action) -> Outcome:
        if self.refuse:
            return Outcome(action, Result.FAILED, self.now_s, "the host refused")
        for change in action.changes:
            self._turn(change, action)
        return Outcome(action, Result.APPLIED, self.now_s)

    def _turn(self, change: Change, action: Action) -> None:
        uuid = change.guest_uuid
        applied = self.applied.get(uuid) or Applied(uuid, epoch=1)
        held = Held(
            change.knob, change.to, change.original, action.controller, action.id, change.until_s
        )
        left = applied.without(change.knob) if change.is_restoring else applied.holding(held)
        self._journal(uuid, left)
        if change.knob is Knob.MEMORY and self.copy_kib_per_s is not None:
            self.memory_moves[uuid] = self._move_of(self.guests[uuid], change)
        else:
            self.guests[uuid] = self.turned(self.guests[uuid], change)

    def _renew(self, renewal: Renewal) -> None:
        applied = self.applied[renewal.guest_uuid]
        held = replace(applied.of(renewal.knob), until_s=renewal.until_s)
        self._journal(renewal.guest_uuid, applied.holding(held))

    def _journal(self, uuid: str, left: Applied) -> None:
        if left.held:
            self.applied[uuid] = left
        else:
            self.applied.pop(uuid, None)

    def _move_of(self, guest: Guest, change: Change) -> MemoryMove:
        there = dict(change.to)
        left = sum(
            max(0, kib - round(there.get(node, 0.0) * guest.memory_kib))
            for node, kib in guest.memory_by_node
        )
        return MemoryMove(guest.uuid, change.to, moved_kib=0, left_kib=left)

    def turned(self, guest: Guest, change: Change) -> Guest:
        if change.knob is Knob.PLACEMENT:
            alike = len(change.to) == 1
            return guest._replace(
                placement=frozenset().union(*change.to),
                vcpu_placement=() if alike else change.to,
            )
        if change.knob is Knob.CPU_CAP:
            return guest._replace(quota=change.to)
        if change.knob is Knob.MEMORY:
            kib = tuple((node, round(share * guest.memory_kib)) for node, share in change.to)
            return guest._replace(memory_by_node=kib)
        if change.knob is Knob.CPU_WEIGHT:
            return guest._replace(cpu_weight=change.to)
        if change.knob is Knob.MEMORY_SIZE:
            return guest._replace(memory_size=change.to)
        if change.knob is Knob.EMULATOR_WEIGHT:
            return guest._replace(emulator_weight=change.to)
        if change.knob is Knob.LLC:
            return guest._replace(llc=change.to)
        return guest._replace(membw=change.to)

    def ticks(self, count: int) -> list[Decision]:
        return [self.tick() for _ in range(count)]

    def until(self, reason: Reason, seconds: int = 60) -> Action:
        """The first action for that reason within so many seconds."""
        for _ in range(seconds):
            for action in self.tick().actions:
                if action.reason is reason:
                    return action
        raise AssertionError(f"nothing was done for {reason} within {seconds} s")

    def view(self, name: str, decision: Decision):
        return next(v for v in decision.vps if v.guest.name == name)


def slowed(rates: Rates, times: float) -> Rates:
    """The same work, each instruction taking `times` as many cycles."""
    return replace(rates, mips=rates.mips / times, cpi=rates.cpi * times)


def memory_system(
    alone: dict[str, Rates], limit_per_s: float = math.inf, far: float = 1.5
) -> Callable[[Host], None]:
    """Physics in two lines: a node serves at most so many misses per second, and all who keep
    memory there wait in proportion; memory on another node is `far` times away."""

    def run(host: Host) -> None:
        asked = dict.fromkeys(host.topology.nodes, 0.0)
        for name, rates in alone.items():
            for node, share in host.guest(name).memory_shares:
                asked[node] += share * host.cap_ratio(name) * rates.mips * rates.mpki * 1000
        for name, rates in alone.items():
            here = {d.node for d in host.topology.domains if d.id in host.domains(name)}
            times = sum(
                share * max(1.0, asked[node] / limit_per_s) * (1.0 if node in here else far)
                for node, share in host.guest(name).memory_shares
            )
            host.run(name, slowed(rates, times) if rates.mpki >= 2 else rates)

    return run
