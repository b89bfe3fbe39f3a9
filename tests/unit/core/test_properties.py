# SPDX-License-Identifier: Apache-2.0
"""What holds of every decision, whatever the host, its guests and their counters do.

Random stories in closed loop and virtual time. Nothing here says what a good decision is: that is
told by example in each controller's own tests. What the stories made the core do is counted, since
promises of what is never done hold anyway.
"""

import math
from collections import Counter
from dataclasses import dataclass, field, replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nova_vp.controllers import installed
from nova_vp.core.pipeline.plan import Plan
from nova_vp.core.step import step
from nova_vp.core.types.action import Action, Change
from nova_vp.core.types.claim import ClaimGroup, Setting
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.guest import Guest, Isolation, Unmanaged
from nova_vp.core.types.knob import Knob, LlcShare, MembwShare, Quota, all_cpus
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.state import BUDGET_S, CoreState
from nova_vp.core.types.topology import Limits, LlcDomain, Topology
from tests.policies import a_policy
from tests.unit.core.build import (
    ALL_KNOBS,
    CHASE,
    CHASE_HURT,
    COMPUTE,
    STREAM,
    Host,
    Rates,
    uuid_of,
)
from tests.unit.core.wishful import Mover, enabled

MOST_GUESTS = 8
MOVING = frozenset({Knob.PLACEMENT, Knob.MEMORY})


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
homings = st.sampled_from(["never", "enforce", "always"])
policies = st.builds(
    a_policy,
    home_on_arrival=homings,
    moves_per_minute=st.sampled_from([0, 2, 6, 6]),
    dwell_samples=st.integers(1, 2),
    move_hold_s=st.sampled_from([0.0, 10.0]),
    effect_window_s=st.sampled_from([1.0, 10.0]),
    rearrange_after_s=st.sampled_from([3.0, 10.0]),
    cap_probe_s=st.sampled_from([5.0, 60.0]),
    epoch_s=st.sampled_from([2.0, 10.0]),
    hot_node_by_mpki=st.booleans(),
    controllers=st.sampled_from([sorted(installed()), sorted({"vp"} & set(installed()))])
    | st.sets(st.sampled_from(sorted(installed()))).map(sorted),
)
knobs = st.sampled_from([ALL_KNOBS, frozenset(Knob)]) | st.sets(st.sampled_from(Knob)).map(
    lambda some: frozenset(some) | {Knob.PLACEMENT}
)
modes = st.sampled_from([Mode.ENFORCE, Mode.ENFORCE, *Mode])
limits = st.sampled_from([Limits(), Limits(5e5), Limits(5e5, 1e5), Limits(None, 1e5)])
splits = st.sampled_from([(), *((("vp:memory_split", s),) for s in ("50,50", "20,20,60"))])
floors = st.sampled_from([None, 0.1, 0.1, 0.5])
rates = st.sampled_from([COMPUTE, CHASE, CHASE_HURT, STREAM]) | st.builds(
    Rates,
    mips=st.sampled_from([0.0, 0.5, 30.0, 3000.0]),
    l2_mpki=st.sampled_from([0.0, 5.0, 77.0]),
    mpki=st.sampled_from([0.0, 1.0, 60.0]),
    cpi=st.sampled_from([0.0, 1.0, 14.0]),
    cores=st.sampled_from([0.0, 0.3, 4.0]),
    busy_vcpus=st.sampled_from([0, 1]),
)
SEEN = {"move", "undo", "budget", "proposal"} | ({"limit"} if "vp" in installed() else set())
"""Of one run at least: there are stories in which the promises of these could be broken."""
MOST_TIMES_MORE = 30
"""Some of SEEN is rare: 40 stories are often alike."""
LIMITS = (Knob.CPU_CAP, Knob.LLC, Knob.MEMBW)
COUNTS = ("instructions", "cycles", "llc_references", "llc_misses", "llc_misses_remote")


@dataclass
class Story:
    """A host to which things happen, and what was seen of its decisions."""

    host: Host
    draw: st.DrawFn
    tried: list[float] = field(default_factory=list)
    """When something was done that must prove itself."""
    moved_at_s: dict[str, float] = field(default_factory=dict)
    left: list[tuple[str, frozenset[int], float]] = field(default_factory=list)
    """Who was taken away from which CPUs, and when."""
    arrived: int = 0
    done: Counter[str] = field(default_factory=Counter)
    """How often each of SEEN."""

    def some_cpus(self) -> frozenset[int]:
        return frozenset(self.draw(st.sets(st.sampled_from(self.cpus()), min_size=1)))

    def cpus(self) -> list[int]:
        return sorted(self.host.topology.cpus)

    def some_guest(self) -> str:
        return self.draw(st.sampled_from([guest.name for guest in self.host.guests.values()]))

    def arrive(self) -> None:
        self.bound(self.newcomer(self.draw(rates)))

    def newcomer(self, rates: Rates, cpus: frozenset[int] | None = None) -> str:
        self.arrived += 1
        name = f"vm-{self.arrived}"
        self.host.add(
            name,
            rates,
            set(cpus) if cpus else None,
            vcpus=self.draw(st.sampled_from([1, 1, 1, 2, 3, 5])),
            isolation=self.draw(st.sampled_from(Isolation)),
            unmanaged=self.draw(st.sampled_from([None, None, Unmanaged.OPTED_OUT])),
            refuses_help=self.draw(st.sampled_from([False, False, False, True])),
            node=self.draw(st.sampled_from([None, *self.host.topology.nodes])),
            group=self.draw(st.sampled_from(["", "", "store"])),
            priority=self.draw(st.sampled_from([0.1, 1.0, 50.0])),
            cap_floor_ratio=self.draw(floors),
            controller_keys=self.draw(splits),
            memory_obstacle=self.draw(st.sampled_from(["", "", "", "huge pages"])),
            quota=self.draw(st.sampled_from([Quota(), Quota(), Quota(150_000)])),
        )
        return name

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
        self.moved_at_s.pop(uuid, None)
        if self.draw(st.booleans()):
            self.host.applied.pop(uuid, None)

    def count_nonsense(self, name: str) -> None:
        uuid, value = uuid_of(name), self.draw(st.sampled_from([0, 1, 2**63, 2**64 - 1]))
        what = self.draw(st.sampled_from((*COUNTS, "vcpu_cycles")))
        known = self.host.counts[uuid]
        told = (value, *known.vcpu_cycles[1:]) if what == "vcpu_cycles" else value
        self.host.counts[uuid] = known._replace(**{what: told})

    def take_a_cpu_offline(self, _name: str) -> None:
        gone = self.cpus()[-1]
        if gone == 0:
            return
        shrunk = [replace(d, cpus=d.cpus - {gone}) for d in self.host.topology.domains]
        self.host.topology = Topology(tuple(d for d in shrunk if d.cpus))
        for uuid, guest in self.host.guests.items():
            allowed = guest.allowed_cpus - {gone} or self.host.topology.cpus
            placement = guest.placement - {gone} or allowed
            self.host.guests[uuid] = guest._replace(allowed_cpus=allowed, placement=placement)

    def set_mode(self, _name: str) -> None:
        self.host.mode = self.draw(modes)

    def harm(self, _name: str) -> None:
        """One of two newcomers begins to stream; the other is hurt until they are apart, or for
        ever."""
        if len(self.host.guests) > MOST_GUESTS:
            return
        domain = self.draw(st.sampled_from(self.host.topology.domains))
        name, other = (self.newcomer(rates, domain.cpus) for rates in (CHASE, COMPUTE))
        self.ticks(6)
        self.host.run(other, STREAM)
        is_curable = self.draw(st.sampled_from([True, True, False]))

        def rule(host: Host) -> None:
            if {uuid_of(name), uuid_of(other)} <= host.guests.keys():
                is_hurt = host.share_a_cache(name, other) or not is_curable
                host.run(name, CHASE_HURT if is_hurt else CHASE)

        self.host.rule = rule
        self.ticks(self.draw(st.integers(3, 30)))

    def ticks(self, count: int) -> None:
        for _ in range(count):
            self.tick(1.0)

    def refuse_or_not(self, _name: str) -> None:
        self.host.refuse = not self.host.refuse

    def nothing(self, _name: str) -> None:
        """Most ticks."""

    def happen(self) -> None:
        events = [
            *[self.nothing, self.change_rates] * 3,
            *(self.bound, self.place_by_hand, self.stop_or_start, self.reboot),
            *(self.count_nonsense, self.take_a_cpu_offline, self.set_mode, self.refuse_or_not),
            *(self.leave, self.manage_or_not, self.opt_out_or_in, *[self.harm] * 4),
        ]
        self.draw(st.sampled_from(events))(self.some_guest())

    def leave(self, name: str) -> None:
        if len(self.host.guests) > 1:
            self.host.leave(name)

    def opt_out_or_in(self, name: str) -> None:
        self.host.change(name, refuses_help=self.draw(st.booleans()))

    def manage_or_not(self, name: str) -> None:
        self.host.change(name, unmanaged=self.draw(st.sampled_from([None, Unmanaged.OPTED_OUT])))

    def tick(self, span_s: float) -> None:
        self.host.pass_time(span_s)
        picture, state = self.host.picture(), self.host.state
        decision = self.host.decide()
        self.check_names(state, picture, decision)
        for action in (*decision.actions, *decision.proposals):
            self.check_action(action, picture)
        owned = [(c.guest_uuid, c.knob) for a in decision.actions for c in a.changes]
        assert len(owned) == len(set(owned)), "two owners of one knob"
        self.check_mode(decision)
        self.check_pace(decision)
        self.check_nothing_is_left_to_do(decision)
        check_numbers(decision)
        self.count(decision)

    def count(self, decision: Decision) -> None:
        for action in decision.actions:
            knobs = [change.knob for change in action.changes]
            self.done["move"] += any(knob in MOVING for knob in knobs)
            self.done["limit"] += any(knob in LIMITS for knob in knobs)
            self.done["undo"] += action.is_undo
        self.done["budget"] += bool(self.tried)
        self.done["proposal"] += len(decision.proposals)

    def check_names(self, state: CoreState, picture: Picture, decision: Decision) -> None:
        """What a server is called is nobody's business."""
        guests = tuple(
            guest._replace(name=f"renamed-{number}", domain_name=f"other-{number}", flavor="f2")
            for number, guest in enumerate(picture.guests)
        )
        _, again = step(state, replace(picture, guests=guests), self.host.policy)
        assert again.actions == decision.actions
        assert again.proposals == decision.proposals
        assert again.refused == decision.refused
        assert again.detections == decision.detections
        assert again.escalations == decision.escalations

    def check_action(self, action: Action, picture: Picture) -> None:
        guests = {guest.uuid: guest for guest in picture.guests}
        assert action.changes, "an action that changes nothing"
        if not (action.is_undo or action.reason.gives_back or action.reason.is_for_host):
            helped = guests.get(action.on_behalf_of or action.victim_uuid or action.guest_uuid)
            assert not (helped and helped.refuses_help), "help that is refused"
        for change in action.changes:
            guest = guests[change.guest_uuid]
            assert not guest.unmanaged, "a guest that is to be left alone"
            assert change.knob in picture.knobs, "a knob that this host does not have"
            check_change(change, guest, picture)
        if action.change_of(Knob.PLACEMENT):
            assert action.domain_ids, "a place in no LLC domain"

    def check_mode(self, decision: Decision) -> None:
        if decision.mode is Mode.OBSERVE:
            assert not decision.actions, "observe changes nothing"

    def check_pace(self, decision: Decision) -> None:
        """Holds between moves, no way back, a budget; undo is exempt."""
        now_s, policy = self.host.now_s, self.host.policy
        if self.host.refuse:
            return
        for action in decision.actions:
            moved = {c.guest_uuid for c in action.changes if c.knob in MOVING}
            if not action.is_undo:
                for uuid in moved & self.moved_at_s.keys():
                    assert now_s - self.moved_at_s[uuid] >= policy.move_hold_s, "moved too soon"
            for change in action.changes:
                if action.is_tried and change.knob is Knob.PLACEMENT:
                    self.check_no_way_back(change)
            self.moved_at_s.update(dict.fromkeys(moved, now_s))
            if action.reason.is_counted:
                self.tried.append(now_s)
        spent = sum(now_s - at_s < BUDGET_S for at_s in self.tried)
        assert spent <= policy.moves_per_minute

    def check_no_way_back(self, change: Change) -> None:
        now_s, cpus = self.host.now_s, all_cpus(change.to)
        for uuid, gone, at_s in self.left:
            is_back = uuid == change.guest_uuid and gone & cpus
            assert not is_back or now_s - at_s >= self.host.policy.reverse_hold_s, "back too early"
        self.left.append((change.guest_uuid, all_cpus(change.now) - cpus, now_s))

    def check_nothing_is_left_to_do(self, decision: Decision) -> None:
        """What was applied and is wanted again is no action."""
        if self.host.refuse:
            return
        groups = [
            ClaimGroup(
                controller=action.controller,
                guest_uuid=action.guest_uuid,
                settings=tuple(
                    Setting(c.guest_uuid, c.knob, c.to)
                    for c in action.changes
                    if c.knob is not Knob.MEMORY or c.guest_uuid not in self.host.memory_moves
                ),
                domain_ids=action.domain_ids,
                reason=action.reason,
                predicted_loss=action.predicted_loss,
            )
            for action in decision.actions
        ]
        again = Plan(groups, self.host.state, self.host.picture(), self.host.policy)
        assert again.actions == ()


def check_change(change: Change, guest: Guest, picture: Picture) -> None:
    if change.knob is Knob.PLACEMENT:
        assert all(change.to), "an empty placement"
        assert all_cpus(change.to) <= guest.allowed_cpus, "beyond Nova's bound"
    elif change.knob is Knob.CPU_CAP:
        check_cap(change, guest)
    elif change.knob is Knob.MEMORY:
        assert math.isclose(sum(share for _, share in change.to), 1.0)
        assert {node for node, _ in change.to} <= set(picture.topology.nodes)
        assert not guest.memory_obstacle
    else:
        assert isinstance(change.to, LlcShare if change.knob is Knob.LLC else MembwShare)
        assert 0 < change.to.ratio <= 1


def check_cap(change: Change, guest: Guest) -> None:
    if change.is_restoring:
        return
    assert guest.cap_floor_ratio is not None, "a guest that is never capped"
    own = change.original.cores
    assert change.to.cores >= guest.cap_floor_ratio * own - 1e-6, "below the floor"
    assert change.to.cores <= own + 1e-6, "more than Nova gave it"
    assert change.until_s is not None, "a cap without a lease"


def check_numbers(decision: Decision) -> None:
    for view in decision.domains:
        numbers = (view.free_cores, view.allocated_vcpus, view.pressure_per_s)
        assert all(math.isfinite(number) and number >= 0 for number in numbers)
        for hurt in view.table:
            assert 0 <= hurt.newcomer_ratio <= 1
            assert 0 <= hurt.worst_strict_ratio <= hurt.worst_resident_ratio <= 1
    for vp in decision.vps:
        assert all(math.isfinite(number) and number >= 0 for number in vp.sample or ())


spans = st.sampled_from([1.0] * 8 + [0.0, 1e-9, 3600.0])


def tell(draw: st.DrawFn) -> Counter[str]:
    """One story; returns what was done in it."""
    host = Host(
        draw(topologies),
        draw(policies),
        mode=draw(modes),
        knobs=draw(knobs),
        limits=draw(limits),
        copy_kib_per_s=draw(st.sampled_from([None, 10_000.0])),
    )
    story = Story(host, draw)
    for _ in range(draw(st.integers(1, 5))):
        story.arrive()
    for _ in range(draw(st.integers(3, 25))):
        story.happen()
        story.tick(draw(spans))
    return story.done


def test_every_decision_keeps_the_promises() -> None:
    done: Counter[str] = Counter()

    @given(st.data())
    @settings(max_examples=40, suppress_health_check=list(HealthCheck))
    def stories(data: st.DataObject) -> None:
        done.update(tell(data.draw))

    for _ in range(3):
        stories()
    for _ in range(MOST_TIMES_MORE):
        if set(+done) == SEEN:
            break
        stories()
    assert set(+done) == SEEN


def test_a_placement_on_a_cpu_that_went_offline_is_not_wanted_again() -> None:
    host = Host(topology_of((1, 0), (1, 1)), enabled(Mover()))
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
