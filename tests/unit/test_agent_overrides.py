# SPDX-License-Identifier: Apache-2.0
"""What people order of single servers, on a whole agent: kept, obeyed at once, and told."""

import contextlib
import json
import logging
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_vp import wire
from nova_vp.core.types.action import Result
from nova_vp.core.types.guest import Guest, Unmanaged
from nova_vp.core.types.knob import Applied, Held, Knob
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.reason import REVOKED
from nova_vp.core.types.service_level import ServiceClass
from nova_vp.server_override import NO_OVERRIDE, ServerOverride, overrides_text, read_overrides
from tests.decisions import an_action, facts
from tests.policies import a_policy
from tests.unit.agent_host import World, a_hurt_pair
from tests.unit.core.build import CHASE, COMPUTE
from tests.unit.unreadable import UNREADABLE
from vp_agent.cli import main
from vp_agent.commands import (
    CannotOverride,
    NotAdvising,
    NotInForce,
    NotRejectable,
    UnknownAction,
)
from vp_agent.loop import control_socket
from vp_agent.loop.control_socket import Refused, RunFolder, Server, ask
from vp_agent.loop.overrides import CLOUD, LOCAL, UNTOLD_S, ServerOverrides
from vp_agent.loop.state import StateFolder
from vp_agent.publish.report import report


def json_line(order: object) -> bytes:
    return json.dumps(order).encode() + b"\n"


FLOATING = a_policy(home_on_arrival="never")
EXEMPT = ServerOverride(exempt=True)
ELSEWHERE = "ffffffff-ffff-4fff-8fff-ffffffffffff"


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "state", policy=FLOATING)
    world.start_agent()
    return world


def tell(world: World, version: int = 1, **ordered: ServerOverride) -> None:
    """By UUID; every other server of the host is free of overrides."""
    every = dict.fromkeys(world.host.guests, NO_OVERRIDE)
    world.control.take_overrides(overrides_text(version, every | ordered))


def of(world: World, uuid: str):
    return next(v.guest for v in world.heard.decisions[-1].vps if v.guest.uuid == uuid)


def a_moved_neighbour(world: World) -> tuple[str, str, str]:
    """Victim, neighbour, and the id of the action that moved the latter away."""
    victim, neighbour = a_hurt_pair(world)
    world.tick(3)
    [outcome] = world.heard.outcomes
    assert outcome.action.reason.code == "move-aggressor"
    assert world.host.guests[neighbour].journal
    return victim, neighbour, outcome.action.id


def results(world: World, uuid: str) -> dict[str, Result]:
    return {o.action.id: o.result for o in world.agent.state.vps[uuid].history}


@pytest.mark.needs_controllers("vp")
def test_an_exempt_server_bears_nothing_of_ours_from_the_next_tick_on(world: World) -> None:
    _, neighbour, action_id = a_moved_neighbour(world)
    found = world.host.topology.domains[0].cpus
    tell(world, **{neighbour: EXEMPT})
    world.tick()
    assert world.host.guests[neighbour].journal is None
    assert world.placement(neighbour) == found
    assert of(world, neighbour).unmanaged is Unmanaged.EXEMPT
    assert results(world, neighbour) == {action_id: Result.UNDONE}
    world.tick(60)
    assert world.placement(neighbour) == found, "although its victim is hurt"
    assert of(world, neighbour).unmanaged_detail == "an override exempts it"


def test_who_is_exempt_no_longer_is_managed_again(world: World) -> None:
    _, neighbour = a_hurt_pair(world)
    tell(world, **{neighbour: EXEMPT})
    world.tick(5)
    tell(world, 2)
    world.tick(1)
    assert of(world, neighbour).unmanaged is None


@pytest.mark.needs_controllers("vp")
def test_what_cannot_be_given_back_now_is_given_back_later(world: World) -> None:
    _, neighbour, action_id = a_moved_neighbour(world)
    world.host.guests[neighbour].refuses = "a job is under way"
    tell(world, **{neighbour: EXEMPT})
    world.tick(2)
    assert world.host.guests[neighbour].journal
    assert results(world, neighbour) == {action_id: Result.APPLIED}
    world.host.guests[neighbour].refuses = ""
    world.tick()
    assert world.host.guests[neighbour].journal is None
    assert results(world, neighbour) == {action_id: Result.UNDONE}


@pytest.mark.needs_controllers("vp")
def test_what_a_release_gave_back_was_undone(world: World) -> None:
    _, neighbour, action_id = a_moved_neighbour(world)
    world.tick()
    assert world.agent.give_back(waits=False)
    assert results(world, neighbour) == {action_id: Result.UNDONE}
    world.control.set_mode(Mode.OBSERVE)
    world.tick()
    told = report(world.heard.decisions[-1], facts(), wire.MessageVersion(0, 0))
    [action] = next(vp for vp in told["vps"] if vp["uuid"] == neighbour)["actions"]
    assert action["result"] == "undone"
    assert action["at"] < action["settled_at"]


def test_an_arriving_migrant_is_left_to_its_migration(world: World) -> None:
    uuid = world.boot(CHASE)
    tell(world, **{uuid: EXEMPT})
    world.host.change(uuid, unmanaged=Unmanaged.MIGRATING)
    world.tick()
    world.host.guests[uuid].journal = Applied(uuid, world.agent._host.epoch, (a_pin(),))
    world.tick()
    assert world.host.guests[uuid].journal
    world.host.change(uuid, unmanaged=None)
    world.tick()
    assert world.host.guests[uuid].journal is None


def a_pin() -> Held:
    return Held(Knob.PLACEMENT, (frozenset({0}),), (frozenset(range(8)),), "vp", "vp-1")


def test_memory_on_its_way_back_is_not_sent_back_again(world: World) -> None:
    node = ((0, 1.0),)
    uuid = world.boot(CHASE)
    held = Held(Knob.MEMORY, node, node, "vp", "vp-1")
    world.host.guests[uuid].journal = Applied(uuid, world.agent._host.epoch, (held,))
    tell(world, **{uuid: EXEMPT})
    world.tick(3)
    assert world.host.guests[uuid].journal is not None, "its end is awaited"


@pytest.mark.needs_controllers("vp")
def test_a_server_with_mode_observe_is_left_out_of_what_is_done(world: World) -> None:
    victim, neighbour = a_hurt_pair(world)
    tell(world, **{neighbour: ServerOverride(mode=Mode.OBSERVE)})
    world.tick(3)
    assert of(world, neighbour).unmanaged is Unmanaged.OVERRIDE_OBSERVE
    assert {o.action.guest_uuid for o in world.heard.outcomes} == {victim}, "it goes instead"


@pytest.mark.needs_controllers("vp")
def test_on_an_observing_host_mode_observe_changes_nothing(world: World) -> None:
    world.control.set_mode(Mode.OBSERVE)
    _, neighbour = a_hurt_pair(world)
    tell(world, **{neighbour: ServerOverride(mode=Mode.OBSERVE)})
    decision = world.tick(3)
    assert of(world, neighbour).unmanaged is None
    assert [action.guest_uuid for action in decision.proposals] == [neighbour]


@pytest.mark.needs_controllers("vp")
def test_a_proposal_for_a_server_with_mode_advise_can_be_accepted(world: World) -> None:
    _, neighbour = a_hurt_pair(world)
    tell(world, **{neighbour: ServerOverride(mode=Mode.ADVISE)})
    [proposal] = world.tick(3).proposals
    assert world.heard.outcomes == []
    with pytest.raises(NotAdvising, match="enforce"):
        world.control.accept("vp-other")
    world.control.accept(proposal.id)
    world.tick()
    assert [o.action.id for o in world.heard.outcomes] == [proposal.id]


@pytest.mark.needs_controllers("vp")
def test_a_tighter_host_keeps_proposals_from_being_accepted(world: World) -> None:
    world.control.set_mode(Mode.OBSERVE)
    _, neighbour = a_hurt_pair(world)
    tell(world, **{neighbour: ServerOverride(mode=Mode.ADVISE)})
    [proposal] = world.tick(3).proposals
    with pytest.raises(NotAdvising, match="the mode is observe"):
        world.control.accept(proposal.id)


@pytest.mark.parametrize(("priority", "weight"), [(None, 2.5), (0, 0.1), (1, 1.0), (9, 9.0)])
def test_a_priority_takes_the_place_of_the_flavors(world, priority, weight) -> None:
    uuid = world.boot(CHASE, priority=2.5)
    tell(world, **{uuid: ServerOverride(mode=Mode.ENFORCE, priority=priority)})
    world.tick()
    assert of(world, uuid).priority == weight


def test_who_is_unmanaged_for_another_reason_keeps_that_one(world: World) -> None:
    uuid = world.boot(CHASE, unmanaged=Unmanaged.DEDICATED_CPUS, unmanaged_detail="pins")
    tell(world, **{uuid: EXEMPT})
    world.tick()
    assert (of(world, uuid).unmanaged_detail, of(world, uuid).mode) == ("pins", None)


def test_orders_survive_a_restart(world: World) -> None:
    uuid = world.boot(CHASE)
    tell(world, 7, **{uuid: EXEMPT})
    world.start_agent()
    world.tick()
    assert of(world, uuid).unmanaged is Unmanaged.EXEMPT
    assert world.control.servers.told.version == 7


@pytest.mark.parametrize("text", ["", "{}", "not JSON", '{"v":1,"version":-1,"servers":[]}'])
def test_a_file_that_cannot_be_read_is_said_and_not_believed(world, text, caplog) -> None:
    StateFolder(str(world.folder)).set_message(CLOUD, text)
    with caplog.at_level(logging.ERROR):
        world.start_agent()
    assert "overrides.json is not readable" in caplog.text
    assert world.control.servers.told.version == 0


BAD = [
    None,
    7,
    "",
    "[]",
    "{}",
    json.dumps({"v": 2, "version": 1, "servers": []}),
    json.dumps({"v": 1, "version": 1.5, "servers": []}),
    json.dumps({"v": 1, "version": 9, "servers": [{}]}),
    json.dumps({"v": 1, "version": 9, "servers": [{"uuid": "x"}]}),
    json.dumps({"v": 1, "version": 9, "servers": [{"uuid": ELSEWHERE, "mode": 3}]}),
    json.dumps({"v": 1, "version": 9, "servers": [{"uuid": ELSEWHERE, "mode": None}]}),
    json.dumps({"v": 1, "version": 9, "servers": [{"uuid": ELSEWHERE, "priority": 10}]}),
    json.dumps({"v": 1, "version": 9, "servers": [{"uuid": ELSEWHERE, "opt_out": 1}]}),
    json.dumps({"v": 1, "version": 9, "servers": [{"uuid": ELSEWHERE}] * 4097}),
    "[" * 100_000,
]


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_order_is_refused_and_nothing_is_lost(world: World, text: object) -> None:
    uuid = world.boot(CHASE)
    tell(world, 3, **{uuid: EXEMPT})
    before = world.control.servers.told
    with pytest.raises(wire.BadMessage):
        world.control.take_overrides(text)
    assert world.control.servers.told is before
    assert ServerOverrides(StateFolder(str(world.folder))).told == before


def test_a_folder_that_refuses_loses_nothing(world: World, monkeypatch) -> None:
    uuid = world.boot(CHASE)
    tell(world, 3, **{uuid: EXEMPT})
    world.tick()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    for order in (lambda: tell(world, 4), lambda: world.control.servers.override(uuid, {})):
        with pytest.raises(OSError, match="No space"):
            order()
    monkeypatch.undo()
    world.tick()
    assert of(world, uuid).unmanaged is Unmanaged.EXEMPT
    assert ServerOverrides(StateFolder(str(world.folder))).told.version == 3


def test_what_comes_late_changes_nothing_and_twice_the_same(world: World) -> None:
    uuid = world.boot(CHASE)
    tell(world, 5, **{uuid: EXEMPT})
    told = world.control.servers.told
    tell(world, 4)
    tell(world, 5, **{uuid: EXEMPT})
    assert world.control.servers.told == told
    tell(world, 5)
    assert not world.control.servers.told.servers[uuid].exempt


def test_who_is_here_and_not_named_keeps_its_orders_and_who_left_loses_them(world: World) -> None:
    stays, goes = world.boot(CHASE), world.boot(COMPUTE)
    tell(world, 1, **{stays: EXEMPT, goes: EXEMPT})
    world.tick()
    world.host.end(goes)
    world.rates.pop(goes)
    world.tick()
    world.control.take_overrides(overrides_text(2, {ELSEWHERE: EXEMPT}))
    assert world.control.servers.told.servers.keys() == {stays, ELSEWHERE}


def test_a_message_may_name_as_many_servers_as_a_host_can_have(world: World) -> None:
    uuid = world.boot(CHASE)
    tell(world, **{uuid: EXEMPT})
    world.tick()
    many = {f"{n:08x}-1111-4111-8111-111111111111": NO_OVERRIDE for n in range(wire.MAX_SERVERS)}
    world.control.take_overrides(overrides_text(2, many))
    kept = ServerOverrides(StateFolder(str(world.folder))).told
    assert (kept.version, kept.servers) == (2, many)


def orders_anew(world: World, uuid: str) -> None:
    world.control.servers.override(uuid, {"priority": 3})


@pytest.mark.needs_controllers("initial_placement")
@pytest.mark.parametrize("found", UNREADABLE)
@pytest.mark.parametrize(
    ("name", "tells"), [(CLOUD, lambda world, _: tell(world)), (LOCAL, orders_anew)]
)
def test_where_orders_are_lost_no_server_is_changed_until_they_are_given_anew(
    world: World, name, tells, found, caplog
) -> None:
    world.policy = a_policy(home_on_arrival="enforce")
    found(world.folder / name)
    world.start_agent()
    assert f"{name} is not readable" in caplog.text
    uuid = world.boot(COMPUTE)
    world.tick(3 * round(UNTOLD_S))
    assert of(world, uuid).unmanaged is Unmanaged.AWAITING_OVERRIDES
    assert world.is_untouched(uuid)
    tells(world, uuid)
    world.tick(2)
    assert of(world, uuid).unmanaged is None
    assert not world.is_untouched(uuid)


@pytest.mark.needs_controllers("initial_placement")
def test_who_has_just_arrived_is_left_alone_until_somebody_tells(world: World) -> None:
    world.policy = a_policy(home_on_arrival="enforce")
    world.start_agent()
    first = world.boot(COMPUTE)
    world.tick(2)
    assert of(world, first).unmanaged is None, "nobody ever told this host anything"
    tell(world, 1)
    told, untold = world.boot(COMPUTE), world.boot(COMPUTE)
    world.tick()
    for uuid in (told, untold):
        assert of(world, uuid).unmanaged is Unmanaged.AWAITING_OVERRIDES
        assert world.is_untouched(uuid)
    world.control.take_overrides(overrides_text(1, {told: NO_OVERRIDE}))
    world.tick()
    assert of(world, told).unmanaged is None
    assert not world.is_untouched(told)
    assert world.is_untouched(untold)
    world.tick(round(UNTOLD_S))
    assert not world.is_untouched(untold), "nobody answers: the host works alone"


def test_to_be_told_that_nothing_was_ever_ordered_is_to_be_told(world: World) -> None:
    world.policy = a_policy(home_on_arrival="enforce")
    world.boot(COMPUTE)
    tell(world, version=0)
    newcomer = world.boot(COMPUTE)
    world.tick()
    assert of(world, newcomer).unmanaged is Unmanaged.AWAITING_OVERRIDES


def test_a_long_migration_is_no_answer(world: World) -> None:
    world.policy = a_policy(home_on_arrival="enforce")
    tell(world)
    uuid = world.boot(COMPUTE, unmanaged=Unmanaged.MIGRATING)
    world.tick(round(UNTOLD_S) + 1)
    world.host.change(uuid, unmanaged=None)
    world.tick()
    assert of(world, uuid).unmanaged is Unmanaged.AWAITING_OVERRIDES
    assert world.is_untouched(uuid)


def test_a_waiting_server_that_is_nobodys_to_touch_says_that_first(world: World) -> None:
    tell(world, 1)
    uuid = world.boot(CHASE, unmanaged=Unmanaged.HUGEPAGES)
    world.tick()
    assert of(world, uuid).unmanaged is Unmanaged.HUGEPAGES


def test_the_report_says_what_the_host_was_told(world: World) -> None:
    ordered, free, untold = (world.boot(CHASE) for _ in range(3))
    one = ServerOverride(Mode.ADVISE, True, 0)
    world.control.take_overrides(overrides_text(9, {ordered: one, free: NO_OVERRIDE}))
    decision = world.tick()
    told = report(
        decision, replace(facts("vp1"), told=world.control.servers.told), wire.MessageVersion(1, 1)
    )
    message = wire.decode(wire.REPORT_TOPIC, wire.encode(wire.REPORT_TOPIC, told))
    assert message["overrides_version"] == 9
    by_uuid = {vp["uuid"]: vp.get("override") for vp in message["vps"]}
    assert by_uuid == {
        ordered: {"mode": "advise", "opt_out": True, "priority": 0},
        free: {},
        untold: None,
    }


def test_an_order_in_a_message_is_read_back() -> None:
    level = ServerOverride(latency_target_ms=25.0, latency_percentile=90.0, max_load=5e5)
    some = (NO_OVERRIDE, EXEMPT, ServerOverride(Mode.OBSERVE), ServerOverride(priority=9), level)
    for ordered in some:
        assert read_overrides(overrides_text(3, {ELSEWHERE: ordered})) == (3, {ELSEWHERE: ordered})
    assert read_overrides(overrides_text(3, {ELSEWHERE.upper(): EXEMPT}))[1] == {ELSEWHERE: EXEMPT}


SERVERS = st.fixed_dictionaries(
    {"uuid": st.sampled_from([ELSEWHERE, ELSEWHERE.upper(), "1" * 32, "", 7])},
    optional={
        "mode": st.sampled_from(["observe", "advise", "enforce", "", None, 1]),
        "opt_out": st.sampled_from([True, False, None, 0, "yes"]),
        "exempt": st.sampled_from([True, False, None, 0, "yes"]),
        "latency_target_ms": st.floats() | st.sampled_from([10, None, True, "3"]),
        "latency_percentile": st.floats(49, 101) | st.sampled_from([95, None, "p95"]),
        "max_load": st.floats() | st.sampled_from([0, 450_000, None]),
        "priority": st.integers(-1, 10) | st.sampled_from([None, True, 1.5, "3", 1e308]),
        "more": st.just(1),
    },
)
MESSAGES = st.fixed_dictionaries(
    {
        "v": st.sampled_from([1, 1, 1, 2, "1"]),
        "version": st.integers(-1, 2**53 + 1) | st.sampled_from([None, 1.5, "2"]),
        "servers": st.lists(SERVERS, max_size=3) | st.sampled_from([None, {}]),
    }
)


@settings(max_examples=100)
@given(text=MESSAGES.map(json.dumps) | st.text(max_size=60) | st.integers())
def test_whatever_is_sent_is_taken_whole_and_kept_or_refused(text: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        book = ServerOverrides(StateFolder(folder))
        with contextlib.suppress(wire.BadMessage):
            book.take(text)
        assert ServerOverrides(StateFolder(folder)).told == book.told
        for uuid, one in book.told.servers.items():
            assert uuid == uuid.lower()
            assert isinstance(one.mode, Mode | None)
            assert type(one.opt_out) is bool
            assert type(one.exempt) is bool
            assert one.priority is None or one.priority in range(10)


@settings(max_examples=100)
@given(line=st.binary(max_size=80) | st.dictionaries(st.text(), st.text()).map(json_line))
def test_whatever_is_written_into_the_socket_is_answered(line: bytes) -> None:
    answers = {"status": lambda value: {"mode": value}}
    assert control_socket._answer(answers, line).keys() in ({"ok"}, {"error"})


# Overrides of this host


@pytest.mark.parametrize(
    ("cloud", "here", "both"),
    [
        (NO_OVERRIDE, EXEMPT, EXEMPT),
        (EXEMPT, NO_OVERRIDE, EXEMPT),
        (ServerOverride(Mode.ADVISE), ServerOverride(Mode.OBSERVE), ServerOverride(Mode.OBSERVE)),
        (ServerOverride(Mode.OBSERVE), ServerOverride(Mode.ENFORCE), ServerOverride(Mode.OBSERVE)),
        (ServerOverride(priority=1), ServerOverride(priority=2), ServerOverride(priority=2)),
        (ServerOverride(priority=1), EXEMPT, ServerOverride(priority=1, exempt=True)),
        (EXEMPT, ServerOverride(opt_out=True), ServerOverride(opt_out=True, exempt=True)),
    ],
)
def test_the_more_careful_of_cloud_and_host_holds(cloud, here, both) -> None:
    assert cloud.with_local(here) == both


def test_an_order_on_the_host_outlives_what_the_cloud_says(world: World) -> None:
    uuid = world.boot(CHASE, name="web")
    world.tick()
    world.control.servers.override("web", {"exempt": True})
    tell(world, 5)
    world.start_agent()
    world.tick()
    assert of(world, uuid).unmanaged is Unmanaged.EXEMPT
    world.control.servers.override(uuid.upper(), {"exempt": False})
    world.tick()
    assert of(world, uuid).unmanaged is None


def test_only_a_server_of_this_host_can_be_ordered_of(world: World) -> None:
    one, _ = world.boot(CHASE, name="web"), world.boot(CHASE, name="web")
    world.tick()
    book = world.control.servers
    with pytest.raises(CannotOverride, match="several servers on this host have that name"):
        book.override("web", {"opt_out": True})
    with pytest.raises(
        CannotOverride, match=r"no such server on this host; give a UUID .*: web, web"
    ):
        book.override("db", {"opt_out": True})
    book.override(world.host.guests[one].guest.domain_name, {"priority": 3})
    world.host.end(one)
    del world.rates[one]
    world.tick()
    book.override(one, {"priority": None})
    assert book.rows() == []


@contextlib.contextmanager
def served(world: World, status: Any = dict) -> Iterator[RunFolder]:
    folder = RunFolder(str(world.folder / "run"))
    folder.path.mkdir(exist_ok=True)
    server = Server(folder, world.control, status, world.recorder.order)
    try:
        yield folder
    finally:
        server.close()


def command(folder: RunFolder, *argv: str, monkeypatch: Any) -> int:
    """`vp-agent` as somebody types it, with a configuration of its own."""
    file = folder.path / "nova-vp.conf"
    file.write_text(f"[agent]\nrun_directory = {folder.path}\nstate_directory = {folder.path}\n")
    monkeypatch.setattr("sys.argv", ["vp-agent", "--config-file", str(file), *argv])
    monkeypatch.setattr(main.cfg, "CONF", main.cfg.ConfigOpts())
    return main.main()


def test_the_mode_is_told_without_a_new_one(world, monkeypatch, capsys) -> None:
    source = {"level": "aggregate", "name": "ssd", "mode": "advise"}
    modes = {"source": source, "levels": [source], "knows_aggregates": True}
    status = {"mode": "advise", "modes": modes}
    with served(world, lambda: status) as folder:
        assert command(folder, "mode", monkeypatch=monkeypatch) == 0
        assert capsys.readouterr().out == (
            "mode advise (set for the host aggregate ssd)\n"
            "  advise: set for the host aggregate ssd\n"
        )
        status.clear()
        assert command(folder, "mode", monkeypatch=monkeypatch) == 1
        assert "no sample yet" in capsys.readouterr().err


def test_the_end_of_a_recording_names_its_file(world, monkeypatch, capsys) -> None:
    def told(*argv: str) -> str:
        assert command(folder, "record", *argv, monkeypatch=monkeypatch) == 0
        return capsys.readouterr().out.splitlines()[-1]

    with served(world) as folder:
        tape = folder.path / "tape"
        assert told("on", str(tape)) == f"recording to {tape} until `vp-agent record off`"
        assert told("off") == f"recording stopped; the file is {tape}"
        assert told("off") == "no recording was running"


def test_orders_of_one_server_from_the_command_line(world, monkeypatch, capsys) -> None:
    uuid, _ = world.boot(CHASE, name="web"), world.boot(COMPUTE, name="db")
    tell(world, **{uuid: ServerOverride(Mode.ADVISE)})
    world.tick()
    with served(world) as folder:

        def order(*argv: str) -> list[str]:
            """What is printed; the agent in this process logs beside it."""
            assert command(folder, "override", *argv, monkeypatch=monkeypatch) == 0
            lines = capsys.readouterr().out.splitlines()
            return [line for line in lines if " INFO " not in line]

        assert order("db") == ["no overrides"]
        assert order("web", "--opt-out", "--exempt", "--priority", "0") == [
            f"web ({uuid})",
            "  in the cloud: mode advise",
            "  on this host: opted out, exempt, priority 0",
        ]
        assert order("web", "--no-exempt", "--mode", "observe") == [
            f"web ({uuid})",
            "  in the cloud: mode advise",
            "  on this host: opted out, mode observe, priority 0",
        ]
        order("db", "--priority", "9")
        assert "  on this host: priority 9" in order()
        left = order("web", "--opt-in", "--mode", "host", "--priority", "flavor")
        assert left == [f"web ({uuid})", "  in the cloud: mode advise"]
        assert command(folder, "override", "nobody", "--opt-out", monkeypatch=monkeypatch) == 1
        assert "vp-agent: nobody: no such server on this host" in capsys.readouterr().err


@pytest.mark.parametrize(
    "value",
    ["", "[]", "[" * 3000, '{"server": 7}', '{"dance": 1}', '{"server":"a","priority":true}'],
)
def test_a_line_that_orders_nothing_is_told_apart_from_none(world: World, value: str) -> None:
    with served(world) as folder, pytest.raises(Refused, match="not a valid override"):
        ask(folder, "override", value)


def test_a_fault_of_the_agent_is_not_blamed_on_who_asked(world: World, caplog) -> None:
    def broken() -> None:
        raise KeyError("vps")

    with served(world, broken) as folder:
        with pytest.raises(Refused, match=r"status failed in the agent \(KeyError: 'vps'\)"):
            ask(folder, "status")
        assert "Traceback" in caplog.text
        for line in (b"{}\n", b"7\n", b'{"do": ["status"]}\n', b"[" * 4000 + b"\n"):
            assert (
                "known commands: status"
                in control_socket._answer({"status": broken}, line)["error"]
            )


# Undo


@pytest.mark.needs_controllers("vp")
def test_an_action_is_undone_with_the_next_tick_and_told(world: World, caplog) -> None:
    _, neighbour, action_id = a_moved_neighbour(world)
    with caplog.at_level(logging.INFO):
        world.control.undo(action_id)
        world.tick(2)
    assert world.host.guests[neighbour].journal is None
    assert world.placement(neighbour) == world.host.topology.domains[0].cpus
    assert "reason=undo-ordered" in caplog.text
    view = next(v for v in world.heard.decisions[-1].vps if v.guest.uuid == neighbour)
    results = {o.action.reason.code: o.result for o in view.history}
    assert results == {
        "move-aggressor": Result.UNDONE,
        REVOKED.code: Result.APPLIED,
    }
    world.tick(60)
    assert world.placement(neighbour) == world.host.topology.domains[0].cpus, "it is held off"


@pytest.mark.needs_controllers("vp")
def test_undo_is_refused_where_nothing_is_to_be_undone(world: World) -> None:
    with pytest.raises(UnknownAction, match=r"no recent action 'x' on this host.*reverted: none"):
        world.control.undo("x")
    _, _, action_id = a_moved_neighbour(world)
    with pytest.raises(UnknownAction, match=f"can be reverted: {action_id}"):
        world.control.undo("x")
    world.control.undo(action_id)
    world.tick(2)
    with pytest.raises(NotInForce, match=r"\(undone\): nothing remains to revert"):
        world.control.undo(action_id)


@pytest.mark.needs_controllers("vp")
def test_a_proposal_cannot_be_undone(world: World) -> None:
    world.control.set_mode(Mode.ADVISE)
    a_hurt_pair(world)
    [proposal] = world.tick(3).proposals
    with pytest.raises(NotInForce, match="only proposed"):
        world.control.undo(proposal.id)


@pytest.mark.needs_controllers("vp")
def test_an_order_to_undo_waits_for_a_tick_that_can_see_the_host(world: World) -> None:
    _, neighbour, action_id = a_moved_neighbour(world)
    world.control.undo(action_id)
    world.host.is_up = False
    with pytest.raises(Exception, match="the host is down"):
        world.tick()
    world.host.is_up = True
    world.tick()
    assert world.host.guests[neighbour].journal is None
    assert world.control.commanded().revoked == frozenset()


@pytest.mark.needs_controllers("vp")
def test_an_order_to_undo_that_comes_amid_a_tick_is_for_the_next_one(world: World) -> None:
    _, neighbour, action_id = a_moved_neighbour(world)
    world.control.undo(action_id)
    world.control.show(world.heard.decisions[-1], revoked=frozenset({"vp-other"}))
    world.tick()
    assert world.host.guests[neighbour].journal is None


@pytest.mark.needs_controllers("vp")
def test_undo_from_the_command_line(world, monkeypatch, capsys) -> None:
    _, neighbour, action_id = a_moved_neighbour(world)
    with served(world) as folder:
        assert command(folder, "undo", action_id, monkeypatch=monkeypatch) == 0
        assert f"{action_id} will be reverted in the next tick" in capsys.readouterr().out
        world.tick()
        assert world.host.guests[neighbour].journal is None
        assert command(folder, "undo", "vp-0", monkeypatch=monkeypatch) == 1
        assert "no recent action 'vp-0' on this host" in capsys.readouterr().err


# Reject


@pytest.mark.needs_controllers("vp")
def test_a_rejected_proposal_is_withdrawn_and_recorded(world: World) -> None:
    world.control.set_mode(Mode.ADVISE)
    a_hurt_pair(world)
    [proposal] = world.tick(3).proposals
    world.control.reject(proposal.id, "user-1", "it is a test")
    world.tick()
    decision = world.heard.decisions[-1]
    assert proposal.id not in {one.id for one in decision.proposals}
    outcomes = {o.action.id: o for view in decision.vps for o in view.history}
    assert outcomes[proposal.id].detail == "rejected by user-1: it is a test"
    assert world.control.commanded().rejected == {}
    with pytest.raises(UnknownAction, match="there is no proposal"):
        world.control.reject(proposal.id, "user-1", "")


@pytest.mark.needs_controllers("vp")
def test_what_gives_back_cannot_be_rejected(world: World) -> None:
    decision = world.tick()
    giving_back = an_action("vp-back", claims=())
    world.control.show(replace(decision, proposals=(giving_back,)))
    with pytest.raises(NotRejectable, match="gives back"):
        world.control.reject("vp-back", "user-1", "")


@pytest.mark.needs_controllers("vp")
def test_reject_from_the_command_line(world, monkeypatch, capsys) -> None:
    world.control.set_mode(Mode.ADVISE)
    a_hurt_pair(world)
    [proposal] = world.tick(3).proposals
    with served(world) as folder:
        asked = (folder, "reject", proposal.id, "--reason", "after the release")
        assert command(*asked, monkeypatch=monkeypatch) == 0
        assert f"{proposal.id} is withdrawn" in capsys.readouterr().out
        rejected = world.control.commanded().rejected
        assert rejected == {proposal.id: "rejected by local: after the release"}
        assert command(folder, "reject", "vp-0", monkeypatch=monkeypatch) == 1
        assert "there is no proposal 'vp-0'" in capsys.readouterr().err


CRITICAL = {
    "service_class": ServiceClass.LATENCY_CRITICAL,
    "latency_target_ms": 10.0,
    "max_load": 450_000.0,
}
LOOSER = ServerOverride(latency_target_ms=25.0, latency_percentile=90.0, max_load=5e5)
TIGHTER = ServerOverride(latency_target_ms=1.0, latency_percentile=99.9, max_load=1.0)


def level_of(guest: Guest) -> tuple[float | None, ...]:
    return guest.latency_target_ms, guest.latency_percentile, guest.max_load


@pytest.mark.parametrize(
    ("flavor", "ordered", "level"),
    [
        (CRITICAL, LOOSER, (25.0, 90.0, 5e5)),
        (CRITICAL, TIGHTER, (10.0, 95.0, 450_000.0)),
        (CRITICAL, EXEMPT, (10.0, 95.0, 450_000.0)),
        ({**CRITICAL, "latency_target_ms": None, "max_load": None}, TIGHTER, (1.0, 95.0, 1.0)),
        ({**CRITICAL, "latency_target_ms": None, "max_load": None}, EXEMPT, (None, 95.0, None)),
        ({"service_class": ServiceClass.BEST_EFFORT}, LOOSER, (None, 95.0, None)),
        ({}, LOOSER, (None, 95.0, None)),
    ],
)
def test_a_tenant_asks_for_no_more_than_its_flavor_promises(
    flavor: dict[str, Any], ordered: ServerOverride, level: tuple[Any, ...], world: World
) -> None:
    uuid = world.boot(COMPUTE, **flavor)
    tell(world, **{uuid: ordered})
    world.tick()
    assert level_of(of(world, uuid)) == level
    tell(world, 2, **{uuid: NO_OVERRIDE})
    world.tick()
    assert level_of(of(world, uuid))[0] == flavor.get("latency_target_ms")


def test_levels_of_the_cloud_hold_beside_orders_of_the_host() -> None:
    both = LOOSER.with_local(ServerOverride(opt_out=True))
    assert both == LOOSER._replace(opt_out=True)
