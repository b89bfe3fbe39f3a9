# SPDX-License-Identifier: Apache-2.0
"""The mode of a host, of what is set for the cloud, its aggregates, itself and its servers: as an
agent is told it, keeps it, and acts by it."""

import itertools
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from nova_vp import wire
from nova_vp.cloud_modes import NOT_SET, CloudModes, modes_text
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.mode_levels import ModeLevel, SetMode
from nova_vp.core.types.policy import Mode
from nova_vp.host_facts import HostFacts, facts_text
from nova_vp.server_override import POSSIBLE_AHEAD_MS, ServerOverride, overrides_text
from tests.decisions import a_decision, a_view, an_action, facts
from tests.policies import a_policy
from tests.unit.agent_host import World, a_hurt_pair
from tests.unit.unreadable import UNREADABLE
from vp_agent.loop.command_handler import CommandHandler
from vp_agent.loop.host_mode import HostMode
from vp_agent.loop.overrides import ServerOverrides
from vp_agent.loop.state import StateFolder
from vp_agent.loop.told_facts import STALE_AFTER_S, ToldFacts
from vp_agent.publish.report import report

NOW_S = 1_800_000_000.0
VERSION = round(NOW_S * 1000)
OBSERVE, ADVISE, ENFORCE = Mode
ANY = (None, OBSERVE, ENFORCE)


class Host:
    """Its agent's state folder, and what is told it."""

    def __init__(self, folder: Path, now_s: float = NOW_S) -> None:
        self.state = StateFolder(str(folder))
        self.facts = ToldFacts(self.state, lambda: now_s)
        self.mode = HostMode(self.state, None, self.facts, lambda: now_s)

    def tell(self, cloud: Mode | None = None, version: int = VERSION, **aggregates: Mode) -> None:
        self.mode.take(modes_text(version, CloudModes(cloud, aggregates)))

    def is_in(self, *aggregates: str, read_at: float = NOW_S) -> None:
        self.facts.take(facts_text(read_at, HostFacts(aggregates)))

    @property
    def source(self) -> SetMode:
        return self.mode.now().source


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_where_nothing_is_set_observe_holds(host):
    assert host.source == SetMode(OBSERVE, ModeLevel.DEFAULT)
    host.is_in("ssd")
    host.tell(other=ENFORCE)
    assert host.source == SetMode(OBSERVE, ModeLevel.DEFAULT)


@pytest.mark.parametrize(("cloud", "ssd", "rack", "own"), [*itertools.product(ANY, repeat=4)])
def test_the_tightest_of_all_levels_holds(host, cloud, ssd, rack, own):
    host.is_in("ssd", "rack 7")
    named = {"ssd": ssd, "rack 7": rack}
    host.tell(cloud, **{name: mode for name, mode in named.items() if mode})
    if own:
        host.mode.set_own(own)
    is_set = [one for one in (cloud, ssd, rack, own) if one]
    tight = OBSERVE in is_set or not is_set
    assert host.source.mode is (OBSERVE if tight else ENFORCE)


@pytest.mark.parametrize(("ordered", "own"), [*itertools.product((None, *Mode), repeat=2)])
def test_a_server_is_one_level_more(tmp_path, ordered, own):
    book, guests = ServerOverrides(StateFolder(str(tmp_path))), (a_view(1).guest,)
    book.take(overrides_text(1, {guests[0].uuid: ServerOverride(mode=ordered)}))
    levels = (SetMode(own, ModeLevel.HOST),) if own else ()
    [marked] = book.mark(guests, levels, 0.0)
    of_host = own or OBSERVE
    is_set = [one for one in (own, ordered) if one]
    expected = min(is_set, key=tuple(Mode).index, default=OBSERVE)
    assert (marked.mode or of_host) is expected
    assert (marked.unmanaged is Unmanaged.OVERRIDE_OBSERVE) is (
        expected is OBSERVE and of_host is not OBSERVE
    )


@pytest.mark.needs_controllers("vp")
def test_a_host_without_a_mode_acts_for_the_one_server_that_has_one(tmp_path):
    world = World(tmp_path / "state", policy=a_policy(home_on_arrival="never"), mode=None)
    world.start_agent()
    _, neighbour = a_hurt_pair(world)
    assert not world.tick(3).actions, "no mode is set"
    world.control.take_overrides(overrides_text(1, {neighbour: ServerOverride(mode=ENFORCE)}))
    world.tick(6)  # Those of whom nobody told anything are left alone for 5 s.
    assert [o.action.guest_uuid for o in world.heard.outcomes] == [neighbour]


def test_a_host_in_two_aggregates_obeys_the_tighter_one(host):
    host.is_in("ssd", "rack 7")
    host.tell(ENFORCE, **{"ssd": ENFORCE, "rack 7": ADVISE})
    assert host.source == SetMode(ADVISE, ModeLevel.AGGREGATE, "rack 7")


def test_of_equally_tight_levels_the_broadest_is_told(host):
    host.is_in("ssd")
    host.tell(ADVISE, ssd=ADVISE)
    host.mode.set_own(ADVISE)
    assert host.source == SetMode(ADVISE, ModeLevel.CLOUD)
    assert [one.level for one in host.mode.now().levels] == list(ModeLevel)[:3]


def test_a_host_that_leaves_an_aggregate_leaves_its_mode(host):
    host.is_in("ssd")
    host.tell(ENFORCE, ssd=OBSERVE)
    assert host.source.mode is OBSERVE
    host.is_in()
    assert host.source == SetMode(ENFORCE, ModeLevel.CLOUD)
    host.is_in("ssd")
    assert host.source == SetMode(OBSERVE, ModeLevel.AGGREGATE, "ssd")


def test_who_does_not_know_its_aggregates_obeys_those_of_all(host, tmp_path):
    host.tell(ENFORCE, ssd=ENFORCE, other=ADVISE)
    assert host.source == SetMode(ADVISE, ModeLevel.AGGREGATE, "other")
    assert not host.mode.now().knows_aggregates
    untold = HostMode(StateFolder(str(tmp_path)), None)
    assert untold.now().levels == host.mode.now().levels, "nobody tells it facts"
    host.is_in("ssd")
    assert host.source == SetMode(ENFORCE, ModeLevel.CLOUD)
    assert host.mode.now().knows_aggregates


def test_an_agent_that_is_restarted_obeys_the_same(host, tmp_path):
    host.is_in("ssd")
    host.tell(ENFORCE, ssd=ADVISE, other=OBSERVE)
    host.mode.set_own(ENFORCE)
    again = Host(tmp_path)
    assert again.mode.now() == host.mode.now()
    assert again.source == SetMode(ADVISE, ModeLevel.AGGREGATE, "ssd")


def test_without_vp_scheduler_what_was_told_holds(host, tmp_path):
    host.is_in("ssd")
    host.tell(ENFORCE, ssd=ENFORCE, other=ADVISE)
    assert Host(tmp_path, NOW_S + STALE_AFTER_S - 1).source.mode is ENFORCE
    # Who has not heard for so long may have been put into another aggregate.
    assert Host(tmp_path, NOW_S + STALE_AFTER_S + 1).source.mode is ADVISE


def test_what_is_unset_has_no_say_any_more(host, tmp_path):
    host.is_in()
    host.tell(OBSERVE)
    host.mode.set_own(ENFORCE)
    assert host.source.mode is OBSERVE
    host.tell(None, VERSION + 1)
    assert host.source == SetMode(ENFORCE, ModeLevel.HOST)
    host.mode.set_own(None)
    assert host.source.level is ModeLevel.DEFAULT
    again = HostMode(StateFolder(str(tmp_path)), ENFORCE, host.facts)
    assert again.now().source.level is ModeLevel.DEFAULT, "its configuration was overruled"


def test_a_late_message_changes_nothing(host):
    host.tell(ADVISE)
    host.tell(ENFORCE, VERSION - 1)
    assert host.source.mode is ADVISE
    host.tell(ENFORCE, VERSION)
    assert host.source.mode is ENFORCE, "the same message came again"


def test_a_version_of_the_far_future_locks_nobody_out(host, tmp_path):
    host.tell(ADVISE, VERSION + POSSIBLE_AHEAD_MS)
    assert host.source.mode is ADVISE
    host.tell(ENFORCE, VERSION)
    assert host.source.mode is ENFORCE
    text = modes_text(wire.MOST_COUNT, CloudModes(OBSERVE))
    StateFolder(str(tmp_path)).set_modes(text)
    again = Host(tmp_path)
    assert again.source.mode is OBSERVE
    again.tell(ENFORCE, VERSION)
    assert again.source.mode is ENFORCE


@pytest.mark.parametrize(
    "text",
    [
        None,
        "{}",
        '{"v":1,"version":1,"aggregates":[],"cloud":3}',
        '{"v":1,"version":-1,"aggregates":[]}',
        '{"v":1,"version":1,"aggregates":[{"name":"ssd"}]}',
    ],
)
def test_a_message_that_is_none_changes_nothing(host, text):
    host.tell(ADVISE)
    before = host.mode.now()
    with pytest.raises(wire.BadMessage):
        host.mode.take(text)
    assert host.mode.now() == before


@pytest.mark.parametrize(
    "later",
    [
        '"aggregates":[],"cloud":"of-a-later-release"',
        '"aggregates":[{"name":"ssd","mode":"of-a-later-release"}],"cloud":"enforce"',
    ],
)
def test_a_mode_of_a_later_release_is_obeyed_as_the_tightest(host, tmp_path, later):
    host.is_in("ssd")
    host.tell(ENFORCE, ssd=ENFORCE)
    host.mode.take(f'{{"v":1,"version":{VERSION},{later}}}')
    assert host.source.mode is OBSERVE
    assert Host(tmp_path).source.mode is OBSERVE, "it was restarted"


def test_an_own_mode_of_a_later_release_counts_as_the_tightest(tmp_path, caplog):
    (tmp_path / "mode").write_text("of-a-later-release\n")
    mode = HostMode(StateFolder(str(tmp_path)), ENFORCE)
    assert mode.now().source == SetMode(OBSERVE, ModeLevel.HOST)
    assert "unknown mode of-a-later-release, using observe" in caplog.text


def test_a_server_mode_of_a_later_release_counts_as_the_tightest(tmp_path):
    book, guests = ServerOverrides(StateFolder(str(tmp_path))), (a_view(1).guest,)
    text = overrides_text(1, {guests[0].uuid: ServerOverride(mode=ENFORCE)})
    book.take(text.replace("enforce", "of-a-later-release"))
    [marked] = book.mark(guests, (SetMode(ENFORCE, ModeLevel.HOST),), 0.0)
    assert marked.unmanaged is Unmanaged.OVERRIDE_OBSERVE


def test_what_cannot_be_saved_is_not_obeyed(host, monkeypatch):
    host.tell(ADVISE)
    monkeypatch.setattr(host.state, "_write", _refuse)
    with pytest.raises(OSError, match="full"):
        host.tell(ENFORCE, VERSION + 1)
    with pytest.raises(OSError, match="full"):
        host.mode.set_own(OBSERVE)
    assert host.source == SetMode(ADVISE, ModeLevel.CLOUD)


def _refuse(name: str, text: str) -> None:
    raise OSError("the disk is full")


@pytest.mark.parametrize("found", UNREADABLE)
def test_a_host_that_has_lost_what_it_was_told_observes_until_it_is_told_again(
    tmp_path, caplog, found
):
    found(tmp_path / "modes.json")
    StateFolder(str(tmp_path)).set_mode(ENFORCE)
    with caplog.at_level(logging.ERROR):
        host = Host(tmp_path)
    assert "modes.json is not readable" in caplog.text
    assert host.source == SetMode(OBSERVE, ModeLevel.CLOUD)
    host.tell()
    assert host.source == SetMode(ENFORCE, ModeLevel.HOST)


def test_once_clocks_are_right_again_a_restored_database_is_obeyed(tmp_path):
    """Told while the clocks of all were a day ahead."""
    now = [NOW_S + 86_400.0]
    mode = HostMode(StateFolder(str(tmp_path)), None, None, lambda: now[0])
    mode.take(modes_text(round(now[0] * 1000), CloudModes(ENFORCE)))
    now[0] = NOW_S
    mode.take(modes_text(VERSION - 5, CloudModes(OBSERVE)))
    held = mode.now().told.version
    now[0] += 1.0
    mode.take(modes_text(held + 1, CloudModes(OBSERVE)))
    assert mode.now().source == SetMode(OBSERVE, ModeLevel.CLOUD)


@pytest.mark.parametrize("found", UNREADABLE)
def test_a_host_that_has_lost_its_own_mode_observes(tmp_path, found):
    found(tmp_path / "mode")
    mode = HostMode(StateFolder(str(tmp_path)), ENFORCE)
    assert mode.now().source == SetMode(OBSERVE, ModeLevel.HOST)


def test_a_change_of_the_cloud_forgets_what_was_accepted(tmp_path):
    control = CommandHandler(StateFolder(str(tmp_path)), ADVISE)
    control.show(a_decision(a_view(1), proposals=(an_action("p1"),)))
    control.accept("p1")
    assert control.commanded().approved == {"p1"}
    control.take_modes(modes_text(VERSION, CloudModes(ENFORCE)))
    assert not control.commanded().approved


def test_reports_say_what_is_set_and_where(host):
    host.is_in("ssd")
    host.tell(ENFORCE, ssd=ADVISE, other=OBSERVE)
    told = replace(facts(), modes=host.mode.now())
    message = report(a_decision(a_view(1), mode=ADVISE), told, wire.MessageVersion(1, 1))
    text = wire.encode(wire.REPORT_TOPIC, message)
    modes = wire.decode(wire.REPORT_TOPIC, text)["modes"]
    ssd = {"level": "aggregate", "name": "ssd", "mode": "advise"}
    assert modes["source"] == ssd
    assert modes["levels"] == [{"level": "cloud", "name": "", "mode": "enforce"}, ssd]
    assert modes["checksum"] == host.mode.now().told.modes.checksum
    assert modes["knows_aggregates"] is True


def test_a_server_with_a_mode_of_its_own_says_so():
    guest = a_view(1).guest._replace(mode=ADVISE)
    message = report(
        a_decision(a_view(1, guest=guest), a_view(2)), facts(), wire.MessageVersion(1, 1)
    )
    assert [vp.get("mode") for vp in message["vps"]] == ["advise", None]


def test_the_word_for_no_mode_is_no_mode():
    assert NOT_SET not in {mode.value for mode in Mode}
