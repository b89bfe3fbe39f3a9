# SPDX-License-Identifier: Apache-2.0
"""What holds of every decision, whatever the host, its guests and their counters do.

Random stories in closed loop and virtual time. Nothing here says what a good decision is: that is
told by example in `test_story.py`.
"""

import math
from dataclasses import dataclass, field, replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nova_vp.core.memory import BUDGET_S
from nova_vp.core.model import (
    Action,
    Decision,
    Homing,
    Isolation,
    LlcDomain,
    Mode,
    Policy,
    Reason,
    Topology,
    Unmanaged,
)
from tests.unit.core.build import CHASE, CHASE_HURT, COMPUTE, STREAM, Host, Rates, uuid_of

MOVES = (Reason.MOVE_AGGRESSOR, Reason.MOVE_VICTIM)


def topology_of(*sizes_and_nodes: tuple[int, int]) -> Topology:
    domains, first = [], 0
    for size, node in sizes_and_nodes:
        domains.append(LlcDomain(len(domains), node, frozenset(range(first, first + size))))
        first += size
    return Topology(tuple(domains))


topologies = st.sampled_from(
    [
        topology_of((1, 0), (1, 1)),
        topology_of((2, 0), (2, 0), (2, 1), (2, 1)),
        topology_of((4, 0)),
        topology_of((1, 0), (3, 0), (4, 1)),
    ]
)
policies = st.builds(
    Policy,
    home_on_arrival=st.sampled_from(Homing),
    moves_per_minute=st.integers(0, 3),
    dwell_samples=st.integers(1, 2),
    move_hold_s=st.sampled_from([0.0, 10.0]),
    effect_window_s=st.sampled_from([1.0, 10.0]),
)
rates = st.sampled_from([COMPUTE, CHASE, CHASE_HURT, STREAM]) | st.builds(
    Rates,
    mips=st.sampled_from([0.0, 0.5, 30.0, 3000.0]),
    l2_mpki=st.sampled_from([0.0, 5.0, 77.0]),
    mpki=st.sampled_from([0.0, 1.0, 60.0]),
    cpi=st.sampled_from([0.0, 1.0, 14.0]),
    cores=st.sampled_from([0.0, 0.3, 4.0]),
)
COUNTS = ("instructions", "cycles", "llc_references", "llc_misses", "llc_misses_remote")


@dataclass
class Story:
    """A host to which things happen, and what was seen of its decisions."""

    host: Host
    draw: st.DrawFn
    moves: list[tuple[Action, float]] = field(default_factory=list)

    def some_cpus(self) -> frozenset[int]:
        return frozenset(self.draw(st.sets(st.sampled_from(self.cpus()), min_size=1)))

    def cpus(self) -> list[int]:
        return sorted(self.host.topology.cpus)

    def some_guest(self) -> str:
        return self.draw(st.sampled_from([guest.name for guest in self.host.guests.values()]))

    def arrive(self) -> None:
        name = "x" * (len(self.host.counts) + 1)
        self.host.add(
            name,
            self.draw(rates),
            vcpus=self.draw(st.integers(1, 5)),
            isolation=self.draw(st.sampled_from(Isolation)),
            unmanaged=self.draw(st.sampled_from([None, None, Unmanaged.OPTED_OUT])),
        )
        self.bound(name)

    def bound(self, name: str) -> None:
        cpus = self.some_cpus()
        self.host.change(name, allowed_cpus=cpus, placement=cpus)

    def change_rates(self, name: str) -> None:
        self.host.run(name, self.draw(rates))

    def place_by_hand(self, name: str) -> None:
        cpus = sorted(self.host.guests[uuid_of(name)].allowed_cpus)
        self.host.change(name, placement=frozenset({self.draw(st.sampled_from(cpus))}))

    def stop_or_start(self, name: str) -> None:
        self.host.change(name, is_running=self.draw(st.booleans()))

    def reboot(self, name: str) -> None:
        uuid = uuid_of(name)
        guest = self.host.guests[uuid]
        self.host.change(name, generation=guest.generation + "'", placement=guest.allowed_cpus)
        if self.draw(st.booleans()):
            self.host.applied.pop(uuid, None)

    def count_nonsense(self, name: str) -> None:
        uuid, value = uuid_of(name), self.draw(st.sampled_from([0, 1, 2**63, 2**64 - 1]))
        what = self.draw(st.sampled_from(COUNTS))
        self.host.counts[uuid] = replace(self.host.counts[uuid], **{what: value})

    def take_a_cpu_offline(self, _name: str) -> None:
        gone = self.cpus()[-1]
        if gone == 0:
            return
        shrunk = [replace(d, cpus=d.cpus - {gone}) for d in self.host.topology.domains]
        self.host.topology = Topology(tuple(d for d in shrunk if d.cpus))
        for uuid, guest in self.host.guests.items():
            allowed = guest.allowed_cpus - {gone} or self.host.topology.cpus
            placement = guest.placement - {gone} or allowed
            self.host.guests[uuid] = replace(guest, allowed_cpus=allowed, placement=placement)

    def set_mode(self, _name: str) -> None:
        self.host.mode = self.draw(st.sampled_from(Mode))

    def refuse_or_not(self, _name: str) -> None:
        self.host.refuse = not self.host.refuse

    def nothing(self, _name: str) -> None:
        """Most ticks."""

    def happen(self) -> None:
        events = [
            *[self.nothing, self.change_rates] * 3,
            *(self.bound, self.place_by_hand, self.stop_or_start, self.reboot),
            *(self.count_nonsense, self.take_a_cpu_offline, self.set_mode, self.refuse_or_not),
        ]
        self.draw(st.sampled_from(events))(self.some_guest())

    def tick(self) -> None:
        guests = dict(self.host.guests)
        decision = self.host.tick(self.draw(st.sampled_from([1.0] * 8 + [0.0, 1e-9, 3600.0])))
        for action in (*decision.actions, *decision.proposals):
            guest = guests[action.guest_uuid]
            assert action.cpus, "an empty placement"
            assert action.cpus <= guest.allowed_cpus, "beyond Nova's bound"
            assert action.cpus != guest.placement, "an action that changes nothing"
            assert action.domain_ids, "a place in no LLC domain"
            assert not guest.unmanaged, "a guest that is to be left alone"
        self.check_mode(decision)
        self.check_pace(decision)
        check_numbers(decision)

    def check_mode(self, decision: Decision) -> None:
        if decision.mode is Mode.OBSERVE:
            assert {action.reason for action in decision.actions} <= {Reason.HOME}
            assert self.host.policy.home_on_arrival is Homing.ALWAYS or not decision.actions

    def check_pace(self, decision: Decision) -> None:
        now_s, policy = self.host.now_s, self.host.policy
        for action in decision.actions:
            if action.reason not in MOVES or self.host.refuse:
                continue
            for earlier, at_s in self.moves:
                is_back = (
                    earlier.guest_uuid == action.guest_uuid and earlier.from_cpus & action.cpus
                )
                assert not is_back or now_s - at_s >= policy.reverse_hold_s, "back too early"
            self.moves.append((action, now_s))
        spent = sum(now_s - at_s < BUDGET_S for _, at_s in self.moves)
        assert spent <= policy.moves_per_minute


def check_numbers(decision: Decision) -> None:
    for view in decision.domains:
        numbers = (view.free_cores, view.allocated_vcpus, view.pressure_per_s)
        assert all(math.isfinite(number) and number >= 0 for number in numbers)
        for hurt in view.table:
            assert 0 <= hurt.newcomer_ratio <= 1
            assert 0 <= hurt.worst_strict_ratio <= hurt.worst_resident_ratio <= 1
    for vp in decision.vps:
        assert all(math.isfinite(number) and number >= 0 for number in vp.sample or ())


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_decision_keeps_the_promises(data: st.DataObject) -> None:
    draw = data.draw
    host = Host(draw(topologies), draw(policies), mode=draw(st.sampled_from(Mode)))
    story = Story(host, draw)
    for _ in range(draw(st.integers(1, 5))):
        story.arrive()
    for _ in range(draw(st.integers(3, 25))):
        story.happen()
        story.tick()


def test_a_placement_on_a_cpu_that_went_offline_is_not_wanted_again() -> None:
    host = Host(topology_of((1, 0), (1, 1)), Policy(home_on_arrival=Homing.NEVER))
    host.add("neighbour", COMPUTE, cpus={0})
    host.add("victim", CHASE, cpus={0})
    host.ticks(6)
    host.run("neighbour", STREAM)
    host.run("victim", CHASE_HURT)
    host.ticks(2)
    assert host.placement("neighbour") == {1}
    host.topology = topology_of((1, 0))
    for name in ("neighbour", "victim"):
        host.change(name, allowed_cpus=frozenset({0}), placement=frozenset({0}))
    assert not any(decision.actions for decision in host.ticks(20))
