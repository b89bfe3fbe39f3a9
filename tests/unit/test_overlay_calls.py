# SPDX-License-Identifier: Apache-2.0
"""Calls of overlays over the whole agent: answered between two ticks, done, journalled, undone."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import NO_QUOTA, CpuWeight, EmulatorWeight, Knob, MemorySize
from nova_vp.core.types.overlay import CallAnswer, Nack, Verb
from nova_vp.core.types.policy import Mode
from nova_vp.server_override import ServerOverride, overrides_text
from tests.unit.overlay_world import (
    DOWN,
    IO,
    MEMORY,
    MILLS,
    SHOP,
    UP,
    OverlayWorld,
    a_call,
    open_world,
)
from tests.waiting import wait_until
from vp_agent.cli.release import Release
from vp_agent.loop.control_socket import RunFolder
from vp_agent.loop.executor import Executor
from vp_agent.loop.migration_holds import MigrationHolds
from vp_agent.loop.tick import Cluster

USED_KIB = 30 * 1024
GIVEN = CpuWeight(100)
GIVEN_TO_EMULATOR = EmulatorWeight(100)


@pytest.fixture
def world(tmp_path) -> OverlayWorld:
    world = open_world(tmp_path)
    for uuid in (world.web, world.db, world.mill):
        world.host.guests[uuid].memory_used_kib = USED_KIB
    return world


def guest(world, uuid):
    return world.host.guests[uuid].guest


def originals(world, uuid) -> dict:
    """What whoever finds the domain gives back."""
    journal = world.host.guests[uuid].journal
    return {held.knob: held.original for held in journal.held} if journal else {}


def test_a_server_is_tuned_up_and_down_between_two_ticks(world):
    assert world.call(Verb.TUNE, world.web, direction=UP).nack is None
    raised = world.weight(world.web)
    assert raised > GIVEN
    assert world.call(Verb.TUNE, world.web, direction=DOWN).nack is None
    assert world.weight(world.web) == GIVEN
    assert world.call(Verb.TUNE, world.web, direction=DOWN).nack is None
    assert guest(world, world.web).quota != NO_QUOTA
    world.tick()
    assert guest(world, world.web).quota != NO_QUOTA, "the next tick keeps what a call brought"


def test_a_server_gets_less_memory_and_more_again(world):
    before = guest(world, world.web).memory_size
    assert world.call(Verb.TUNE, world.web, resource=MEMORY, direction=DOWN).nack is None
    assert guest(world, world.web).memory_size < before
    world.tick(2)
    assert guest(world, world.web).memory_size < before
    assert world.call(Verb.TUNE, world.web, resource=MEMORY, direction=UP).nack is None
    assert guest(world, world.web).memory_size == before
    assert world.call(Verb.TUNE, world.web, resource=MEMORY, direction=UP).nack is Nack.NO_ROOM


def test_the_threads_of_network_and_disks_get_more_and_less_beside_the_vcpus(world):
    before = guest(world, world.web)
    assert world.call(Verb.TUNE, world.web, resource=IO).nack is None
    doubled = GIVEN_TO_EMULATOR._replace(number=200)
    assert guest(world, world.web) == before._replace(emulator_weight=doubled)
    world.tick(2)
    assert guest(world, world.web).emulator_weight == doubled
    assert world.call(Verb.TUNE, world.web, resource=IO, direction=DOWN).nack is None
    assert guest(world, world.web).emulator_weight == GIVEN_TO_EMULATOR


@pytest.mark.parametrize(("way", "within"), [("exempt", 1), ("unregistered", 1), ("mode", 60)])
def test_what_was_tuned_of_them_goes_back_once_it_may_not_stand(world, way, within):
    """In mode observe with its lease."""
    assert world.call(Verb.TUNE, world.web, resource=IO).nack is None
    if way == "mode":
        world.control.set_mode(Mode.OBSERVE)
    elif way == "exempt":
        override = ServerOverride(exempt=True)
        world.control.take_overrides(overrides_text(1, {world.web: override}))
    else:
        world.tell({MILLS: (world.mill,)})
    world.tick(within)
    assert guest(world, world.web).emulator_weight == GIVEN_TO_EMULATOR


@pytest.mark.parametrize("change", ["no driver", "passed through", "all is used"])
def test_memory_that_cannot_be_given_up_is_refused(world, change):
    entry = world.host.guests[world.web]
    if change == "no driver":
        entry.memory_used_kib = None
    elif change == "passed through":
        world.host.change(world.web, balloon_obstacle="a device is passed through to it")
        world.tick()
    else:
        entry.memory_used_kib = entry.guest.memory_kib
    before = entry.guest.memory_size
    answer = world.call(Verb.TUNE, world.web, resource=MEMORY, direction=DOWN)
    assert answer.nack is (Nack.NO_ROOM if change == "all is used" else Nack.NO_BALLOON)
    assert entry.guest.memory_size == before


def test_servers_that_are_triggered_go_first_at_once_and_for_a_moment(world):
    answer = world.call(Verb.TRIGGER, lease_s=0.5)
    assert (answer.nack, answer.lease_s) == (None, 0.5)
    assert world.weight(world.web) > GIVEN
    assert world.weight(world.db) > GIVEN
    world.agent.answer_calls(world.now_s + 0.4)
    assert world.weight(world.web) > GIVEN
    world.agent.answer_calls(world.now_s + 0.6)
    assert (world.weight(world.web), world.weight(world.db)) == (GIVEN, GIVEN), "before a tick"


def test_without_credit_nobody_is_triggered(world):
    answers = [world.call(Verb.TRIGGER, world.web) for _ in range(1)]
    assert answers[0].nack is None
    while (answer := world.call(Verb.TRIGGER)).nack is None:
        world.now_s += 1.01
        world.agent.answer_calls(world.now_s)
    assert answer.nack is Nack.NO_CREDIT
    assert (world.weight(world.web), world.weight(world.db)) == (GIVEN, GIVEN)


def at_home(world) -> None:
    """Each in an island: the shop in one, the mill in the other."""
    low, high = (domain.cpus for domain in world.host.topology.domains)
    for uuid, cpus in ((world.web, low), (world.db, low), (world.mill, high)):
        world.host.change(uuid, placement=cpus)
    world.tick()


def test_cpus_are_borrowed_from_another_island_and_go_back(world):
    at_home(world)
    low, high = (domain.cpus for domain in world.host.topology.domains)
    assert world.call(Verb.BORROW, world.web, cpus=1).nack is None
    borrowed = guest(world, world.web).placement - low
    assert len(borrowed) == 1
    assert guest(world, world.mill).placement == high - borrowed
    world.tick(3)
    assert guest(world, world.web).placement == low | borrowed, "for as long as its lease"
    assert world.call(Verb.BORROW, world.web, cpus=64).nack is Nack.NO_ROOM
    answer = world.call(Verb.BORROW, world.web, cpus=1, island="nowhere")
    assert answer.nack is Nack.UNKNOWN_ISLAND
    assert world.call(Verb.RELEASE).nack is None
    world.tick()
    assert guest(world, world.web).placement == low
    assert guest(world, world.mill).placement == high


@pytest.mark.parametrize("who", ["the timer", "the next agent", "the end"])
def test_borrowed_cpus_go_back_whoever_ends_it(world, tmp_path, who):
    at_home(world)
    before = {uuid: guest(world, uuid).placement for uuid in (world.web, world.db, world.mill)}
    assert world.call(Verb.BORROW, world.web, cpus=1).nack is None
    assert {uuid: guest(world, uuid).placement for uuid in before} != before
    if who == "the timer":
        assert release_expired(world, tmp_path / "run").failed == ()
    elif who == "the next agent":
        world.start_agent()
        world.control.set_mode(Mode.OBSERVE)
        world.tick()
    else:
        world.agent.give_back(waits=True)
    assert {uuid: guest(world, uuid).placement for uuid in before} == before


@pytest.mark.parametrize("way", ["ends", "reboots"])
def test_a_lender_that_ends_or_reboots_takes_nobody_along(world, way):
    at_home(world)
    assert world.call(Verb.BORROW, world.web, cpus=1).nack is None
    if way == "ends":
        world.host.end(world.mill)
    else:
        reboot(world, world.mill)
    world.tick(2)
    assert len(guest(world, world.web).placement) == 5, "it keeps what it borrowed"
    assert world.call(Verb.RELEASE).nack is None
    world.tick()
    assert guest(world, world.web).placement == world.host.topology.domains[0].cpus


def test_what_is_released_goes_back_at_once(world):
    world.call(Verb.TUNE, world.web)
    world.call(Verb.TUNE, world.db, resource=MEMORY, direction=DOWN)
    assert world.call(Verb.RELEASE).nack is None
    assert world.weight(world.web) == GIVEN
    assert guest(world, world.db).memory_size == MemorySize(guest(world, world.db).memory_kib)
    assert world.call(Verb.RELEASE).nack is Nack.NOTHING_TO_RELEASE


def test_a_call_for_anothers_server_or_of_an_unknown_overlay_is_refused(world):
    assert world.call(Verb.TUNE, world.mill).nack is Nack.NOT_A_MEMBER
    assert world.call(Verb.TUNE, world.web, of="nobody's").nack is Nack.UNKNOWN_OVERLAY
    call = a_call(Verb.TUNE, world.web)
    assert world.control.call_overlay(call, "another project").nack is Nack.UNKNOWN_OVERLAY
    assert world.weight(world.web) == GIVEN


def test_in_mode_advise_a_call_is_refused_and_changes_nothing(world):
    world.control.set_mode(Mode.ADVISE)
    assert world.call(Verb.TUNE, world.web).nack is Nack.MODE
    assert world.weight(world.web) == GIVEN


def test_a_server_that_is_novas_is_left_alone(world):
    world.host.change(world.web, unmanaged=Unmanaged.DEDICATED_CPUS)
    world.tick()
    assert world.call(Verb.TUNE, world.web).nack is Nack.UNMANAGED


def test_what_the_host_does_not_do_is_refused_with_its_words(world):
    world.host.guests[world.web].refuses = "no cgroup"
    answer = world.call(Verb.TUNE, world.web)
    assert (answer.nack, answer.detail) == (Nack.HOST_REFUSED, "no cgroup")
    world.host.guests[world.web].refuses = ""
    world.tick()
    assert world.weight(world.web) == GIVEN


def test_a_server_that_has_just_ended_is_refused(world):
    world.host.end(world.web)
    assert world.call(Verb.TUNE, world.web).nack is Nack.HOST_REFUSED
    world.tick()
    assert world.call(Verb.TUNE, world.web).nack is Nack.NOT_A_MEMBER


def test_while_libvirt_is_away_calls_are_refused(world):
    world.host.is_up = False
    assert world.call(Verb.TUNE, world.web).nack is Nack.HOST_REFUSED


def test_before_the_first_tick_calls_are_refused(tmp_path):
    world = OverlayWorld(tmp_path).open()
    world.start_agent()
    assert world.call(Verb.TUNE, world.web).nack is Nack.HOST_REFUSED


def test_a_call_writes_no_journal_and_all_it_changes_can_be_undone(world):
    """Registering the overlay has written the originals."""
    before = {uuid: world.host.guests[uuid].journal for uuid in (world.web, world.db)}
    assert originals(world, world.web) == {
        Knob.CPU_CAP: NO_QUOTA,
        Knob.CPU_WEIGHT: GIVEN,
        Knob.PLACEMENT: (guest(world, world.web).allowed_cpus,),
        Knob.MEMORY_SIZE: MemorySize(guest(world, world.web).memory_kib),
        Knob.EMULATOR_WEIGHT: GIVEN_TO_EMULATOR,
    }
    world.call(Verb.TUNE, world.web)
    world.call(Verb.TRIGGER, world.db)
    world.call(Verb.TUNE, world.db, resource=MEMORY, direction=DOWN)
    world.call(Verb.TUNE, world.web, resource=IO)
    assert {uuid: world.host.guests[uuid].journal for uuid in before} == before


def test_in_mode_observe_nothing_is_journalled_beforehand(world):
    world.control.set_mode(Mode.OBSERVE)
    world.tick()
    assert all(entry.journal is None for entry in world.host.guests.values())


def is_untouched(world) -> bool:
    return all(
        entry.journal is None
        and entry.guest.cpu_weight == GIVEN
        and entry.guest.emulator_weight == GIVEN_TO_EMULATOR
        and entry.guest.quota == NO_QUOTA
        and entry.guest.memory_size.kib == entry.guest.memory_kib
        and entry.guest.placement == entry.guest.allowed_cpus
        for entry in world.host.guests.values()
    )


def busy(world) -> None:
    """Something of every kind stands."""
    world.call(Verb.TUNE, world.web)
    world.call(Verb.TUNE, world.db, direction=DOWN)
    world.call(Verb.TUNE, world.db, resource=MEMORY, direction=DOWN)
    world.call(Verb.TUNE, world.db, resource=IO)
    world.call(Verb.TRIGGER, world.mill, of=MILLS)
    assert guest(world, world.db).emulator_weight.number == 2 * GIVEN_TO_EMULATOR.number
    assert not is_untouched(world)


def release_expired(world, folder):
    """By another process: it knows the journal of the domains alone."""
    host = world.agent._host
    journal = host.journal._inner
    executor = Executor(journal, host.executor._actuators, 0)
    return Release(RunFolder(str(folder)), host.guests, journal, executor, (host.epoch,)).expired()


def test_of_a_killed_agent_the_timer_gives_everything_back(world, tmp_path):
    busy(world)
    released = release_expired(world, tmp_path / "run")
    assert released.failed == ()
    assert is_untouched(world)


def test_of_a_killed_agent_the_next_one_gives_everything_back(world):
    busy(world)
    world.start_agent()
    world.control.set_mode(Mode.OBSERVE)
    world.tick()
    assert is_untouched(world)


def test_at_its_end_an_agent_gives_everything_back(world):
    busy(world)
    world.agent.give_back(waits=True)
    assert is_untouched(world)


def test_at_the_end_of_a_run_nothing_is_journalled_either(world):
    busy(world)
    stop = threading.Event()
    world.agent.run(stop, 0.0, stop.set, lambda: None)
    assert is_untouched(world)


def test_a_server_that_is_about_to_be_migrated_carries_nothing(world):
    busy(world)
    holds = MigrationHolds(lambda _: True, lambda *_: None)
    world.agent._cluster = Cluster(None, holds)
    with ThreadPoolExecutor(1) as pool:
        prepared = pool.submit(holds.prepare, "e-1", world.db, 60.0)
        wait_until(lambda: holds._orders, "it is asked for")
        world.agent.picture(world.now_s)
        assert prepared.result(5).ready
    left = world.host.guests[world.db]
    assert left.journal is None
    assert left.guest.memory_size.kib == left.guest.memory_kib
    assert left.guest.cpu_weight == GIVEN
    assert left.guest.emulator_weight == GIVEN_TO_EMULATOR


def test_a_server_that_is_ready_to_be_migrated_takes_no_calls_and_others_do(world):
    holds = MigrationHolds(lambda _: True, lambda *_: None)
    world.agent._cluster = Cluster(SimpleNamespace(submit=lambda decision: None), holds)
    with ThreadPoolExecutor(1) as pool:
        prepared = pool.submit(holds.prepare, "e-1", world.db, 60.0)
        wait_until(lambda: holds._orders, "it is asked for")
        world.tick()
        assert prepared.result(5).ready
    left = world.host.guests[world.db]
    carried = left.guest
    assert left.journal is None
    for about in (
        {},
        {"direction": DOWN},
        {"resource": MEMORY, "direction": DOWN},
        {"resource": IO},
    ):
        assert world.call(Verb.TUNE, world.db, **about).nack is Nack.UNMANAGED
    assert world.call(Verb.TRIGGER, world.db).nack is Nack.UNMANAGED
    assert (left.journal, left.guest) == (None, carried)
    assert world.call(Verb.TUNE, world.web, direction=DOWN).nack is None


def test_a_target_that_changes_with_every_call_changes_nothing_else(world):
    while world.call(Verb.TRIGGER).nack is not Nack.NO_CREDIT:
        world.now_s += 1.01
        world.agent.answer_calls(world.now_s)
    assert world.call(Verb.TUNE, world.web, direction=DOWN).nack is None
    before = standing(world)
    for target in range(100):
        told = {SHOP: (world.web, world.db), MILLS: (world.mill,)}
        assert world.tell(told, target=float(target)) is None
        assert world.call(Verb.TRIGGER).nack in (Nack.NO_CREDIT, Nack.TOO_MANY_CALLS)
    assert standing(world) == before


def standing(world) -> list:
    """Of all servers, and what their journals say."""
    return [(one.guest, one.journal) for one in world.host.guests.values()]


def test_an_overlay_that_ends_leaves_nothing(world):
    busy(world)
    world.tell({})
    world.tick(3)
    assert is_untouched(world)


def test_a_server_that_leaves_its_overlay_keeps_nothing_of_it(world):
    before = guest(world, world.db)
    busy(world)
    assert guest(world, world.db).quota != before.quota
    world.tell({SHOP: (world.web,)})
    world.tick(3)
    assert guest(world, world.db)._replace(cpu_time_ns=0) == before._replace(cpu_time_ns=0)
    assert originals(world, world.db) == {}
    assert world.weight(world.web) > GIVEN


def test_a_restarted_agent_knows_its_overlays_and_takes_no_older_ones(world):
    world.tell({SHOP: (world.web,)}, version=500)
    world.start_agent()
    assert world.control.overlays.by_id[SHOP].members == {world.web}
    assert world.tell({}, version=499) == 500
    world.tick(2)
    assert world.call(Verb.TUNE, world.web).nack is None
    assert world.call(Verb.TUNE, world.db).nack is Nack.NOT_A_MEMBER


def test_a_call_that_is_made_again_is_done_once(world):
    call = a_call(Verb.TUNE, world.web)
    [first] = world.calls(call)
    raised = world.weight(world.web)
    assert world.control.call_overlay(call, None) == first
    assert world.weight(world.web) == raised
    [again] = world.calls(replace_id(call))
    assert (again.nack, world.weight(world.web) > raised) == (None, True)


def replace_id(call):
    return call._replace(id=f"{call.id}-again")


def test_a_flood_of_one_overlay_is_refused_and_keeps_nobody_else_waiting(world):
    flood = [a_call(Verb.TUNE, world.web) for _ in range(40)]
    answers = world.calls(*flood, a_call(Verb.TUNE, world.mill, MILLS))
    assert answers[-1].nack is None
    refused = [one for one in answers[:-1] if one.nack is Nack.TOO_MANY_CALLS]
    assert len(refused) >= len(flood) - 16
    assert isinstance(refused[0], CallAnswer)
    totals = world.control.calls.totals()
    assert totals[Nack.TOO_MANY_CALLS] == len(refused)
    assert sum(totals.values()) == len(answers)


def test_two_overlays_that_fight_each_get_their_own_and_nothing_of_the_other(world):
    for _ in range(6):
        world.calls(a_call(Verb.TUNE, world.web), a_call(Verb.TUNE, world.mill, MILLS))
        world.tick()
    for uuid in (world.web, world.mill):
        assert world.weight(uuid) > GIVEN
        assert guest(world, uuid).quota == NO_QUOTA
    world.call(Verb.RELEASE)
    world.call(Verb.RELEASE, of=MILLS)
    assert (world.weight(world.web), world.weight(world.mill)) == (GIVEN, GIVEN)


def test_a_server_that_reboots_softly_begins_anew(world):
    busy(world)
    reboot(world, world.web)
    world.tick(3)
    assert originals(world, world.web)[Knob.CPU_WEIGHT] == GIVEN
    assert world.weight(world.web) == GIVEN, "what it was granted ended with it"
    assert world.call(Verb.TUNE, world.web).nack is None
    assert world.weight(world.web) > GIVEN


def reboot(world, uuid) -> None:
    world.host.reboot(uuid)
    world.counters.start(uuid, 1, guest(world, uuid).generation)
