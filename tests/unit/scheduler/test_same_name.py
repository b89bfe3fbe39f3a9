# SPDX-License-Identifier: Apache-2.0
"""Two agents under one host name are told from one agent that was started again."""

import logging

import pytest

from nova_vp import wire
from vp_scheduler.ingest.same_name import TOLD_EVERY_S, SameName

TTL_S = wire.EXPIRE_S


class World:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.watched = SameName(lambda: self.now_s)

    def hears(self, *epochs: int, every_s: float = 60.0, host: str = "compute-1") -> None:
        for epoch in epochs:
            self.watched.heard({"host": host, "epoch": epoch})
            self.now_s += every_s


@pytest.fixture
def world(caplog: pytest.LogCaptureFixture) -> World:
    caplog.set_level(logging.WARNING)
    return World()


def test_two_that_report_in_turn_are_told_once_an_hour(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    rounds = int(TOLD_EVERY_S / 120) + 6
    world.hears(*(1000, 2000) * rounds)
    (first, *others) = caplog.messages
    assert len(others) == 1
    assert "host=compute-1" in first
    assert "(epochs 1000 and 2000)" in first
    assert "[agent] host" in first


@pytest.mark.parametrize(
    ("epochs", "every_s"),
    [
        pytest.param((1, 1, 1, 1, 1, 1, 1), 60.0, id="one run"),
        pytest.param((1, 1, 2, 2, 2, 3, 3, 3), 60.0, id="one run after another"),
        pytest.param((1, 2, 1, 2, 1, 2, 1, 2), TTL_S / 8, id="late messages of the run before"),
        pytest.param((2, 2, 2, 2, 2, 1, 1, 1), 60.0, id="a lost state folder, a clock set back"),
        pytest.param((2, 2, 2, 2, 2, 1, 3, 3), 60.0, id="and a run after that"),
    ],
)
def test_one_agent_is_no_two(
    world: World, caplog: pytest.LogCaptureFixture, epochs: tuple[int, ...], every_s: float
) -> None:
    world.hears(*epochs, every_s=every_s)
    assert caplog.messages == []


def test_hosts_are_judged_each_for_itself(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(5):
        world.hears(1, host="compute-1", every_s=30.0)
        world.hears(2, host="compute-2", every_s=30.0)
    assert caplog.messages == []
