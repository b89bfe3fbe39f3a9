# SPDX-License-Identifier: Apache-2.0
"""What made somebody wait for CPU did not help, whatever the caches say."""

from dataclasses import replace

import pytest

from nova_vp.core.types.action import Action, Result
from nova_vp.core.types.guest import MemoryMove
from nova_vp.core.types.reason import INEFFECTIVE
from tests.unit.core.build import CHASE, CHASE_HURT, COMPUTE, STREAM, Host, nodes_of, uuid_of
from tests.unit.core.crowding import give, shared_cpus
from tests.unit.core.wishful import MOVES, Mover, enabled

POLICY = enabled(Mover())


def a_packed_pair(there: float, **resident) -> Host:
    """A victim in the cache whose aggressor will be moved beside a resident that uses so much of
    its CPU; what each loses to the cache is in its rates."""
    host = Host(nodes_of(0, 1, cpus=1), POLICY)
    host.add("victim", CHASE, cpus={0})
    host.add("storm", COMPUTE, cpus={0})
    host.add("resident", COMPUTE, cpus={1}, **resident)
    alone = {"victim": CHASE, "storm": COMPUTE, "resident": replace(COMPUTE, cores=there)}
    host.rule = shared_cpus(alone)
    host.ticks(8)
    storm = replace(STREAM, cores=0.6)

    def cache(host: Host) -> None:
        is_hurt = host.share_a_cache("storm", "victim")
        victim = CHASE_HURT if is_hurt else CHASE
        shared_cpus({**alone, "storm": storm, "victim": victim})(host)

    host.rule = cache
    return host


def results(host: Host) -> list[Result]:
    judged = {o.action.id: o.result for vp in host.state.vps.values() for o in vp.history}
    return list(judged.values())


def result_of(host: Host, action: Action) -> Result:
    history = host.state.vps[action.guest_uuid].history
    return next(one.result for one in history if one.action.id == action.id)


def test_a_move_that_trades_misses_for_waiting_is_undone():
    host = a_packed_pair(there=0.9)
    host.until(MOVES)
    assert host.placement("storm") == {1}
    host.until(INEFFECTIVE)
    assert host.placement("storm") == {0}
    assert Result.INEFFECTIVE in results(host)


def test_the_same_move_to_an_idle_cpu_stands():
    host = a_packed_pair(there=0.1)
    host.until(MOVES)
    host.ticks(30)
    assert host.placement("storm") == {1}
    assert results(host) == [Result.MENDED]


def test_a_resident_that_begins_to_want_more_by_itself_undoes_nothing():
    host = a_packed_pair(there=0.1)
    host.until(MOVES)
    rule = host.rule

    def grown(host: Host) -> None:
        rule(host)
        was = host.guest("resident").cpu_times
        more = was._replace(
            ran_ns=was.ran_ns + 200_000_000, run_delay_ns=was.run_delay_ns + 200_000_000
        )
        host.change("resident", cpu_times=more)

    host.rule = grown
    host.ticks(30)
    assert results(host) == [Result.MENDED]


def test_who_came_after_a_move_and_waits_there_undoes_nothing():
    """Nobody knows what it waited before; that it waits now is a matter of its own."""
    host = a_packed_pair(there=0.1)
    host.until(MOVES)
    host.add("late", COMPUTE, cpus={1}, group="one")
    host.change("resident", group="one")  # Nobody is to be moved for its waiting.
    rule = host.rule

    def run(host: Host) -> None:
        rule(host)
        give(host, "late", ran=0.3, waited=0.3)

    host.rule = run
    host.ticks(30)
    assert host.state.vps[uuid_of("late")].recent_cpu_use.waiting_ratio > 0.3
    assert host.placement("storm") == {1}
    assert results(host) == [Result.MENDED]


def test_it_is_not_well_before_it_is_seen_that_nobody_waits():
    """A victim is well at once where nobody's CPU times are read; else after some samples."""
    host = a_packed_pair(there=0.1)
    host.until(MOVES)
    assert results(host) == [Result.APPLIED]
    host.ticks(4)
    assert results(host) == [Result.APPLIED]
    host.ticks(8)
    assert results(host) == [Result.MENDED]


def test_where_cpu_times_are_not_read_the_caches_decide():
    host = a_packed_pair(there=0.9)
    rule = host.rule

    def unread(host: Host) -> None:
        rule(host)
        for name in ("victim", "storm", "resident"):
            host.change(name, cpu_times=None)

    host.rule = unread
    host.ticks(8)
    host.ticks(40)
    assert host.placement("storm") == {1}
    assert results(host) == [Result.MENDED]


@pytest.mark.parametrize("who", ["storm", "resident"])
def test_throttling_is_no_waiting_here_either(who):
    """Its quota keeps it from running: nobody made it wait."""
    host = a_packed_pair(there=0.1)
    host.until(MOVES)
    rule = host.rule

    def throttled(host: Host) -> None:
        rule(host)
        was = host.guest(who).cpu_times
        more = was._replace(
            run_delay_ns=was.run_delay_ns + 500_000_000, throttled_ns=was.throttled_ns + 450_000_000
        )
        host.change(who, cpu_times=more)

    host.rule = throttled
    host.ticks(30)
    assert results(host) == [Result.MENDED]


def test_waiting_while_memory_is_copied_is_not_judged():
    host = a_packed_pair(there=0.1)
    for name in ("storm", "resident"):
        host.change(name, group="one")  # Nobody else is to be moved for its waiting.
    moved = host.until(MOVES)
    storm, rule = uuid_of("storm"), host.rule
    host.copy_kib_per_s = 0.0
    host.memory_moves[storm] = MemoryMove(storm, ((1, 1.0),), moved_kib=0, left_kib=1)

    def copied(host: Host) -> None:
        rule(host)
        if host.memory_moves:
            was = host.guest("storm").cpu_times
            host.change("storm", cpu_times=was._replace(run_delay_ns=was.run_delay_ns + 5 * 10**8))

    host.rule = copied
    host.ticks(8)
    assert result_of(host, moved) is Result.APPLIED
    del host.memory_moves[storm]
    host.ticks(20)
    assert result_of(host, moved) is Result.MENDED
