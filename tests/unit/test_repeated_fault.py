# SPDX-License-Identifier: Apache-2.0
"""An agent that ends by a fault again and again acts later each time."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from vp_agent.loop import repeated_fault
from vp_agent.loop.repeated_fault import STEADY_S, RepeatedFault, pause_after


class Clock:
    """Time passes while somebody waits."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.stop = threading.Event()
        self.waited_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def wait(self, timeout: float) -> bool:
        self.now_s += timeout
        self.waited_s += timeout
        return False


class Run:
    """One run of an agent over the same folder."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.fault = RepeatedFault(folder, clock)
        self.beats = 0
        self._clock = clock

    def ends(self, work: Callable[[], None] = lambda: None) -> float:
        """Seconds that it waited first."""
        before_s = self._clock.waited_s
        with self.fault.counted():
            self.fault.wait_out(self._clock, self._beat)  # type: ignore[arg-type]
            work()
        return self._clock.waited_s - before_s

    def fails(self) -> float:
        def fail() -> None:
            raise ZeroDivisionError

        before_s = self._clock.waited_s
        with pytest.raises(ZeroDivisionError):
            self.ends(fail)
        return self._clock.waited_s - before_s

    def _beat(self) -> None:
        self.beats += 1


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_each_fault_in_a_row_makes_the_next_start_wait_for_longer(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    assert [Run(tmp_path, clock).fails() for _ in range(5)] == [0, 0, 10, 20, 40]
    assert "4 times in a row: it acts again in 40 s" in caplog.text
    assert "a stop and a start act at once" in caplog.text


def test_no_pause_is_longer_than_ten_minutes() -> None:
    assert [pause_after(faults) for faults in (0, 1, 2, 8, 9, 100)] == [0, 0, 10, 600, 600, 600]


def test_the_host_is_told_that_the_agent_lives_while_it_waits(tmp_path: Path, clock: Clock) -> None:
    for _ in range(3):
        Run(tmp_path, clock).fails()
    run = Run(tmp_path, clock)
    assert run.ends() == 20
    assert run.beats == 4


def test_a_run_that_ended_well_forgets_faults(tmp_path: Path, clock: Clock) -> None:
    for _ in range(3):
        Run(tmp_path, clock).fails()
    Run(tmp_path, clock).ends()
    assert Run(tmp_path, clock).ends() == 0


def test_a_run_that_lasted_forgets_faults(tmp_path: Path, clock: Clock) -> None:
    for _ in range(3):
        Run(tmp_path, clock).fails()
    steady = Run(tmp_path, clock)

    def last() -> None:
        clock.now_s += STEADY_S - 1
        steady.fault.ticked()
        assert (tmp_path / repeated_fault.FILE).exists()
        clock.now_s += 1
        steady.fault.ticked()
        assert not (tmp_path / repeated_fault.FILE).exists()

    steady.ends(last)


def test_a_stop_ends_the_pause(tmp_path: Path, clock: Clock) -> None:
    for _ in range(3):
        Run(tmp_path, clock).fails()
    stop = threading.Event()
    stop.set()
    fault = RepeatedFault(tmp_path, clock)
    with fault.counted():
        fault.wait_out(stop, lambda: None)
    assert not (tmp_path / repeated_fault.FILE).exists()


@pytest.mark.parametrize("text", ["soup", "", "-3", "9" * 40])
def test_a_damaged_count_is_no_reason_not_to_run(tmp_path: Path, clock: Clock, text: str) -> None:
    (tmp_path / repeated_fault.FILE).write_text(text)
    assert Run(tmp_path, clock).ends() <= repeated_fault.MOST_PAUSE_S


def test_where_nothing_can_be_written_the_fault_still_shows(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / repeated_fault.FILE).mkdir()
    assert Run(tmp_path, clock).fails() == 0
    assert "does not know that this run ended by a fault" in caplog.text
