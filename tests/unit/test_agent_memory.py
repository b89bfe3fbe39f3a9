# SPDX-License-Identifier: Apache-2.0
"""Memory on its way while the agent lives, dies and stops: real loop, fake mover.

Time passes for the mover with each tick: one chunk more is copied.
"""

from dataclasses import replace

import pytest

from nova_vp.core.types.action import Action, Change, Result
from nova_vp.core.types.claim import PredictedLoss
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Applied, Held, Knob
from nova_vp.core.types.reason import REAPPLY
from tests.unit.agent_host import World
from tests.unit.core.build import COMPUTE
from vp_agent.drivers.fake import FakeJournal
from vp_agent.drivers.memory_fake import CHUNK_KIB
from vp_agent.loop.executor import Executor
from vp_agent.wiring import by_knob

CHUNKS = 8
HERE, THERE = ((0, 1.0),), ((1, 1.0),)
KIB = CHUNKS * CHUNK_KIB


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    world.start_agent()
    return world


@pytest.fixture
def guest(world):
    return world.boot(COMPUTE, memory_by_node=((0, KIB),))


def hands(world):
    return world.agent._host.executor


def move(world, uuid, to, original=HERE):
    change = Change(uuid, Knob.MEMORY, to, world.mover.read(uuid, Knob.MEMORY), original)
    action = Action(
        "act-1",
        "mitigation",
        uuid,
        (change,),
        (),
        REAPPLY,
        world.now_s,
        PredictedLoss(0, 0),
    )
    [outcome] = hands(world).apply([action], world.now_s)
    return outcome


def held(world, uuid):
    entry = world.host.guests[uuid].journal
    return entry.of(Knob.MEMORY) if entry else None


def lies(world, uuid):
    return {n: kib for n, kib in world.host.guests[uuid].guest.memory_by_node if kib}


def test_the_picture_shows_moves_and_that_memory_can_be_moved(world, guest):
    assert move(world, guest, THERE).result is Result.APPLIED
    picture = world.agent.picture(world.now_s + 1)
    assert Knob.MEMORY in picture.knobs
    assert picture.memory_moves[guest].moved_kib == CHUNK_KIB
    [seen] = world.agent.picture(world.now_s + 2).guests
    assert dict(seen.memory_by_node) == {0: KIB - CHUNK_KIB, 1: CHUNK_KIB}


def test_moved_memory_stays_journalled(world, guest):
    move(world, guest, THERE)
    world.tick(CHUNKS)
    assert lies(world, guest) == {1: KIB}
    assert held(world, guest).original == HERE


def test_given_back_it_is_journalled_until_it_is_back(world, guest):
    move(world, guest, THERE)
    world.tick(CHUNKS)
    assert move(world, guest, HERE).result is Result.APPLIED
    world.tick(CHUNKS - 1)
    assert held(world, guest).value == held(world, guest).original == HERE
    world.tick()
    assert lies(world, guest) == {0: KIB}
    assert held(world, guest) is None


def test_memory_that_does_not_get_back_stays_journalled_and_the_stop_tries_again(world, guest):
    move(world, guest, THERE)
    world.tick(2)
    move(world, guest, HERE)
    world.mover.spare_kib[0] = 0
    world.tick(3)
    assert held(world, guest).original == HERE
    assert lies(world, guest) != {0: KIB}
    world.mover.spare_kib.clear()
    assert world.agent.give_back(waits=True)
    assert lies(world, guest) == {0: KIB}
    assert held(world, guest) is None


def test_a_killed_agents_half_move_is_taken_back_without_holding_up_the_tick(world, guest):
    move(world, guest, THERE)
    world.tick(CHUNKS // 2)
    world.start_agent()
    world.tick()
    assert 0 < lies(world, guest)[1] < KIB
    assert held(world, guest).value == HERE
    world.tick(CHUNKS)
    assert lies(world, guest) == {0: KIB}
    assert held(world, guest) is None


def test_killed_again_on_the_way_back_the_next_one_goes_on(world, guest):
    move(world, guest, THERE)
    world.tick(CHUNKS)
    for _ in range(2):
        world.start_agent()
        world.tick(2)
        assert held(world, guest).original == HERE
    world.tick(CHUNKS)
    assert lies(world, guest) == {0: KIB}


def test_a_stop_waits_until_all_is_back(world, guest):
    move(world, guest, THERE)
    world.tick(2)
    assert world.agent.give_back(waits=True)
    assert lies(world, guest) == {0: KIB}
    assert held(world, guest) is None


def test_release_while_running_does_not_wait_for_memory(world, guest):
    move(world, guest, THERE)
    world.tick(CHUNKS)
    assert world.agent.give_back(waits=False)
    assert lies(world, guest) == {1: KIB}
    world.tick(CHUNKS)
    assert lies(world, guest) == {0: KIB}
    assert held(world, guest) is None


def test_release_without_an_agent_waits(world, guest):
    move(world, guest, THERE)
    world.tick(CHUNKS)
    journal = FakeJournal(world.host)
    others = Executor(journal, by_knob(world.mover), epoch=0)
    assert others.undo(journal.read().values(), waits=True) == ()
    assert lies(world, guest) == {0: KIB}
    assert held(world, guest) is None


def test_nodes_of_another_host_mean_nothing_here(world, guest):
    entry = Held(Knob.MEMORY, THERE, ((7, 1.0),), "mitigation", "act-9")
    world.host.guests[guest].journal = Applied(guest, 4711, (entry,))
    world.tick()
    assert lies(world, guest) == {0: KIB}
    assert held(world, guest) is None


def test_a_guest_that_leaves_ends_its_move(world, guest):
    move(world, guest, THERE)
    world.tick(2)
    world.host.change(guest, unmanaged=Unmanaged.MIGRATING)
    world.tick(2)
    assert guest not in world.mover.moves()


def test_what_cannot_be_moved_fails_and_leaves_no_journal(world, guest):
    world.host.change(guest, memory_obstacle="its memory is locked")
    outcome = move(world, guest, THERE)
    assert (outcome.result, outcome.detail) == (Result.FAILED, "its memory is locked")
    assert held(world, guest) is None


def test_the_core_sets_the_pace(world, guest):
    move(world, guest, THERE)
    decision = world.tick()
    assert world.mover._paces == decision.copy_rate_kib_per_s
    halted = replace(decision, copy_rate_kib_per_s={guest: 0.0})
    world.mover.set_copy_rates(halted.copy_rate_kib_per_s)
    assert world.mover.moves()[guest].moved_kib == world.mover.moves()[guest].moved_kib
