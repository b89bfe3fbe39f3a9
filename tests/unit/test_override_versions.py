# SPDX-License-Identifier: Apache-2.0
"""Versions of overrides: whatever an agent was sent, it takes the next overrides of the service."""

import logging
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_vp import wire
from nova_vp.server_override import (
    REMEMBERED_AHEAD_MS,
    ServerOverride,
    overrides_text,
)
from tests.override_service import OverrideService
from vp_agent.loop.overrides import CLOUD, ServerOverrides
from vp_agent.loop.state import StateFolder

NOW_MS = 1_800_000_000_000
HOUR_MS = 3600 * 1000
YEAR_MS = 365 * 24 * HOUR_MS
WEB = "11111111-1111-4111-8111-111111111111"
OUT, BACK, HOSTILE = ServerOverride(opt_out=True), ServerOverride(), ServerOverride(priority=9)


class Clock:
    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> float:
        return self.now_ms / 1000


def order(service: OverrideService, agent: ServerOverrides, ordered: ServerOverride) -> bool:
    """Whether the agent obeys it."""
    newer = service.order(agent.take, WEB, ordered)
    return newer is None and agent.told.servers[WEB] == ordered


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder(str(tmp_path))


@pytest.fixture
def agent(state: StateFolder, clock: Clock) -> ServerOverrides:
    return ServerOverrides(state, clock)


def send(agent: ServerOverrides, version: int, ordered: ServerOverride = HOSTILE) -> int | None:
    return agent.take(overrides_text(version, {WEB: ordered}))


def obeys(agent: ServerOverrides, ordered: ServerOverride) -> bool:
    return agent.told.servers[WEB] == ordered


HOSTILE_VERSIONS = [
    NOW_MS + 1,
    NOW_MS + REMEMBERED_AHEAD_MS,
    NOW_MS + REMEMBERED_AHEAD_MS + 1,
    NOW_MS + YEAR_MS,
    wire.MOST_COUNT,
]


@pytest.mark.parametrize("version", HOSTILE_VERSIONS)
@pytest.mark.parametrize("starts_again", [False, True])
@pytest.mark.parametrize("skew_ms", [-6 * HOUR_MS, 0, 6 * HOUR_MS])
def test_an_order_after_a_hostile_one_is_obeyed(
    agent: ServerOverrides,
    state: StateFolder,
    clock: Clock,
    version: int,
    starts_again: bool,
    skew_ms: int,
) -> None:
    service = OverrideService(Clock(NOW_MS + skew_ms))
    assert order(service, agent, OUT)
    send(agent, version)
    if starts_again:
        agent = ServerOverrides(state, clock)
    assert order(service, agent, OUT)
    assert order(service, agent, BACK)


@pytest.mark.parametrize("version", [NOW_MS + REMEMBERED_AHEAD_MS + 1, wire.MOST_COUNT])
def test_a_file_of_an_earlier_release_with_such_a_version_locks_nobody_out(
    state: StateFolder, clock: Clock, caplog: pytest.LogCaptureFixture, version: int
) -> None:
    state.set_message(CLOUD, overrides_text(version, {WEB: OUT}))
    with caplog.at_level(logging.WARNING):
        agent = ServerOverrides(state, clock)
    assert obeys(agent, OUT), "the overrides are kept"
    assert agent.told.version == NOW_MS
    assert f"overrides of version {version} are applied, but the version is not" in caplog.text
    assert send(agent, NOW_MS, BACK) is None
    assert obeys(agent, BACK)
    again = ServerOverrides(state, clock)
    assert again.told == agent.told


@pytest.mark.parametrize("off_ms", [-NOW_MS, -YEAR_MS, YEAR_MS])
def test_an_agent_whose_clock_was_wrong_obeys_before_and_after(
    agent: ServerOverrides, clock: Clock, off_ms: int
) -> None:
    service = OverrideService(Clock())
    clock.now_ms += off_ms
    assert order(service, agent, OUT)
    assert order(service, agent, BACK)
    send(agent, clock.now_ms + 1)
    send(agent, wire.MOST_COUNT)
    clock.now_ms = NOW_MS
    assert order(service, agent, OUT)


def test_once_clocks_are_right_again_no_number_moves_with_them(
    agent: ServerOverrides, clock: Clock
) -> None:
    """Told while the clocks of all were a day ahead; the database was restored since."""
    clock.now_ms += 24 * HOUR_MS
    assert send(agent, clock.now_ms, OUT) is None
    clock.now_ms = NOW_MS
    newer = send(agent, NOW_MS - 5, BACK)
    assert newer == NOW_MS
    clock.now_ms += 1000
    assert send(agent, newer + 1, BACK) is None
    assert obeys(agent, BACK)


@pytest.mark.parametrize("back_at_ms", [NOW_MS, NOW_MS - HOUR_MS])
def test_a_database_that_knows_later_times_or_was_restored_is_obeyed(
    agent: ServerOverrides, back_at_ms: int
) -> None:
    jumped = OverrideService(Clock(NOW_MS + YEAR_MS))
    assert order(jumped, agent, OUT)
    late = OverrideService(Clock(), jumped.version)
    assert order(late, agent, BACK)
    restored = OverrideService(Clock(back_at_ms))
    assert order(restored, agent, OUT)


def test_who_comes_late_is_told_which_version_holds(agent: ServerOverrides) -> None:
    assert send(agent, NOW_MS, OUT) is None
    assert send(agent, NOW_MS - 1, BACK) == NOW_MS
    assert obeys(agent, OUT)
    assert send(agent, NOW_MS, BACK) is None


def test_a_version_too_far_ahead_is_told_once_until_another_comes(
    agent: ServerOverrides, caplog: pytest.LogCaptureFixture
) -> None:
    def count() -> int:
        return sum("further ahead" in record.getMessage() for record in caplog.records)

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            send(agent, wire.MOST_COUNT)
        assert count() == 1
        send(agent, NOW_MS)
        send(agent, wire.MOST_COUNT)
        assert count() == 2


@settings(max_examples=25)
@given(
    hostile=st.lists(
        st.one_of(
            st.integers(0, wire.MOST_COUNT),
            st.integers(NOW_MS - HOUR_MS, NOW_MS + 2 * REMEMBERED_AHEAD_MS),
        ),
        max_size=3,
    ),
    skew_ms=st.integers(-HOUR_MS, HOUR_MS),
)
def test_whatever_comes_the_next_order_is_obeyed(hostile: list[int], skew_ms: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        agent = ServerOverrides(StateFolder(folder), Clock())
        service = OverrideService(Clock(NOW_MS + skew_ms))
        for version in hostile:
            send(agent, version)
            for ordered in (OUT, BACK):
                assert order(service, agent, ordered)
