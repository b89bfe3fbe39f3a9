# SPDX-License-Identifier: Apache-2.0
"""An agent records, a replay decides the same; and what a recording may never do to an agent."""

import json
import os
import resource
import stat
import threading
from argparse import ArgumentParser
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_vp.core.types.action import Result
from nova_vp.core.types.knob import (
    CpuWeight,
    EmulatorWeight,
    Knob,
    LlcShare,
    MembwShare,
    MemorySize,
    Quota,
)
from nova_vp.core.types.policy import Mode, Policy
from nova_vp.core.types.topology import Limits
from nova_vp.recording.file_format import read
from tests.policies import a_policy
from tests.unit.agent_host import World, a_hurt_pair
from tests.unit.core.build import CHASE, CHASE_HURT, COMPUTE, STREAM
from vp_agent.drivers.base import ApplyFailed, GuestGone, HostUnavailable
from vp_agent.loop.control_socket import Refused, RunFolder, Server, ask
from vp_agent.loop.recorder import WAITING_TICKS, CannotRecord, Snapshot, _Writer
from vp_sim import replay
from vp_sim.policies import find
from vp_sim.recorded import RecordedHost, recorded_drivers_of
from vp_sim.replay_log import as_json

FLOATING = a_policy(home_on_arrival="never")


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "state", policy=FLOATING)


def sections_of(file):
    with open(file, newline="\n") as lines:
        return list(read(lines))


def again(file):
    """Every decision of the recorded core, made anew."""
    return [d for s in sections_of(file) for _, d in replay.replay(s)]


def without_tables(decision):
    """The newcomers' tables are kept for some ticks by a hash that is another in each process."""
    return replace(decision, domains=())


def give_back(world):
    """As at a stop."""
    stop = threading.Event()
    stop.set()
    world.agent.run(stop, 1.0, lambda: None, lambda: None)


def assert_same(made, remade):
    assert [without_tables(d) for d in remade] == [without_tables(d) for d in made]


@pytest.mark.needs_controllers("vp")
def test_a_replay_decides_as_the_agent_did(world, tmp_path):
    world.start_agent()
    world.recorder.start(str(tmp_path / "tape"))
    a_hurt_pair(world)
    world.tick(30)
    world.recorder.close()
    made = world.heard.decisions
    assert any(action.reason.code == "move-aggressor" for d in made for action in d.actions)
    assert_same(made, again(tmp_path / "tape"))


def test_a_recording_begun_late_knows_what_went_before(world, tmp_path):
    world.start_agent()
    a_hurt_pair(world)
    world.recorder.start(str(tmp_path / "tape"))
    world.tick(30)
    world.recorder.close()
    assert_same(world.heard.decisions[-30:], again(tmp_path / "tape"))


@pytest.mark.needs_controllers("vp")
def test_what_failed_then_fails_again(world, tmp_path):
    world.start_agent()
    world.recorder.start(str(tmp_path / "tape"))
    _, neighbour = a_hurt_pair(world)
    world.host.guests[neighbour].refuses = "no"
    world.tick(5)
    assert {one.result for one in world.heard.outcomes} == {Result.FAILED}
    world.host.guests[neighbour].refuses = ""
    world.tick(30)
    world.recorder.close()
    assert_same(world.heard.decisions, again(tmp_path / "tape"))


def test_a_restart_and_a_release_begin_a_section(world, tmp_path):
    file = tmp_path / "tape"
    world.start_agent()
    world.recorder.start(str(file))
    a_hurt_pair(world)
    world.tick(5)
    give_back(world)
    world.tick(5)
    world.recorder.close()
    world.start_agent()
    world.recorder.start(str(file))
    world.tick(10)
    world.recorder.close()
    assert [len(section.ticks) for section in sections_of(file)] == [11, 5, 10]
    assert_same(world.heard.decisions, again(file))


RATES = st.sampled_from([COMPUTE, CHASE, CHASE_HURT, STREAM])
NUMBERS = st.integers(0, 5)
STEPS = st.one_of(
    st.tuples(st.just("tick"), st.integers(1, 6)),
    st.tuples(st.just("boot"), RATES),
    st.tuples(st.just("run"), NUMBERS, RATES),
    st.tuples(st.sampled_from(["end", "reboot", "refuse", "by hand", "stop"]), NUMBERS),
    st.tuples(st.just("mode"), st.sampled_from(Mode)),
    st.tuples(st.sampled_from(["away", "release", "record", "accept"])),
)


class Story:
    """A host's life, one step at a time, and the decisions that were recorded of it."""

    def __init__(self, folder: Path, policy: Policy) -> None:
        self.file = folder / "tape"
        self.world = World(folder / "state", policy=policy)
        self.world.start_agent()
        self.world.recorder.start(str(self.file))

    def _guest(self, number):
        uuids = list(self.world.host.guests)
        return uuids[number % len(uuids)] if uuids else None

    def do(self, what, *how) -> None:
        getattr(self, f"_{what.replace(' ', '_')}")(*how)

    def _tick(self, count):
        self.world.tick(count)

    def _boot(self, rates):
        self.world.boot(rates)

    def _run(self, number, rates):
        if uuid := self._guest(number):
            self.world.rates[uuid] = rates

    def _end(self, number):
        if uuid := self._guest(number):
            self.world.host.end(uuid)
            self.world.counters.remove(uuid)
            del self.world.rates[uuid]

    def _reboot(self, number):
        if uuid := self._guest(number):
            self.world.host.reboot(uuid)
            generation = self.world.host.guests[uuid].guest.generation
            self.world.counters.start(uuid, 1, generation)

    def _refuse(self, number):
        if uuid := self._guest(number):
            guest = self.world.host.guests[uuid]
            guest.refuses = "" if guest.refuses else "no"

    def _by_hand(self, number):
        if uuid := self._guest(number):
            self.world.host.change(uuid, placement=frozenset({0}))

    def _stop(self, number):
        if uuid := self._guest(number):
            running = self.world.host.guests[uuid].guest.is_running
            self.world.host.change(uuid, is_running=not running)

    def _mode(self, mode):
        self.world.control.set_mode(mode)

    def _away(self):
        self.world.host.is_up = False
        with pytest.raises(HostUnavailable):
            self.world.tick()
        self.world.host.is_up = True

    def _release(self):
        give_back(self.world)

    def _record(self):
        self.world.recorder.start(str(self.file))

    def _accept(self):
        decision = self.world.control.last()
        is_advising = self.world.control.commanded().mode is Mode.ADVISE
        if decision and decision.proposals and is_advising:
            self.world.control.accept(decision.proposals[0].id)


@pytest.mark.needs_controllers("initial_placement", "merlin", "vp")
@settings(max_examples=40)
@given(
    steps=st.lists(STEPS, max_size=25),
    homing=st.sampled_from(["never", "enforce", "always"]),
    controllers=st.sampled_from(
        [("initial_placement", "vp"), ("initial_placement", "merlin", "vp")]
    ),
)
def test_whatever_happened_a_replay_decides_as_the_agent_did(steps, homing, controllers):
    policy = a_policy(home_on_arrival=homing, controllers=controllers)
    with TemporaryDirectory() as folder:
        story = Story(Path(folder), policy)
        for step in [("boot", CHASE), ("boot", COMPUTE), ("tick", 4), *steps, ("tick", 8)]:
            story.do(*step)
        story.world.recorder.close()
        assert_same(story.world.heard.decisions, again(story.file))


def test_limits_and_policy_travel_along(world, tmp_path):
    world.policy = replace(FLOATING, effect_window_s=7.0)
    world.start_agent()
    world.agent._host = replace(world.agent._host, limits=Limits(3e6))
    world.recorder.start(str(tmp_path / "tape"))
    world.tick(2)
    world.recorder.close()
    [section] = sections_of(tmp_path / "tape")
    assert section.header.policy.effect_window_s == 7.0
    assert section.ticks[0].picture.limits == Limits(3e6)


def test_a_large_recording_is_begun_anew_and_each_part_stands_alone(world, tmp_path):
    world.record_max_bytes = 20_000
    world.start_agent()
    file = tmp_path / "tape"
    world.recorder.start(str(file))
    a_hurt_pair(world)
    world.tick(120)
    world.recorder.close()
    assert {f.name for f in tmp_path.iterdir()} == {"state", "tape", "tape.1"}
    assert sum(f.stat().st_size for f in (file, tmp_path / "tape.1")) < 3 * 20_000
    [old], [new] = sections_of(f"{file}.1"), sections_of(file)
    made = world.heard.decisions
    assert_same(made[-len(new.ticks) :], [d for _, d in replay.replay(new)])
    end = len(made) - len(new.ticks)
    assert_same(made[end - len(old.ticks) : end], [d for _, d in replay.replay(old)])


@contextmanager
def no_file_larger_than(size_bytes):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_ends_the_recording_with_words_and_the_agent_goes_on(world, tmp_path):
    file = tmp_path / "tape"
    world.start_agent()
    world.recorder.start(str(file))
    a_hurt_pair(world)
    with no_file_larger_than(50_000):
        while not world.recorder.state().problem:
            world.tick()
    assert world.recorder.state().file == ""
    assert "File too large" in world.recorder.state().problem
    world.tick(3)
    assert file.read_bytes().endswith(b"\n")
    ticks = len(again(file))
    assert ticks > 20
    assert_same(world.heard.decisions[:ticks], again(file))
    world.recorder.start(str(file))
    world.tick(3)
    world.recorder.close()
    assert world.recorder.state().problem == ""
    assert len(again(file)) == ticks + 3


def test_a_recording_goes_on_by_the_new_numbers_of_the_operator(world, tmp_path):
    agent = world.start_agent()
    world.recorder.start(str(tmp_path / "tape"))
    a_hurt_pair(world)
    world.tick(3)
    agent.apply_config(replace(FLOATING, moves_per_minute=0), Limits(), 1.0)
    world.tick(10)
    world.recorder.close()
    first, second = sections_of(tmp_path / "tape")
    assert [s.header.policy.moves_per_minute for s in (first, second)] == [6, 0]
    assert_same(world.heard.decisions, again(tmp_path / "tape"))


class StuckTape:
    """A disk that takes one tick and then hangs."""

    path = "/stuck"

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.is_closed = threading.Event()
        self.written = 0

    def write(self, seen: Snapshot) -> None:
        self.goes_on.wait()
        self.written += 1

    def close(self) -> None:
        self.is_closed.set()


def test_a_slow_disk_ends_the_recording_and_never_holds_a_tick():
    tape, ended = StuckTape(), []
    writer = _Writer(tape, lambda _, why: ended.append(why))
    for _ in range(3 * WAITING_TICKS):
        writer.take(Snapshot(None, None, None, None, (), None))
    assert ended == [f"the disk is more than {WAITING_TICKS} ticks behind"]
    tape.goes_on.set()
    assert tape.is_closed.wait(10)
    assert tape.written in (WAITING_TICKS, WAITING_TICKS + 1)


def test_half_a_line_of_a_killed_agent_is_taken_off(world, tmp_path):
    file = tmp_path / "tape"
    world.start_agent()
    world.recorder.start(str(file))
    world.tick(3)
    world.recorder.close()
    with open(file, "a") as torn:
        torn.write('{"tick":{"pict' + "x" * 200_000)
    world.recorder.start(str(file))
    world.tick(2)
    world.recorder.close()
    assert_same(world.heard.decisions, again(file))


def test_only_recordings_are_appended_to(world, tmp_path):
    world.start_agent()
    other = tmp_path / "passwd"
    other.write_text("root:x:0:0")
    (tmp_path / "link").symlink_to(other)
    os.mkfifo(tmp_path / "pipe")
    for path, words in [
        (other, "is not a recording"),
        (tmp_path / "link", "cannot record"),
        (tmp_path / "pipe", "regular"),
        (tmp_path, "cannot record"),
        (tmp_path / "no/folder", "cannot record"),
        ("tape", "absolute"),
    ]:
        with pytest.raises(CannotRecord, match=words):
            world.recorder.start(str(path))
    assert other.read_text() == "root:x:0:0"
    assert world.recorder.state().file == ""


def test_only_its_owner_may_read_it(world, tmp_path):
    world.start_agent()
    world.recorder.start(str(tmp_path / "tape"))
    world.recorder.close()
    assert stat.S_IMODE((tmp_path / "tape").stat().st_mode) == 0o600


def test_an_order_begins_and_ends_it(world, tmp_path):
    world.start_agent()
    folder = RunFolder(str(tmp_path))
    server = Server(folder, world.control, dict, world.recorder.order)
    try:
        ask(folder, "record", str(tmp_path / "tape"))
        world.tick(2)
        assert world.recorder.state().file == str(tmp_path / "tape")
        with pytest.raises(Refused, match="absolute"):
            ask(folder, "record", "tape")
        ask(folder, "record")
        assert world.recorder.state().file == ""
    finally:
        server.close()
    assert len(again(tmp_path / "tape")) == 2


def test_a_new_file_takes_over_from_the_old_one(world, tmp_path):
    world.start_agent()
    world.recorder.start(str(tmp_path / "one"))
    world.tick(3)
    world.recorder.start(str(tmp_path / "two"))
    world.tick(2)
    world.recorder.close()
    assert [len(again(tmp_path / name)) for name in ("one", "two")] == [3, 2]


def arguments(*words):
    parser = ArgumentParser()
    replay.add_arguments(parser)
    return parser.parse_args([str(word) for word in words])


@pytest.fixture
def tape(world, tmp_path):
    world.start_agent()
    world.recorder.start(str(tmp_path / "tape"))
    a_hurt_pair(world)
    world.tick(30)
    world.recorder.close()
    return tmp_path / "tape"


@pytest.mark.needs_controllers("initial_placement", "merlin", "rebalance", "vp")
def test_replay_shows_both_courses_and_other_policies(tape, capsys):
    assert replay.run(arguments(tape, "--policies", "baseline,llc,vp,merlin")) == 0
    told = capsys.readouterr().out
    assert told.startswith("here, ")
    assert "36 ticks in 35 s" in told
    for who in ("vp      ", "merlin  "):
        assert f"{who}  server-3 placement 4-7" in told
    for who in ("recorded", "again   "):
        assert f"{who}  server-2 is degraded: cache" in told
        assert f"{who}  move-aggressor: server-3 placement 4-7" in told
    assert told.endswith("this release makes the same decisions in every tick\n")


@pytest.mark.needs_controllers("vp")
def test_with_another_number_it_is_not_the_release_that_decides_otherwise(tape, capsys):
    assert replay.run(arguments(tape, "--set", "moves_per_minute=0")) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("this release with moves_per_minute=0 decides differently in ")


@pytest.mark.needs_controllers("vp")
def test_replay_with_another_number_decides_otherwise(tape, capsys):
    assert replay.run(arguments(tape, "--set", "moves_per_minute=0", "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["differing_ticks"] > 0
    moves = [e for e in told["policies"]["again"] if e["what"].startswith("move-aggressor")]
    assert not moves
    assert any(e["what"].startswith("move-aggressor") for e in told["policies"]["recorded"])


@pytest.mark.needs_controllers("initial_placement", "vp")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--set", "soup=1"], "'soup' is not a policy option: use one of "),
        (["--set", "dwell_samples=soup"], "dwell_samples=soup: invalid literal"),
        (["--set", "dwell_samples=0"], "dwell_samples=0: Should be greater than or equal to 1"),
        (["--set", "vp.cap_probe_s=nan"], "vp.cap_probe_s=nan: give a finite number"),
        (
            ["--set", "controllers=vp,soup"],
            "'soup' is not an installed controller: use initial_placement",
        ),
        (
            ["--set", "initial_placement.home_on_arrival=often"],
            "initial_placement.home_on_arrival=often: Valid values are",
        ),
        (["--set", "dwell_samples"], "give OPTION=VALUE"),
        (["--policies", "soup"], "'soup' is not a policy: use one of"),
    ],
)
def test_replay_says_what_is_wrong(tape, capsys, words, told):
    assert replay.run(arguments(tape, *words)) == 1
    assert told in capsys.readouterr().err


def test_replay_says_what_is_no_recording(tmp_path, capsys):
    (tmp_path / "soup").write_text("soup\n")
    (tmp_path / "one").write_text("1\n")
    (tmp_path / "noise").write_bytes(b"\xe0\xff")
    told = {
        "none": "none: No such file or directory\n",
        "soup": "soup: not a recording that this release can read: line 1: ",
        "one": "one: not a recording that this release can read: line 1: ",
        "noise": "not a recording: the file is not text\n",
    }
    for file, words in told.items():
        assert replay.run(arguments(tmp_path / file)) == 1
        assert words in capsys.readouterr().err


def test_replay_refuses_time_that_stands_still(tape, capsys):
    lines = tape.read_text().splitlines(keepends=True)
    tape.write_text("".join([*lines, lines[-1]]))
    assert replay.run(arguments(tape)) == 1
    assert "its times do not increase" in capsys.readouterr().err


WISHES = {
    Knob.PLACEMENT: (frozenset({0}),),
    Knob.CPU_CAP: Quota(50_000, 100_000),
    Knob.CPU_WEIGHT: CpuWeight(400),
    Knob.MEMORY: ((0, 1.0),),
    Knob.LLC: LlcShare(0.5),
    Knob.MEMBW: MembwShare(0.2),
    Knob.MEMORY_SIZE: MemorySize(4096),
    Knob.EMULATOR_WEIGHT: EmulatorWeight(200),
}


class Corner:
    """A policy that sends everybody into a corner, and does not repeat itself."""

    def __init__(self, drivers) -> None:
        self._guests, self._actuator = drivers.guests, drivers.actuator

    def tick(self, now_s):
        for guest in self._guests.read():
            for knob, value in WISHES.items():
                if self._actuator.read(guest.uuid, knob) != value:
                    self._actuator.apply(guest.uuid, knob, value)
        assert all(move.is_over for move in self._actuator.moves().values())
        assert not self._actuator.moves()


def test_a_policy_on_a_recorded_host_sees_its_own_doing(world, tmp_path):
    world.start_agent()
    world.recorder.start(str(tmp_path / "tape"))
    world.boot(COMPUTE, memory_by_node=((1, 65536),))
    world.tick(5)
    world.recorder.close()
    [section] = sections_of(tmp_path / "tape")
    able = [t._replace(picture=replace(t.picture, knobs=frozenset(Knob))) for t in section.ticks]
    replayed = replay.replay_all(
        [replace(section, ticks=tuple(able))], {}, {"corner": lambda drivers, _: Corner(drivers)}
    )
    assert [event["what"] for event in as_json(replayed)["policies"]["corner"]] == [
        "server-1 placement 0",
        "server-1 cpu-cap 0.50 cores per vCPU",
        "server-1 cpu-weight 400 weight",
        "server-1 memory 0:100%",
        "server-1 llc 50% of the cache",
        "server-1 membw 20% of the bandwidth",
        "server-1 memory-size 4 MiB",
        "server-1 emulator-weight 200 weight",
    ]


def odd(number, picture):
    """The first guest is bound to one CPU, the second unreadable now and then, the third leaves."""
    first, second, third = picture.guests
    bound = frozenset({min(first.allowed_cpus)})
    guests = (first._replace(allowed_cpus=bound, placement=bound), second, third)
    gone = {second.uuid} if number % 7 == 3 else set()
    return replace(
        picture,
        guests=guests if number < 20 else guests[:2],
        readings={u: one for u, one in picture.readings.items() if u not in gone},
        knobs=frozenset({Knob.PLACEMENT}),
    )


@pytest.mark.parametrize("policy", ["llc", "local", "cheap", "random"])
def test_on_a_host_of_few_ways_a_policy_does_what_it_can(tape, policy):
    [section] = sections_of(tape)
    ticks = tuple(
        tick._replace(picture=odd(number, tick.picture), answers=())
        for number, tick in enumerate(section.ticks)
    )
    replayed = replay.replay_all([replace(section, ticks=ticks)], {}, find((policy,)))
    assert policy in as_json(replayed)["policies"]


def test_what_the_recorded_host_could_not_do_a_policy_cannot_do_either(tape):
    [section] = sections_of(tape)
    picture = replace(section.ticks[0].picture, knobs=frozenset({Knob.PLACEMENT}))
    actuator = recorded_drivers_of(RecordedHost(picture)).actuator
    uuid = picture.guests[0].uuid
    with pytest.raises(ApplyFailed):
        actuator.apply(uuid, Knob.LLC, LlcShare(0.5))
    with pytest.raises(ApplyFailed):
        actuator.apply(uuid, Knob.PLACEMENT, (frozenset({99}),))
    with pytest.raises(GuestGone):
        actuator.read("soup", Knob.PLACEMENT)
