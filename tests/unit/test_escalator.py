# SPDX-License-Identifier: Apache-2.0
"""Escalations on their way to the cluster: written down, sent until acknowledged, never twice."""

import contextlib
import errno
import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nova_vp import wire
from nova_vp.core.types.decision import Decision, Escalation, Migrant, Role
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.policy import Mode
from nova_vp.service import failpoints
from tests.decisions import a_decision, a_detection, a_guest, a_view, an_escalation, facts, uuid_of
from tests.policies import a_policy
from tests.unit.agent_host import World, a_hurt_pair
from tests.waiting import wait_until
from vp_agent.loop.migration_holds import MigrationHolds
from vp_agent.loop.tick import Cluster as Agents
from vp_agent.publish import escalation_message, escalator, outbox
from vp_agent.publish.escalator import Escalator
from vp_agent.publish.outbox import AGAIN_S, GRACE_S, INHERIT_S, MOST, Outbox, id_of

CANDIDATES = (
    Migrant(uuid_of(1), Role.VICTIM, 0.3, 0.1),
    Migrant(uuid_of(2), Role.AGGRESSOR, 0.25, -0.05),
)
EPOCH = 7


class Cluster:
    """Acknowledges what it gets, unless it is away, hangs or refuses."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.tries = 0
        self.fault: Exception | None = None
        self.open = threading.Event()
        self.open.set()
        self.is_closed = False

    def escalate(self, text: str) -> None:
        self.tries += 1
        self.open.wait()
        if self.fault:
            raise self.fault
        self.got.append(wire.decode(wire.ESCALATION_TOPIC, text))

    def close(self) -> None:
        self.is_closed = True


class Rates:
    def __init__(self) -> None:
        self.asked: list[Sequence[str]] = []

    def measure(self, guest_uuids: Sequence[str], stop: threading.Event) -> Mapping[str, float]:
        self.asked.append(guest_uuids)
        return {uuid_of(2): 1234.5}

    def close(self) -> None:
        """Nothing is open."""


class Disk:
    """One file; it can be full."""

    def __init__(self, text: str | None = None) -> None:
        self.text = text
        self.is_full = False

    def read(self) -> str | None:
        return self.text

    def write(self, text: str) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.text = text


class Scene:
    def __init__(self) -> None:
        self.now_s = 1000.0
        self.disk = Disk()
        self.cluster = Cluster()
        self.rates = Rates()
        self.running: list[Escalator] = []

    def start(self, epoch: int = EPOCH) -> Escalator:
        box = Outbox(self.disk.read, self.disk.write, self.now_s)
        self.running.append(
            Escalator(
                box,
                self.cluster,
                self.rates,
                facts,
                epoch,
                clock=lambda: self.now_s,
                dice=lambda: 0.5,
            )
        )
        return self.running[-1]

    def stop(self) -> None:
        self.cluster.open.set()
        for one in self.running:
            one.close()


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    with contextlib.closing(contextlib.ExitStack()) as stack:
        stack.callback(scene.stop)
        yield scene


def hopeless(*more: Escalation, **fields: Any) -> Decision:
    one = an_escalation(kind=Kind.CACHE, candidates=CANDIDATES, **fields)
    return a_decision(a_view(1, detection=a_detection()), a_view(2), escalations=(one, *more))


def well() -> Decision:
    return a_decision()


def test_it_is_told_once_with_all_who_could_leave(scene: Scene) -> None:
    agent = scene.start()
    for _ in range(3):
        agent.submit(hopeless())
    [told] = wait_until(lambda: scene.cluster.got, "the escalation")
    assert told["id"] == id_of("vp1", EPOCH, "e1")
    assert (told["victim"], told["kind"], told["mode"]) == (uuid_of(1), "cache", "observe")
    victim, aggressor = told["candidates"]
    assert (victim["role"], victim["relief_ratio"], victim["dirty_kib_per_s"]) == (
        "victim",
        0.3,
        None,
    )
    assert (aggressor["others_ratio"], aggressor["dirty_kib_per_s"]) == (-0.05, 1234.5)
    wait_until(lambda: '"text": ""' in (scene.disk.text or ""), "the acknowledgement to be saved")
    agent.submit(hopeless())
    agent.close()
    assert scene.cluster.tries == 1
    assert scene.rates.asked == [[uuid_of(1), uuid_of(2)]]


def test_before_all_are_weighed_nothing_is_told(scene: Scene) -> None:
    agent = scene.start()
    agent.submit(hopeless(an_escalation(id="e2", victim_uuid=uuid_of(2))))
    wait_until(lambda: scene.cluster.got, "the escalation that is ready")
    agent.close()
    assert [told["id"] for told in scene.cluster.got] == [id_of("vp1", EPOCH, "e1")]


def test_a_cluster_that_is_away_gets_it_later(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.cluster.fault = OSError("no broker")
    agent = scene.start()
    for tries in (1, 2, 3):
        agent.submit(hopeless())
        wait_until(lambda tries=tries: scene.cluster.tries == tries, "a try")
        scene.now_s += 8.0
    scene.cluster.fault = None
    agent.submit(hopeless())
    wait_until(lambda: scene.cluster.got, "the escalation")
    agent.close()
    assert len(scene.cluster.got) == 1
    told = [r for r in caplog.records if r.name == escalator.__name__]
    assert [r.levelname for r in told if r.levelno > logging.INFO] == ["WARNING"]


def test_each_failure_doubles_the_wait(scene: Scene) -> None:
    scene.cluster.fault = OSError("no broker")
    agent = scene.start()
    waits = []
    for tries in range(1, 9):
        agent.submit(hopeless())
        wait_until(lambda tries=tries: scene.cluster.tries == tries, "a try")
        due_s = wait_until(lambda: agent._due_s > scene.now_s and agent._due_s, "the next one")
        waits.append(due_s - scene.now_s)
        scene.now_s = due_s
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_a_victim_that_recovers_first_is_not_told_of(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    scene.cluster.fault = OSError("no broker")
    agent = scene.start()
    agent.submit(hopeless())
    wait_until(lambda: scene.cluster.tries == 1, "a try")
    id = id_of("vp1", EPOCH, "e1")
    assert agent.stands(id)
    scene.cluster.fault = None
    scene.now_s += GRACE_S + 1
    agent.submit(well())
    wait_until(lambda: not agent.stands(id), "its end")
    agent.close()
    assert scene.cluster.got == []
    assert "no longer degraded, never sent" in caplog.text
    assert json.loads(scene.disk.text)["escalations"] == []


def test_a_moment_of_relief_does_not_end_it(scene: Scene) -> None:
    agent = scene.start()
    agent.submit(hopeless())
    wait_until(lambda: scene.cluster.got, "the escalation")
    scene.now_s += GRACE_S / 2
    agent.submit(well())
    scene.now_s += GRACE_S / 3
    agent.submit(hopeless())
    agent.close()
    assert agent.stands(id_of("vp1", EPOCH, "e1"))
    assert scene.cluster.tries == 1


def test_the_next_run_sends_what_this_one_could_not(scene: Scene) -> None:
    scene.cluster.fault = OSError("no broker")
    first = scene.start()
    first.submit(hopeless())
    wait_until(lambda: scene.cluster.tries == 1, "a try")
    first.close()
    scene.cluster.fault = None
    second = scene.start(epoch=EPOCH + 1)
    id = id_of("vp1", EPOCH, "e1")
    second.submit(hopeless(id="another-of-this-run"))
    [told] = wait_until(lambda: scene.cluster.got, "the escalation")
    assert told["id"] == id, "the id that it may have arrived under"
    assert second.stands(id)


def test_what_the_last_run_had_acknowledged_is_not_told_again(scene: Scene) -> None:
    first = scene.start()
    first.submit(hopeless())
    wait_until(lambda: scene.cluster.got, "the escalation")
    first.close()
    second = scene.start(epoch=EPOCH + 1)
    second.submit(hopeless(id="another-of-this-run"))
    second.close()
    assert scene.cluster.tries == 1
    assert second.stands(id_of("vp1", EPOCH, "e1"))


def test_what_the_last_run_wrote_down_ends_if_nobody_is_hurt_any_more(scene: Scene) -> None:
    scene.cluster.fault = OSError("no broker")
    first = scene.start()
    first.submit(hopeless())
    wait_until(lambda: scene.cluster.tries == 1, "a try")
    first.close()
    second = scene.start()
    scene.now_s += INHERIT_S + 1
    second.submit(well())
    wait_until(lambda: '"escalations": []' in (scene.disk.text or ""), "its end")
    second.close()
    assert scene.cluster.tries == 1


def test_whether_one_of_the_last_run_stands_is_known_once_its_victim_was_looked_at(
    scene: Scene,
) -> None:
    first = scene.start()
    first.submit(hopeless())
    wait_until(lambda: scene.cluster.got, "the escalation")
    first.close()
    second = scene.start(epoch=EPOCH + 1)
    id = scene.cluster.got[0]["id"]
    assert second.stands(id) is None
    second.submit(hopeless())
    wait_until(lambda: second.stands(id), "it to be seen")
    scene.now_s += INHERIT_S + 1
    second.submit(well())
    wait_until(lambda: second.stands(id) is False, "its end")


def test_what_ended_in_vain_is_told_anew_later(scene: Scene) -> None:
    agent = scene.start()
    agent.submit(hopeless())
    wait_until(lambda: scene.cluster.got, "the escalation")
    id = scene.cluster.got[0]["id"]
    agent.ended(id, "failed")
    assert agent.stands(id) is False
    agent.submit(hopeless())
    scene.now_s += AGAIN_S + 1
    agent.submit(hopeless())
    wait_until(lambda: len(scene.cluster.got) == 2, "another one")
    assert scene.cluster.got[1]["id"] == id_of("vp1", EPOCH, "e1 1") != id


def the_next_run(scene: Scene, before: Escalator) -> Escalator:
    """It has seen that the harm goes on."""
    before.close()
    agent = scene.start(epoch=EPOCH + 1)
    agent.submit(hopeless())
    wait_until(lambda: agent._latest is None, "it to be seen")
    return agent


def test_what_ended_in_vain_is_told_anew_by_the_next_run_too(scene: Scene) -> None:
    first = scene.start()
    first.submit(hopeless())
    wait_until(lambda: scene.cluster.got, "the escalation")
    first.ended(scene.cluster.got[0]["id"], "failed")
    second = the_next_run(scene, first)
    scene.now_s += AGAIN_S + 1
    second.submit(hopeless())
    wait_until(lambda: len(scene.cluster.got) == 2, "another one")


def test_what_ended_well_is_not_told_anew(scene: Scene) -> None:
    agent = scene.start()
    agent.submit(hopeless())
    wait_until(lambda: scene.cluster.got, "the escalation")
    agent.ended(scene.cluster.got[0]["id"], "completed")
    scene.now_s += GRACE_S / 2
    agent.submit(hopeless())
    agent.close()
    assert scene.cluster.tries == 1


@pytest.mark.parametrize("is_restarted", [False, True])
def test_harm_after_one_that_ended_well_is_another_one(scene: Scene, is_restarted: bool) -> None:
    agent = scene.start()
    agent.submit(hopeless())
    wait_until(lambda: scene.cluster.got, "the escalation")
    agent.ended(scene.cluster.got[0]["id"], "completed")
    if is_restarted:
        agent = the_next_run(scene, agent)
    scene.now_s += GRACE_S + 1
    agent.submit(hopeless())
    wait_until(lambda: len(scene.cluster.got) == 2, "another one")
    assert len({one["id"] for one in scene.cluster.got}) == 2


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_refused_message_is_not_acknowledged_but_escalated_anew_later(
    scene: Scene, caplog: pytest.LogCaptureFixture, is_restarted: bool
) -> None:
    """As when agents are of a later release than the vp-scheduler of a reversed upgrade."""
    scene.cluster.fault = wire.BadMessage("too new")
    agent = scene.start()
    agent.submit(hopeless())
    wait_until(lambda: '"is_spent": true' in (scene.disk.text or ""), "it to be put off")
    agent.submit(hopeless())
    assert "rejected by the cluster" in caplog.text
    assert "acknowledged by the cluster" not in caplog.text
    if is_restarted:
        agent = the_next_run(scene, agent)
    assert scene.cluster.tries == 1
    scene.cluster.fault = None
    scene.now_s += AGAIN_S + 1
    agent.submit(hopeless())
    wait_until(lambda: scene.cluster.got, "another one")
    assert scene.cluster.tries == 2


def test_a_message_that_is_too_large_is_told_to_the_log_alone(
    scene: Scene, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "encode", _too_large)
    agent = scene.start()
    agent.submit(hopeless())
    wait_until(lambda: "cannot be sent" in caplog.text, "the log line")
    agent.submit(hopeless())
    agent.close()
    assert scene.cluster.tries == 0
    assert caplog.text.count("cannot be sent") == 1


def _too_large(topic: str, message: Mapping[str, Any]) -> str:
    raise wire.BadMessage(f"{topic}: too large")


def test_on_a_full_disk_it_is_told_all_the_same(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.disk.is_full = True
    agent = scene.start()
    agent.submit(hopeless())
    wait_until(lambda: scene.cluster.got, "the escalation")
    agent.close()
    assert scene.disk.text is None
    assert [r.levelname for r in caplog.records if r.name == outbox.__name__] == ["ERROR"]
    assert "free space" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        "{}",
        '{"escalations": 7}',
        '{"escalations": [7]}',
        '{"escalations": [{"id": "x"}]}',
        json.dumps(
            {
                "escalations": [
                    {
                        "id": "99999999-9999-5999-8999-999999999999",
                        "victim": "v",
                        "kind": "cache",
                        "text": "\u00e4",
                        "is_acknowledged": False,
                        "is_spent": False,
                    }
                ]
            }
        ),
        "[" * 100_000,
        json.dumps({"escalations": [{"id": str(uuid_of(1)), "victim": "", "kind": "a" * 10_000}]}),
    ],
)
def test_a_damaged_file_is_told_and_left_out(
    scene: Scene, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    scene.disk.text = text
    agent = scene.start()
    assert "nothing need be done" in caplog.text
    assert max(len(record.getMessage()) for record in caplog.records) < 1000
    agent.submit(hopeless())
    wait_until(lambda: scene.cluster.got, "the escalation")


def test_no_more_than_some_are_kept(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    victims = [
        a_view(n, detection=replace(a_detection(), victim_uuid=uuid_of(n))) for n in range(MOST + 2)
    ]
    found = tuple(
        an_escalation(id=f"e{n}", victim_uuid=uuid_of(n), kind=Kind.CACHE, candidates=CANDIDATES)
        for n in range(MOST + 2)
    )
    agent = scene.start()
    agent.submit(a_decision(*victims, escalations=found))
    wait_until(lambda: len(scene.cluster.got) == MOST, "as many as are kept")
    agent.close()
    assert len(json.loads(scene.disk.text)["escalations"]) == MOST
    assert caplog.text.count("too many") == 1


def test_stopping_does_not_wait_for_a_cluster_that_hangs(scene: Scene) -> None:
    scene.cluster.open.clear()
    agent = scene.start()
    agent.submit(hopeless())
    wait_until(lambda: scene.cluster.tries == 1, "the try")
    agent.close()
    scene.cluster.open.set()
    wait_until(lambda: scene.cluster.is_closed, "the thread to end")


def test_stopping_ends_the_thread_and_closes_the_bus(scene: Scene) -> None:
    agent = scene.start()
    agent.close()
    assert scene.cluster.is_closed
    assert not agent._thread.is_alive()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, ""),
        ({"unmanaged": Unmanaged.NUMA_TOPOLOGY, "unmanaged_detail": "cells"}, ""),
        ({"unmanaged": Unmanaged.DEDICATED_CPUS, "unmanaged_detail": "pins"}, ""),
        ({"unmanaged": Unmanaged.OPTED_OUT, "unmanaged_detail": "vp:manage=no"}, "vp:manage=no"),
        ({"unmanaged": Unmanaged.MIGRATING, "unmanaged_detail": "a job"}, "a job"),
        ({"migration_obstacle": "SR-IOV"}, "SR-IOV"),
        ({"unmanaged": Unmanaged.EXEMPT, "unmanaged_detail": "alone"}, "alone"),
        ({"refuses_help": True}, ""),
        ({"mode": Mode.ENFORCE}, ""),
        ({"mode": Mode.ADVISE}, "an override sets it to mode advise"),
    ],
)
def test_whom_nobody_may_move_is_said(fields: dict[str, Any], named: str) -> None:
    assert escalation_message.obstacle(a_guest(**fields), Mode.ENFORCE) == named


def test_who_left_meanwhile_is_no_candidate() -> None:
    one = an_escalation(candidates=CANDIDATES)
    told = escalation_message.message(one, uuid_of(9), a_decision(a_view(2)), facts(), 1, {})
    assert [candidate["uuid"] for candidate in told["candidates"]] == [uuid_of(2)]
    wire.decode(wire.ESCALATION_TOPIC, wire.encode(wire.ESCALATION_TOPIC, told))


def test_the_points_to_fail_at_are_known() -> None:
    names = {"before-escalation-sent", "after-escalation-sent", "before-prepared", "after-prepared"}
    assert names <= failpoints.POINTS


@pytest.mark.needs_controllers("vp")
def test_from_the_tick_to_the_cluster(scene: Scene, tmp_path: Path) -> None:
    """A whole agent on a host where nobody may be touched."""
    policy = a_policy(home_on_arrival="never", escalate_after_s=10.0)
    world = World(tmp_path / "state", policy=policy)
    agent = scene.start()
    world.cluster = Agents(agent, MigrationHolds(agent.stands, agent.ended))
    world.start_agent()
    victim, neighbour = a_hurt_pair(world)
    for uuid in world.host.guests:
        world.host.change(uuid, unmanaged=Unmanaged.OPTED_OUT, unmanaged_detail="vp:manage=no")
    world.host.change(neighbour, unmanaged=Unmanaged.NUMA_TOPOLOGY)
    world.tick(30)
    [told] = wait_until(lambda: scene.cluster.got, "the escalation")
    assert told["victim"] == victim
    by_role = {one["role"]: one for one in told["candidates"]}
    assert by_role["aggressor"]["uuid"] == neighbour
    assert by_role["aggressor"]["relief_ratio"] > 0.1
    obstacles = {role: one["obstacle"] for role, one in by_role.items()}
    assert obstacles == {"victim": "vp:manage=no", "aggressor": "", "co-runner": "vp:manage=no"}
    assert agent.stands(told["id"])
