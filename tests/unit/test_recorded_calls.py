# SPDX-License-Identifier: Apache-2.0
"""Calls of overlays in a recording: a replay gives the same answers and does the same for them."""

import json
from argparse import Namespace
from pathlib import Path

import pytest

from nova_vp.core.types.overlay import Nack, Verb
from nova_vp.recording.file_format import read
from tests.unit.overlay_world import SHOP, OverlayWorld, a_call, open_world
from vp_sim import replay

pytestmark = pytest.mark.needs_controllers("overlays")


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A grant, a refusal, a trigger that ends between two ticks, and ticks around them."""
    world = open_world(tmp_path / "state")
    tape = tmp_path / "tape"
    world.recorder.start(str(tape))
    world.tick(2)
    later(world, 0.2)
    assert world.call(Verb.TUNE, world.db).nack is None
    world.tick()
    later(world, 0.3)
    refused, granted = world.calls(
        a_call(Verb.BORROW, world.db, cpus=64), a_call(Verb.TRIGGER, world.web, lease_s=0.5)
    )
    assert (refused.nack, granted.nack) == (Nack.NO_ROOM, None)
    later(world, 0.6)
    world.agent.answer_calls(world.now_s)
    assert world.weight(world.web).number == 100, "the trigger is over"
    world.tick(3)
    world.recorder.close()
    return tape


def later(world: OverlayWorld, seconds: float) -> None:
    world.now_s += seconds


def test_it_is_one_section_and_its_replay_gives_the_same_answers(recorded: Path) -> None:
    with open(recorded, newline="\n") as lines:
        [section] = read(lines)
    assert [tick.is_between for tick in section.ticks] == [False] * 2 + [
        True,
        False,
        True,
        True,
        False,
        False,
        False,
    ]
    again = [decision for _, decision in replay.replay(section)]
    assert [one.answers for one in again] == [tick.told.calls for tick in section.ticks]
    answers = [answer for one in again for answer in one.answers]
    assert [one.nack for one in answers] == [None, Nack.NO_ROOM, None]
    done = [[action.id for action in one.actions] for one in again]
    assert done == [[made.id for made in tick.told.actions] for tick in section.ticks]
    assert any(done[4]), "the trigger"
    assert any(done[5]), "its end"


def test_replay_shows_them(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = Namespace(file=str(recorded), policies="", set=[], json=True)
    assert replay.run(asked) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["ticks"], told["differing_ticks"]) == (6, 0)
    for who in ("recorded", "again"):
        shown = [one["what"] for one in told["policies"][who] if one["what"].startswith("call ")]
        assert len(shown) == 3
        assert "is refused: no-room" in shown[1]
    changed = Namespace(**{**vars(asked), "set": ["overlays.credit_s=0.1"]})
    assert replay.run(changed) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["differing_ticks"] > 0, "the trigger is refused then"
    assert any("no-credit" in one["what"] for one in again["policies"]["again"])


def test_other_policies_see_ticks_alone(recorded: Path) -> None:
    sections = replay.load(str(recorded))
    seen_at_s: list[float] = []

    class Watcher:
        def tick(self, now_s: float) -> None:
            seen_at_s.append(now_s)

    replay.replay_all(sections, {}, {"watcher": lambda drivers, random: Watcher()})
    ticks = [tick for tick in sections[0].ticks if not tick.is_between]
    assert seen_at_s == [tick.picture.at_s for tick in ticks]
    assert len(ticks) == 6


def test_calls_of_an_agent_without_a_picture_are_not_recorded(tmp_path: Path) -> None:
    world = OverlayWorld(tmp_path / "state")
    world.start_agent()
    world.recorder.start(str(tmp_path / "tape"))
    world.tell({SHOP: ("00000000-0000-4000-8000-000000000001",)})
    assert world.call(Verb.TRIGGER).nack is Nack.HOST_REFUSED
    world.recorder.close()
    assert (tmp_path / "tape").read_text() == ""
