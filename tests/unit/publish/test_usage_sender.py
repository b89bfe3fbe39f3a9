# SPDX-License-Identifier: Apache-2.0
"""Usage on its way: written down, sent until it is acknowledged, never in the tick's way."""

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from nova_vp import wire
from tests.decisions import a_decision, a_view, uuid_of
from tests.messages import HOUR
from tests.unit.publish.test_usage_log import ONE, Disk
from tests.waiting import wait_until
from vp_agent.publish.usage_log import UsageLog
from vp_agent.publish.usage_sender import UsageSender

FLUSH_S = 0.01


class Cluster:
    """Acknowledges what it gets, unless it is away or refuses."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.tries = 0
        self.fault: Exception | None = None
        self.left_out: dict[str, str] = {}
        self.is_closed = threading.Event()

    def usage(self, text: str) -> Mapping[str, str]:
        self.tries += 1
        if self.fault:
            raise self.fault
        self.got += wire.decode(wire.USAGE_TOPIC, text)["records"]
        return self.left_out

    def close(self) -> None:
        self.is_closed.set()


class Scene:
    def __init__(self) -> None:
        self.now_s = 1000.0
        self.disk = Disk()
        self.cluster = Cluster()
        self.log = UsageLog(self.disk.read, self.disk.write, 7)
        self.sender = UsageSender(
            self.log,
            self.cluster,
            "vp1",
            FLUSH_S,
            60.0,
            clock=lambda: self.now_s,
            wall_clock=lambda: float(HOUR),
            dice=lambda: 0.5,
        )

    def tick(self) -> None:
        self.sender.submit(a_decision(a_view(1, usage=(ONE,))))

    def is_saved(self, booked: str) -> bool:
        return f'"booked_s": {booked}' in (self.disk.text or "")


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.sender.close()


def test_it_is_saved_at_once_and_sent_at_a_moment_of_its_own(scene: Scene) -> None:
    scene.tick()
    wait_until(lambda: scene.is_saved("1.0"), "the file")
    assert scene.cluster.tries == 0
    scene.now_s += 30.0
    [told] = wait_until(lambda: scene.cluster.got, "the message")
    assert (told["uuid"], told["booked_s"]) == (uuid_of(1), 1.0)


def test_what_is_acknowledged_is_not_sent_again(scene: Scene) -> None:
    scene.tick()
    scene.now_s += 30.0
    wait_until(lambda: scene.cluster.got, "the message")
    scene.now_s += 1000.0
    scene.tick()
    wait_until(lambda: len(scene.cluster.got) == 2, "the next")
    assert [one["booked_s"] for one in scene.cluster.got] == [1.0, 2.0]


def test_while_the_cluster_is_away_it_is_tried_again(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.cluster.fault = OSError("no broker")
    scene.tick()
    scene.now_s += 30.0
    wait_until(lambda: scene.cluster.tries == 1, "the first try")
    for tries in (2, 3):
        scene.now_s += 100.0
        wait_until(lambda tries=tries: scene.cluster.tries == tries, "another try")
    scene.cluster.fault = None
    scene.now_s += 100.0
    wait_until(lambda: scene.cluster.got, "the message")
    assert caplog.text.count("usage cannot be sent") == 1


def test_what_is_refused_is_sent_again_without_another_tick(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """As when agents are of a later release than the vp-scheduler of a reversed upgrade."""
    scene.cluster.fault = wire.BadMessage("a newer release")
    scene.tick()
    scene.now_s += 30.0
    wait_until(lambda: "rejects usage" in caplog.text, "the refusal")
    scene.cluster.fault = None
    scene.now_s += 1000.0
    [told] = wait_until(lambda: scene.cluster.got, "the message")
    assert (told["uuid"], told["booked_s"]) == (uuid_of(1), 1.0)


def test_at_a_stop_all_is_saved_and_sent(scene: Scene) -> None:
    scene.tick()
    scene.sender.close()
    assert scene.is_saved("1.0")
    assert [one["booked_s"] for one in scene.cluster.got] == [1.0]
    assert scene.cluster.is_closed.is_set()


def test_who_bills_nothing_sends_nothing(scene: Scene) -> None:
    scene.sender.submit(a_decision(a_view(1)))
    scene.now_s += 1000.0
    scene.sender.close()
    assert (scene.disk.text, scene.cluster.tries) == (None, 0)
