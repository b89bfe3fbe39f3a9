# SPDX-License-Identifier: Apache-2.0
"""The real loop over fake drivers: what the host *is* after ticks, kills, restarts and orders."""

import contextlib
import json
import math
import socket
import subprocess
import threading
from dataclasses import replace

import pytest

from nova_vp import wire
from nova_vp.core.types.action import Result
from nova_vp.core.types.cpu_time import CpuTimes, HostCpuTimes
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.policy import Mode
from tests.decisions import PROFILE, facts
from tests.host_subjects import an_applied
from tests.policies import a_policy
from tests.unit.agent_host import World, a_hurt_pair
from tests.unit.core.build import CHASE, COMPUTE
from tests.waiting import wait_until
from vp_agent.cli.release import LEASE_S, Release
from vp_agent.commands import NotAdvising, UnknownAction
from vp_agent.drivers.base import HostUnavailable
from vp_agent.drivers.fake import FakeActuator, FakeGuests, FakeJournal
from vp_agent.loop.control_socket import AlreadyRunning, NoAgent, Refused, RunFolder, Server, ask
from vp_agent.loop.executor import Executor
from vp_agent.loop.state import StateFolder
from vp_agent.publish.report import report
from vp_agent.wiring import by_knob

FLOATING = a_policy(home_on_arrival="never")


class Killed(BaseException):
    """SIGKILL, as the code under test can never catch it by accident."""


class Deadly:
    """A driver that dies before or after its nth call of one method."""

    def __init__(self, driver, method: str, when: str) -> None:
        self._driver = driver
        self._method = method
        self._when = when
        self.armed = True

    def __getattr__(self, name):
        call = getattr(self._driver, name)
        if name != self._method or not self.armed:
            return call

        def die(*args):
            if self._when == "after":
                call(*args)
            raise Killed

        return die


def live_and_stop(world: World) -> None:
    world.tick(3)
    world.agent.give_back(waits=True)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "state")


KILLS = [
    (driver, method, when)
    for driver, methods in (
        ("journal", ("write", "drop")),
        ("actuator", ("apply", "restore")),
    )
    for method in methods
    for when in ("before", "after")
]


@pytest.mark.needs_controllers("initial_placement")
@pytest.mark.parametrize("then", ["restarted", "released"])
@pytest.mark.parametrize(("driver", "method", "when"), KILLS)
def test_killed_at_any_step_everything_is_given_back(world, driver, method, when, then):
    journal, actuator = FakeJournal(world.host), FakeActuator(world.host)
    uuid = world.boot(CHASE)
    deadly = Deadly(journal if driver == "journal" else actuator, method, when)
    world.start_agent(**{driver: deadly})
    with pytest.raises(Killed):
        live_and_stop(world)
    if then == "restarted":
        world.policy = FLOATING
        world.start_agent()
        world.tick()
    else:
        folder = RunFolder(str(world.folder / "run"))
        state = StateFolder(str(world.folder))
        executor = Executor(journal, by_knob(actuator), epoch=0)
        undo = Release(folder, FakeGuests(world.host), journal, executor, state.epochs())
        assert not undo.everything().failed
    assert world.is_untouched(uuid)


def nothing():
    """For a beat that nobody waits for."""


@pytest.mark.needs_controllers("vp")
def test_the_hurt_pair_is_separated_and_given_back_on_stop(world):
    world.policy = FLOATING
    world.start_agent()
    victim, neighbour = a_hurt_pair(world)
    world.tick(2)
    assert not world.placement(victim) & world.placement(neighbour)
    assert [o.action.reason.code for o in world.heard.outcomes] == ["move-aggressor"]
    stop = threading.Event()
    stop.set()
    held_at_the_end = []
    world.agent.run(
        stop, 1.0, nothing, lambda: held_at_the_end.append(world.host.guests[neighbour].journal)
    )
    assert len(held_at_the_end) == 1
    assert held_at_the_end[0] is not None, "systemd is told before anybody is given back"
    assert world.host.guests[neighbour].journal is None
    assert world.placement(neighbour) == set(world.host.topology.domains[0].cpus)


def test_what_was_learned_since_the_last_write_outlives_the_stop(world):
    world.start_agent()
    uuid = world.boot(CHASE)
    world.tick(4)  # Within the time in which nothing is written again.
    stop = threading.Event()
    stop.set()
    world.agent.run(stop, 1.0, nothing, nothing)
    kept = StateFolder(str(world.folder)).profiles()
    assert kept == world.agent.state.undisturbed
    assert kept[uuid].sensitivity.cache


def test_who_was_not_measured_yet_is_not_forgotten(world):
    uuid = world.boot(CHASE)
    StateFolder(str(world.folder)).set_profiles({uuid: PROFILE, "gone": PROFILE})
    world.start_agent()
    stop = threading.Event()
    stop.set()
    world.agent.run(stop, 1.0, nothing, nothing)
    assert StateFolder(str(world.folder)).profiles().keys() == {uuid, "gone"}, "nobody looked"
    world.tick()
    assert StateFolder(str(world.folder)).profiles() == {uuid: PROFILE}


def test_what_misses_cost_outlives_a_restart(world):
    world.start_agent()
    uuid = world.boot(COMPUTE)
    for mpki in (5.0, 6.0, 10.0, 12.0, 20.0) * 4:
        rates = replace(COMPUTE, l2_mpki=30.0, mpki=mpki, cpi=1.7 + 0.06 * mpki)
        world.rates[uuid] = rates
        world.tick()
    stop = threading.Event()
    stop.set()
    world.agent.run(stop, 1.0, nothing, nothing)
    known = world.agent.state.vps[uuid].miss_cost
    assert known.weight > 10
    world.start_agent()
    world.tick()
    assert world.agent.state.vps[uuid].miss_cost.weight == pytest.approx(known.weight, rel=0.01)


def test_an_arriving_migrant_gets_novas_bound_of_this_host(world):
    world.policy = FLOATING
    world.start_agent()
    uuid = world.boot(CHASE)
    entry = world.host.guests[uuid]
    entry.journal = an_applied(uuid, frozenset({1}), frozenset({0, 1}), epoch=4711)
    world.host.change(uuid, placement=frozenset({1}))
    world.tick()
    assert world.is_untouched(uuid)
    assert world.placement(uuid) == set(world.host.topology.cpus)


def test_a_migrant_still_arriving_is_not_touched(world):
    world.policy = FLOATING
    world.start_agent()
    uuid = world.boot(CHASE)
    entry = world.host.guests[uuid]
    entry.journal = an_applied(uuid, frozenset({1}), frozenset({0, 1}), epoch=4711)
    world.host.change(uuid, unmanaged=Unmanaged.MIGRATING)
    entry.refuses = "a migration job is under way"
    world.tick(2)
    assert entry.journal is not None
    entry.refuses = ""
    world.host.change(uuid, unmanaged=None)
    world.tick()
    assert world.is_untouched(uuid)


def test_a_crash_restart_restores_exactly_what_stood_there(world):
    world.policy = FLOATING
    world.start_agent()
    _, neighbour = a_hurt_pair(world)
    world.tick(2)
    world.policy = replace(FLOATING, moves_per_minute=0)
    world.start_agent()
    world.tick()
    assert world.placement(neighbour) == set(world.host.topology.domains[0].cpus)
    assert world.host.guests[neighbour].journal is None


@pytest.mark.needs_controllers("vp")
def test_runs_that_end_before_their_first_tick_lose_no_original(world):
    world.policy = FLOATING
    world.start_agent()
    _, neighbour = a_hurt_pair(world)
    world.tick(2)
    home = set(world.host.topology.domains[0].cpus)
    assert world.placement(neighbour) != home
    world.policy = replace(FLOATING, moves_per_minute=0)
    for _ in range(3):
        world.start_agent()
    world.tick()
    assert world.placement(neighbour) == home


def test_epochs_of_the_last_runs_are_known_and_no_more(tmp_path):
    epochs = [StateFolder(str(tmp_path)).next_epoch() for _ in range(20)]
    known = StateFolder(str(tmp_path)).epochs()
    assert list(known) == epochs[: -len(known) - 1 : -1]
    assert len(known) == 16


def test_libvirt_away_costs_ticks_and_nothing_else(world):
    world.start_agent()
    uuid = world.boot(CHASE)
    world.tick(2)
    placed = world.placement(uuid)
    world.host.is_up = False
    with pytest.raises(HostUnavailable):
        world.tick()
    world.host.is_up = True
    world.tick(2)
    assert world.placement(uuid) == placed


@pytest.mark.needs_controllers("initial_placement")
def test_guests_come_go_and_reboot_under_the_agent(world):
    world.start_agent()
    first, second = world.boot(COMPUTE), world.boot(CHASE)
    world.tick(3)
    world.host.end(first)
    del world.rates[first]
    world.host.reboot(second)
    world.counters.start(second, 1, world.host.guests[second].guest.generation)
    decision = world.tick(2)
    assert [view.guest.uuid for view in decision.vps] == [second]
    assert len(world.placement(second)) < len(world.host.topology.cpus)


@pytest.mark.needs_controllers("initial_placement")
def test_a_foreign_pin_is_left_and_its_journal_dropped(world):
    world.start_agent()
    uuid = world.boot(CHASE)
    world.tick(2)
    world.host.change(uuid, placement=frozenset({2}))
    decision = world.tick(2)
    assert world.placement(uuid) == {2}
    assert world.host.guests[uuid].journal is None
    assert decision.vps[0].guest.unmanaged is Unmanaged.FOREIGN_CHANGE


@pytest.mark.needs_controllers("initial_placement")
def test_a_refused_change_is_an_outcome_and_leaves_no_journal(world):
    world.start_agent()
    uuid = world.boot(CHASE)
    world.host.guests[uuid].refuses = "no such CPU today"
    world.tick()
    assert world.heard.outcomes[0].result is Result.FAILED
    assert "no such CPU today" in world.heard.outcomes[0].detail
    assert world.is_untouched(uuid)


def test_mode_is_remembered_across_restarts(world):
    world.start_agent()
    world.control.set_mode(Mode.ADVISE)
    world.mode = Mode.OBSERVE
    world.start_agent()
    assert world.control.commanded().mode is Mode.ADVISE


@pytest.mark.needs_controllers("initial_placement")
def test_what_every_run_does_anew_has_an_id_of_its_own_in_each(world):
    world.boot(CHASE)
    for _ in range(2):
        world.start_agent()
        live_and_stop(world)
    homed = [outcome.action for outcome in world.heard.outcomes]
    assert [action.reason.code for action in homed] == ["home-on-arrival"] * 2
    assert len({action.id for action in homed}) == 2


@pytest.mark.needs_controllers("vp")
def test_advise_proposes_and_applies_what_is_accepted(world):
    world.mode, world.policy = Mode.ADVISE, FLOATING
    world.start_agent()
    _, neighbour = a_hurt_pair(world)
    before = world.placement(neighbour)
    [proposal] = world.tick(3).proposals
    assert world.placement(neighbour) == before
    with pytest.raises(UnknownAction, match=proposal.id):
        world.control.accept("vp-nonsense")
    world.control.accept(proposal.id)
    world.tick()
    assert not world.placement(neighbour) & before


def test_observe_accepts_nothing_and_says_how_to_change_that(world):
    world.mode = Mode.OBSERVE
    world.start_agent()
    with pytest.raises(NotAdvising, match="vp mode set advise"):
        world.control.accept("vp-1")


def test_the_socket_serves_status_mode_and_errors(world, tmp_path):
    world.start_agent()
    folder = RunFolder(str(tmp_path))
    server = Server(folder, world.control, lambda: {"mode": "seen"}, world.recorder.order)
    try:
        assert ask(folder, "status") == {"mode": "seen"}
        ask(folder, "mode", "observe")
        assert world.control.commanded().mode is Mode.OBSERVE
        with pytest.raises(Refused, match="advise"):
            ask(folder, "accept", "x")
        with pytest.raises(Refused, match="known commands: status, mode"):
            ask(folder, "dance", "nonsense")
        with pytest.raises(Refused, match="'nonsense' is not a mode: use one of observe"):
            ask(folder, "mode", "nonsense")
    finally:
        server.close()
    with pytest.raises(NoAgent, match="systemctl start vp-agent"):
        ask(folder, "status")


@pytest.mark.needs_controllers("vp")
def test_release_of_a_living_agent_goes_through_it(world, tmp_path):
    world.policy = replace(FLOATING)
    world.start_agent()
    _, neighbour = a_hurt_pair(world)
    world.tick(2)
    folder = RunFolder(str(tmp_path))
    executor = Executor(FakeJournal(world.host), by_knob(FakeActuator(world.host)), epoch=0)
    stop = threading.Event()
    server = Server(folder, world.control, dict, world.recorder.order)
    loop = threading.Thread(target=world.agent.run, args=(stop, 0.05, folder.beat, nothing))
    loop.start()
    try:
        with folder.locked():
            journal = FakeJournal(world.host)
            done = Release(folder, FakeGuests(world.host), journal, executor, ()).everything()
        assert done.restored == (neighbour,)
        assert world.host.guests[neighbour].journal is None
        assert world.control.commanded().mode is Mode.OBSERVE
    finally:
        stop.set()
        loop.join()
        server.close()


@pytest.mark.needs_controllers("initial_placement")
def test_expired_leases_are_those_of_a_silent_agent(world, tmp_path):
    world.start_agent()
    uuid = world.boot(CHASE)
    world.tick(2)
    folder = RunFolder(str(tmp_path))
    journal = FakeJournal(world.host)
    executor = Executor(journal, by_knob(FakeActuator(world.host)), epoch=0)
    undo = Release(folder, FakeGuests(world.host), journal, executor, ())
    with folder.locked():
        folder.beat()
        assert "nothing has expired" in undo.expired().note
        assert not world.is_untouched(uuid)
        beat = folder.path / "agent.alive"
        beat.write_text(str(float(beat.read_text()) - LEASE_S - 1))
        assert undo.expired().restored == (uuid,)
    assert world.is_untouched(uuid)


@pytest.mark.needs_controllers("initial_placement")
def test_a_dead_agents_leases_have_expired(world, tmp_path):
    world.start_agent()
    uuid = world.boot(CHASE)
    world.tick(2)
    folder = RunFolder(str(tmp_path))
    folder.beat()
    journal = FakeJournal(world.host)
    executor = Executor(journal, by_knob(FakeActuator(world.host)), epoch=0)
    undo = Release(folder, FakeGuests(world.host), journal, executor, ())
    assert undo.expired().restored == (uuid,)


def test_one_agent_per_host(tmp_path):
    folder = RunFolder(str(tmp_path))
    with (
        folder.locked(),
        pytest.raises(AlreadyRunning, match="vp-agent status"),
        RunFolder(str(tmp_path)).locked(),
    ):
        pass


def test_epochs_grow_even_when_the_clock_jumped_back(tmp_path):
    state = StateFolder(str(tmp_path))
    future = state.next_epoch() + 10**12
    (tmp_path / "epoch").write_text(str(future))
    assert StateFolder(str(tmp_path)).next_epoch() == future + 1
    (tmp_path / "epoch").write_text(str(2**60))
    assert 0 < StateFolder(str(tmp_path)).next_epoch() < 2**53


def test_a_full_disk_keeps_no_agent_from_starting(tmp_path, caplog):
    """Only whoever starts can revert what a crash left. The epoch goes over the old one, which
    takes no room; a file of a new name could not be made."""
    first, before = (StateFolder(str(tmp_path)).next_epoch() for _ in range(2))
    (tmp_path / "epoch.new").mkdir()
    epoch = StateFolder(str(tmp_path)).next_epoch()
    assert first < before < epoch
    assert StateFolder(str(tmp_path)).epochs() == (epoch, before)
    assert caplog.text == ""


@pytest.mark.parametrize("old", [None, "1"])
def test_an_epoch_that_cannot_be_kept_is_told(tmp_path, caplog, old):
    (tmp_path / "epoch.new").mkdir()
    if old is not None:
        (tmp_path / "epoch").write_text(old)
    assert StateFolder(str(tmp_path)).next_epoch() > 1
    assert "epoch not saved" in caplog.text
    assert str(tmp_path) in caplog.text
    assert StateFolder(str(tmp_path)).last_epoch() == int(old or 0)


def test_damaged_state_files_cost_their_content_and_nothing_else(tmp_path):
    state = StateFolder(str(tmp_path))
    (tmp_path / "epoch").write_text("soup")
    (tmp_path / "mode").write_text("soup")
    assert state.next_epoch() > 0
    assert state.mode(Mode.OBSERVE) is Mode.OBSERVE
    for text in ("", "[]", "{", "[" * 9999, json.dumps({"a": 1}), json.dumps({"a": {"state": 99}})):
        (tmp_path / "profiles.json").write_text(text)
        assert state.profiles() == {}


@pytest.mark.parametrize("field", ["state", "sensitivity", "l2_mpki", "cpi", "pressures"])
@pytest.mark.parametrize("value", [None, "soup", [], {"a": "soup"}, math.nan, math.inf, 10**400])
def test_profiles_with_a_wrong_value_are_not_believed(world, field, value):
    world.start_agent()
    uuid = world.boot(CHASE)
    world.tick(12)
    file = world.folder / "profiles.json"
    profiles = json.loads(file.read_text())
    profiles[uuid][field] = value
    file.write_text(json.dumps(profiles))
    world.start_agent()
    assert world.agent.state.profiles == {}
    world.tick(3)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ('"cache": true', '"cache": [1]'),
        ('"memory_ratio": 1.0', '"memory_ratio": 0.0'),
        ('"memory_ratio": 1.0', '"memory_ratio": 5e-324'),
        ('"sibling_speed": 1.0', '"sibling_speed": 0.0'),
        ('"cpi": 1.0', '"cpi": 0'),
        ('"mpki": 5.0', '"mpki": -5.0'),
        ('"mpki": 5.0', '"mpki": 1e300'),
    ],
)
def test_a_profile_that_nobody_can_calculate_with_is_not_believed(tmp_path, good, bad):
    state = StateFolder(str(tmp_path))
    state.set_profiles({"u1": PROFILE})
    assert state.profiles() == {"u1": PROFILE}
    file = tmp_path / "profiles.json"
    assert good in file.read_text()
    file.write_text(file.read_text().replace(good, bad))
    assert state.profiles() == {}


def test_what_is_wrong_in_a_profile_is_told_in_one_short_line(tmp_path, caplog):
    state = StateFolder(str(tmp_path))
    state.set_profiles({"u1": PROFILE})
    file = tmp_path / "profiles.json"
    file.write_text(file.read_text().replace('"cpi"', json.dumps("cp\u2028" + 9999 * "[")))
    assert state.profiles() == {}
    [told] = caplog.messages
    assert "unexpected keyword" in told
    assert len(told.removeprefix(str(tmp_path))) < 300
    assert told.isascii()


@contextlib.contextmanager
def full_disk(path):
    """A mounted folder of 16 KiB in which nothing is left."""
    path.mkdir(exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "vp-test", path], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr.decode()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def fill(path):
    with contextlib.suppress(OSError), open(path / "filler", "wb", buffering=0) as file:
        while file.write(b"x" * 512):
            pass


@pytest.mark.needs_controllers("initial_placement")
def test_a_full_disk_refuses_a_mode_and_costs_nothing_else(world):
    with full_disk(world.folder):
        world.start_agent()
        uuid = world.boot(CHASE)
        world.tick(2)
        fill(world.folder)
        with pytest.raises(OSError, match="No space left"):
            world.control.set_mode(Mode.ADVISE)
        world.tick(12)
        assert world.control.commanded().mode is Mode.ENFORCE
        assert not world.is_untouched(uuid)
        assert not list(world.folder.glob("*.new")), "half a file must not fill the disk"
        loop = threading.Thread(target=world.control.release)
        loop.start()
        wait_until(world.control.release_requested, "the order to release")
        world.agent.give_back(waits=True)
        loop.join()
        assert world.control.commanded().mode is Mode.OBSERVE
        assert world.is_untouched(uuid)


def test_a_full_run_folder_stops_no_heartbeat_that_was_there_and_no_agent(tmp_path):
    with full_disk(tmp_path / "run"):
        folder = RunFolder(str(tmp_path / "run"))
        folder.beat()
        fill(folder.path)
        for _ in range(3):
            folder.beat()
            assert folder.silent_for_s() < LEASE_S
        (folder.path / "agent.alive").unlink()
        fill(folder.path)
        folder.beat()
        assert folder.silent_for_s() is None


@pytest.mark.needs_controllers("initial_placement")
def test_whatever_ends_the_loop_everything_is_given_back(world):
    world.start_agent()
    uuid = world.boot(CHASE)
    world.tick(2)
    assert not world.is_untouched(uuid)

    class Unforeseen(Exception):
        pass

    def beat():
        raise Unforeseen

    with pytest.raises(Unforeseen):
        world.agent.run(threading.Event(), 1.0, beat, nothing)
    assert world.is_untouched(uuid)


def test_rude_clients_of_the_socket_disturb_nobody(world, tmp_path, capfd):
    world.start_agent()
    folder = RunFolder(str(tmp_path))
    told = {"mode": "seen" * 100_000}
    server = Server(folder, world.control, lambda: told, world.recorder.order)
    with contextlib.ExitStack() as clients:
        for number in range(100):
            client = clients.enter_context(socket.socket(socket.AF_UNIX))
            client.settimeout(5.0)
            client.connect(str(folder.socket))
            if number % 4:
                client.sendall([b"", b'{"do":"status"}\n', b"\0\xff\n", b"x" * 5000][number % 4])
    assert len(ask(folder, "status")["mode"]) == 400_000
    server.close()
    assert "Traceback" not in capfd.readouterr().err


def test_profiles_survive_a_restart(world):
    world.start_agent()
    uuid = world.boot(CHASE)
    world.tick(12)
    known = world.agent.state.undisturbed[uuid]
    world.start_agent()
    kept = world.agent.state.profiles[uuid]
    assert kept.state == known.state
    assert kept.l2_mpki == pytest.approx(known.l2_mpki, rel=0.05)


def test_cpu_times_and_steal_that_drivers_read_are_reported(world):
    server = world.boot(COMPUTE, cpu_times=CpuTimes(0, 0, 0, "1"))
    world.start_agent()
    world.host.host_cpu = HostCpuTimes(total_ticks=1000, steal_ticks=0)
    world.tick()
    world.host.change(server, cpu_times=CpuTimes(6 * 10**8, 2 * 10**8, 0, "1"))
    world.host.host_cpu = HostCpuTimes(total_ticks=1200, steal_ticks=50)
    decision = world.tick()
    told = report(decision, facts(), wire.MessageVersion(1, 1))
    assert told["vps"][0]["cpu_use"]["waiting_ratio"] == 0.25
    assert told["steal_ratio"] == 0.25
