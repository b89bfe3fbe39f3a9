# SPDX-License-Identifier: Apache-2.0
"""What holds whatever is called, by whomever, and whoever comes and leaves meanwhile."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nova_vp.core.types.island import Island, Scheduler
from nova_vp.core.types.knob import NO_QUOTA, CpuWeight, EmulatorWeight, Knob, MemorySize
from nova_vp.core.types.overlay import Call, CallResource, Direction, Verb
from tests.policies import a_policy
from tests.unit.core.build import Host, Rates, nodes_of, uuid_of
from tests.unit.core.controllers.overlays.hosts import KNOBS, MIB, ROUND_ROBIN, overlay, server

A, B, C = {0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}
HOMES = {"web": A, "db": B, "batch": B, "mill": C, "alone": A}
ISLANDS = (
    Island("a", frozenset(A)),
    Island("b", frozenset(B), Scheduler.CAPPED, 3.0),
    Island("c", frozenset(C)),
)
FLOOR = 0.1


def a_world(islands: tuple[Island, ...], cap: float | None = None) -> Host:
    policy = a_policy(
        controllers=("overlays",), islands=islands, borrow_lease_s=8.0, host_cap_cores=cap
    )
    host = Host(nodes_of(0, 0, 1, cpus=4), policy, knobs=KNOBS)
    for name, cpus in HOMES.items():
        server(host, name, cpus, vcpus=2, cap_floor_ratio=FLOOR)
    overlay(host, "shop", "web", "db", arbitration=ROUND_ROBIN)
    overlay(host, "mills", "mill", "batch", priority=2.0)
    host.ticks(2)
    return host


calls = st.builds(
    lambda verb, of, name, resource, way, cpus: Call(
        "c", of, verb, resource, way, uuid_of(name) if name else "", cpus
    ),
    st.sampled_from(Verb),
    st.sampled_from(["shop", "mills", "nobody"]),
    st.sampled_from(["", *HOMES]),
    st.sampled_from(CallResource),
    st.sampled_from(Direction),
    st.integers(1, 4),
)
loads = st.tuples(st.sampled_from([*HOMES]), st.sampled_from([0.1, 1.0, 2.0]))
waits = st.sampled_from([0.0, 0.05, 0.5, 2.0])
events = st.one_of(calls, loads, waits, st.just("tick"), st.sampled_from(["-web", "-batch"]))


def happen(host: Host, event: object) -> None:
    if isinstance(event, Call):
        for _ in range(2):
            host.answer(event)
    elif isinstance(event, tuple):
        name, cores = event
        if uuid_of(name) in host.guests:
            host.run(name, Rates(mips=50, cores=cores))
    elif isinstance(event, float):
        host.pass_time(event)
        host.answer()
    elif event == "tick":
        host.tick()
    else:
        host.leave(str(event)[1:])
        host.tick()


def check(host: Host) -> None:
    lent = [loan.cpu for loan in host.state.loans]
    assert len(lent) == len(set(lent)), "a CPU is lent once"
    lenders = {loan.lender for loan in host.state.loans}
    assert not lenders & {loan.borrower for loan in host.state.loans}
    for guest in host.guests.values():
        assert guest.placement <= host.topology.cpus
        assert guest.placement <= guest.allowed_cpus, "Nova's bound"
        assert guest.placement, "it runs somewhere"
        assert guest.quota.cores >= FLOOR - 1e-6, "its floor"
        assert 1.1 * 32 * MIB - 1 <= guest.memory_size.kib <= guest.memory_kib
        others = [
            one
            for one in host.guests.values()
            if one.placement & guest.placement and one.uuid != guest.uuid
        ]
        assert 12 <= guest.emulator_weight.number <= 800
        total = guest.cpu_weight.number + sum(one.cpu_weight.number for one in others)
        share = len(guest.placement) * guest.cpu_weight.number / total
        assert share >= 0.05 * guest.vcpus, "nobody starves"


def settled(host: Host) -> None:
    """Once all overlays are gone, and their servers stay."""
    host.overlays.clear()
    host.policy = a_policy(controllers=("overlays",))
    host.ticks(4)
    assert host.applied == {}
    assert host.state.claims == {}
    assert host.state.loans == ()
    for guest in host.guests.values():
        assert guest.placement == HOMES[guest.name]
        assert guest.quota == NO_QUOTA
        assert guest.cpu_weight == CpuWeight(100)
        assert guest.memory_size == MemorySize(96 * MIB)
        assert guest.emulator_weight == EmulatorWeight(100)


@pytest.mark.parametrize(("islands", "cap"), [((), None), (ISLANDS, None), ((), 6.0)])
@given(story=st.lists(events, max_size=25))
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
def test_whatever_is_called_bounds_hold_and_all_comes_back(
    islands: tuple[Island, ...], cap: float | None, story: list[object]
) -> None:
    host = a_world(islands, cap)
    for event in story:
        happen(host, event)
        check(host)
    settled(host)


def fight(host: Host) -> None:
    """Each wants the one CPU that the second island can spare."""
    for name in ("db", "batch"):
        host.run(name, Rates(mips=50, cores=0.9))
    for of, name in (("shop", "web"), ("mills", "mill")):
        host.answer(Call("c", of, Verb.BORROW, guest_uuid=uuid_of(name), cpus=1, island="llc-1"))


def flood(host: Host) -> None:
    for _ in range(300):
        host.answer(Call("c", "shop", Verb.TRIGGER))


def lie(host: Host) -> None:
    """It says that it needs more of all, and uses nothing."""
    for verb in (Verb.TUNE, Verb.BORROW, Verb.TRIGGER):
        host.answer(Call("c", "shop", verb, guest_uuid=uuid_of("web"), cpus=1))


@pytest.mark.parametrize("act", [fight, flood, lie])
def test_who_fights_floods_or_lies_takes_nothing_from_others_for_long(
    act: Callable[[Host], None],
) -> None:
    host = a_world(())
    for name in HOMES:
        host.run(name, Rates(mips=50, cores=1.5))
    for _ in range(60):
        act(host)
        host.tick()
        check(host)
    assert len(host.state.loans) <= 2, "no more than lenders can spare"
    moves = [one for one in host.outcomes if one.action.change_of(Knob.PLACEMENT)]
    assert bool(moves) is (act is not flood)
    assert len(moves) < 40, "CPUs do not go back and forth"
    settled(host)
