# SPDX-License-Identifier: Apache-2.0
"""Event groups against the real kernel, with software events: those need no PMU.

What the interposed perf_event_open of the counter contract takes for granted is shown here.
"""

import threading
import time
from pathlib import Path

import pytest

from tests.descriptors import OF_PERF, own_fds
from tests.waiting import wait_until
from vp_agent.drivers.hardware_events import CYCLES, Event
from vp_agent.drivers.perf_event import ThreadGroup

CLOCKS = (
    Event("cpu-clock", 1, 0),
    Event("task-clock", 1, 1),
    Event("page-faults", 1, 2),
    Event("context-switches", 1, 3),
)


def open_clocks(tid: int) -> ThreadGroup:
    try:
        return ThreadGroup(tid, CLOCKS)
    except PermissionError:
        pytest.skip("perf events are not permitted here")


def burn(ns: int) -> int:
    """Uses so much CPU time, and returns how much of it an event must have seen at the least.

    The scheduler's clock and that of perf are two: on a busy or virtual CPU they were seen to be
    0.5 % apart.
    """
    start = time.thread_time_ns()
    while time.thread_time_ns() - start < ns:
        pass
    return ns * 9 // 10


def end(thread: threading.Thread) -> int:
    """Its id, once the kernel has let go of it too: `join` returns a little earlier."""
    thread.join()
    tid = thread.native_id
    assert tid is not None
    wait_until(lambda: not Path(f"/proc/self/task/{tid}").exists(), "the thread is gone")
    return tid


def test_a_group_counts_its_thread_in_the_order_of_the_events() -> None:
    group = open_clocks(threading.get_native_id())
    group.read()
    before = list(group.totals)
    least_ns = burn(20_000_000)
    enabled_ns, running_ns = group.read()
    group.close()
    cpu_ns, task_ns, _faults, switches = (
        now - was for now, was in zip(group.totals, before, strict=True)
    )
    assert min(cpu_ns, task_ns) >= least_ns
    assert enabled_ns == running_ns >= least_ns
    assert 0 <= switches < 1_000_000, "a clock in nanoseconds, were the order another"


def test_a_sleeping_thread_is_no_multiplexing() -> None:
    asleep = threading.Event()
    thread = threading.Thread(target=asleep.wait)
    thread.start()
    assert thread.native_id is not None
    group = open_clocks(thread.native_id)
    group.read()
    enabled_ns, running_ns = group.read()
    group.close()
    assert enabled_ns == running_ns
    asleep.set()
    thread.join()


def test_a_thread_that_ended_keeps_its_counts_and_raises_nothing() -> None:
    begin = threading.Event()
    thread = threading.Thread(target=lambda: begin.wait() and burn(5_000_000))
    thread.start()
    assert thread.native_id is not None
    group = open_clocks(thread.native_id)
    begin.set()
    end(thread)
    group.read()
    last = list(group.totals)
    assert last[1] >= 4_500_000
    group.read()
    assert group.totals == last
    group.close()


def test_a_thread_that_is_gone_cannot_be_opened_and_leaves_no_descriptor() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    tid = end(thread)
    at_rest = own_fds(OF_PERF)
    with pytest.raises(ProcessLookupError):
        ThreadGroup(tid, CLOCKS)
    with pytest.raises(OSError, match="no-such-event: "):
        ThreadGroup(0, (*CLOCKS, Event("no-such-event", CYCLES.type, 4711)))
    assert own_fds(OF_PERF) == at_rest
