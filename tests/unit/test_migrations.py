# SPDX-License-Identifier: Apache-2.0
"""The cluster migrates a guest: the tick lets go of it first, and leaves it alone meanwhile."""

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import oslo_messaging
import pytest

from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Held, Knob
from nova_vp.wire import AGENT_BUSY, BadMessage
from tests.messages import NothingToSay
from tests.policies import a_policy
from tests.unit.agent_host import World
from tests.unit.core.build import CHASE, COMPUTE
from tests.waiting import wait_until
from vp_agent.commands import Prepared
from vp_agent.drivers.base import HostUnavailable
from vp_agent.loop import migration_holds as module
from vp_agent.loop.command_server import Endpoint, MigrationEndpoint
from vp_agent.loop.migration_holds import MigrationHolds
from vp_agent.loop.tick import Cluster
from vp_agent.publish.escalator import Escalator
from vp_agent.publish.outbox import Outbox

ESCALATION = "99999999-9999-5999-8999-999999999999"


@dataclass
class Standing:
    """What the escalator knows."""

    ids: set[str] = field(default_factory=lambda: {ESCALATION})
    is_young: bool = False
    ended: list[tuple[str, str]] = field(default_factory=list)

    def stands(self, id: str) -> bool | None:
        return None if self.is_young else id in self.ids

    def note(self, id: str, outcome: str) -> None:
        self.ended.append((id, outcome))


class Nowhere:
    """Neither cluster nor libvirt are there."""

    def escalate(self, text: str) -> None:
        raise OSError("no broker")

    def measure(self, guest_uuids: object, stop: object) -> dict[str, float]:
        return {}

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Scene:
    world: World
    standing: Standing
    migrations: MigrationHolds

    def ordered(self, uuid: str, hold_s: float = 60.0) -> Callable[[], Prepared | None]:
        """The order is given on another thread; what it was answered so far."""
        answers: list[Prepared] = []
        asked = len(self.migrations._orders)
        thread = threading.Thread(
            target=lambda: answers.append(self.migrations.prepare(ESCALATION, uuid, hold_s)),
            daemon=True,
        )
        thread.start()
        wait_until(lambda: answers or len(self.migrations._orders) > asked, "the order")
        return lambda: answers[0] if answers else None

    def prepared(self, uuid: str, hold_s: float = 60.0) -> Prepared:
        answer = self.ordered(uuid, hold_s)
        if answer() is None:
            self.world.tick()
        return wait_until(answer, "the answer")

    def is_left_alone(self, uuid: str) -> bool:
        [view] = [v for v in self.world.tick().vps if v.guest.uuid == uuid]
        return view.guest.unmanaged is Unmanaged.LEAVING


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    standing = Standing()
    migrations = MigrationHolds(standing.stands, standing.note)
    nowhere = Nowhere()
    outbox = Outbox(lambda: None, lambda text: None, 0.0)
    escalator = Escalator(outbox, nowhere, nowhere, lambda: None, 1)
    world = World(tmp_path / "state", policy=a_policy(home_on_arrival="always"))
    world.cluster = Cluster(escalator, migrations)
    world.start_agent()
    yield Scene(world, standing, migrations)
    escalator.close()


def a_homed_guest(scene: Scene) -> str:
    uuid = scene.world.boot(CHASE)
    scene.world.boot(COMPUTE)
    scene.world.tick(4)
    assert not scene.world.is_untouched(uuid)
    return uuid


@pytest.mark.needs_controllers("initial_placement")
def test_who_is_exempt_is_not_given_away_either(scene: Scene) -> None:
    uuid = a_homed_guest(scene)
    scene.world.control.servers.override(uuid, {"exempt": True})
    assert scene.prepared(uuid) == Prepared(False, "an override exempts it")
    assert not scene.is_left_alone(uuid)


@pytest.mark.needs_controllers("initial_placement")
def test_nothing_of_ours_is_left_on_it_and_it_is_left_alone(scene: Scene) -> None:
    uuid = a_homed_guest(scene)
    assert scene.prepared(uuid) == Prepared(True)
    assert scene.world.is_untouched(uuid)
    for _ in range(5):
        assert scene.is_left_alone(uuid)
    assert scene.world.is_untouched(uuid)
    [view] = [v for v in scene.world.tick().vps if v.guest.uuid == uuid]
    assert ESCALATION in view.guest.unmanaged_detail


@pytest.mark.needs_controllers("initial_placement")
@pytest.mark.parametrize("outcome", ["completed", "failed"])
def test_the_cluster_ends_it(scene: Scene, outcome: str) -> None:
    uuid = a_homed_guest(scene)
    scene.prepared(uuid)
    scene.migrations.end(ESCALATION, uuid, outcome, "no valid host")
    assert not scene.is_left_alone(uuid)
    assert scene.standing.ended == [(ESCALATION, outcome)]


@pytest.mark.needs_controllers("initial_placement")
def test_another_escalation_does_not_end_it(scene: Scene) -> None:
    uuid = a_homed_guest(scene)
    scene.prepared(uuid)
    scene.migrations.end("another", uuid, "failed", "")
    assert scene.is_left_alone(uuid)


@pytest.mark.needs_controllers("initial_placement")
def test_it_ends_by_itself(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    uuid = a_homed_guest(scene)
    scene.prepared(uuid, hold_s=3.0)
    assert scene.is_left_alone(uuid)
    scene.world.now_s += 3.0
    assert not scene.is_left_alone(uuid)
    assert "no end of its migration was reported" in caplog.text


@pytest.mark.needs_controllers("initial_placement")
def test_asked_again_it_holds_anew(scene: Scene) -> None:
    uuid = a_homed_guest(scene)
    scene.prepared(uuid, hold_s=3.0)
    assert scene.prepared(uuid, hold_s=60.0) == Prepared(True)
    scene.world.now_s += 10.0
    assert scene.is_left_alone(uuid)


@pytest.mark.needs_controllers("initial_placement")
def test_a_victim_that_is_well_needs_no_migration(scene: Scene) -> None:
    uuid = a_homed_guest(scene)
    scene.standing.ids.clear()
    assert scene.prepared(uuid) == Prepared(False, "no-longer-hurt")
    assert not scene.is_left_alone(uuid)


@pytest.mark.needs_controllers("initial_placement")
def test_an_agent_that_does_not_know_yet_is_asked_again(scene: Scene) -> None:
    uuid = a_homed_guest(scene)
    scene.standing.is_young = True
    assert scene.prepared(uuid) == Prepared(False, AGENT_BUSY)
    assert not scene.is_left_alone(uuid)


@pytest.mark.needs_controllers("initial_placement")
def test_a_guest_that_is_gone_is_not_ready(scene: Scene) -> None:
    uuid = a_homed_guest(scene)
    scene.world.host.end(uuid)
    del scene.world.rates[uuid]
    assert scene.prepared(uuid) == Prepared(False, "it is not running on this host")


@pytest.mark.needs_controllers("initial_placement")
def test_a_guest_that_refuses_is_not_ready_and_stays_ours(scene: Scene) -> None:
    uuid = a_homed_guest(scene)
    scene.world.host.guests[uuid].refuses = "its cgroup is gone"
    answer = scene.prepared(uuid)
    assert not answer.ready
    assert "see the log of vp-agent" in answer.why
    assert not scene.is_left_alone(uuid)


@pytest.mark.needs_controllers("initial_placement")
def test_memory_stays_where_it_is_and_is_forgotten(scene: Scene) -> None:
    """It is laid anew where the guest arrives; bringing it back first would only delay that."""
    uuid = a_homed_guest(scene)
    entry = scene.world.host.guests[uuid]
    memory = ((1, 1.0),)
    assert entry.journal is not None
    entry.journal = entry.journal.holding(Held(Knob.MEMORY, memory, ((0, 1.0),), "vp", "vp-1"))
    scene.world.host.change(uuid, memory_by_node=((1, 65536),))
    assert scene.prepared(uuid) == Prepared(True)
    assert scene.world.is_untouched(uuid)
    assert scene.world.host.guests[uuid].guest.memory_shares == memory


@pytest.mark.needs_controllers("initial_placement")
def test_without_libvirt_it_waits_for_the_next_tick(scene: Scene) -> None:
    uuid = a_homed_guest(scene)
    answer = scene.ordered(uuid)
    scene.world.host.is_up = False
    with pytest.raises(HostUnavailable):
        scene.world.tick()
    assert answer() is None
    scene.world.host.is_up = True
    scene.world.tick()
    assert wait_until(answer, "the answer").ready


@pytest.mark.needs_controllers("initial_placement")
def test_an_order_that_no_tick_comes_to_is_answered_and_forgotten(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = a_homed_guest(scene)
    monkeypatch.setattr(module, "ANSWER_WITHIN_S", 0.05)
    answer = scene.migrations.prepare(ESCALATION, uuid, 60.0)
    assert answer.why == AGENT_BUSY
    assert not scene.is_left_alone(uuid)


@pytest.mark.needs_controllers("initial_placement")
def test_a_restarted_agent_has_undone_it_and_manages_it_again(scene: Scene) -> None:
    uuid = a_homed_guest(scene)
    other = scene.world.boot(COMPUTE)
    scene.world.tick(3)
    scene.prepared(uuid)
    scene.world.cluster = None
    scene.world.start_agent()
    scene.world.tick(4)
    assert not scene.world.is_untouched(uuid)
    assert not scene.world.is_untouched(other)


@pytest.mark.needs_controllers("initial_placement")
def test_what_was_done_too_late_to_be_told_holds_nobody(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster was told that it is not ready, and migrates nobody."""
    uuid = a_homed_guest(scene)
    monkeypatch.setattr(module, "ANSWER_WITHIN_S", 1.0)
    answer = scene.ordered(uuid)

    def release_guest(uuid: str) -> str:
        wait_until(answer, "the answer")
        return ""

    scene.migrations.carry_out(release_guest, scene.world.now_s)
    assert answer() == Prepared(False, AGENT_BUSY)
    assert not scene.is_left_alone(uuid)


WRONG_NUMBERS = ["soon", None, [], {}, 10**400]


@pytest.mark.parametrize("hold_s", [*WRONG_NUMBERS, math.nan, math.inf])
def test_nobody_is_held_for_a_time_that_does_not_end(hold_s: object) -> None:
    endpoint = MigrationEndpoint(MigrationHolds(Standing().stands, Standing().note))
    with pytest.raises(oslo_messaging.ExpectedException) as refused:
        endpoint.prepare_migration({}, ESCALATION, "u1", hold_s)
    assert refused.value.exc_info[0] is BadMessage


@pytest.mark.parametrize("method", ["republish", "republish_digest"])
@pytest.mark.parametrize("within_s", WRONG_NUMBERS)
def test_a_time_that_is_no_number_is_refused(method: str, within_s: object) -> None:
    with pytest.raises(oslo_messaging.ExpectedException) as refused:
        getattr(Endpoint(None, NothingToSay()), method)({}, within_s)
    assert refused.value.exc_info[0] is BadMessage
