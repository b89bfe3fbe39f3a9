# SPDX-License-Identifier: Apache-2.0
"""A running libvirt guest that writes throughout its memory, on the node where it first ran."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.numa.writer import MEMORY_MIB, WriterGuest
from tests.waiting import wait_until

PAGES = MEMORY_MIB * 256
ELSEWHERE = 2
BOUND = range(8)


@pytest.fixture(scope="module")
def guest(numa_host):
    """One for the tests that only look: it takes ten seconds to fill its memory."""
    guest = WriterGuest(numa_host)
    guest.boot(first_cpus={2 * ELSEWHERE, 2 * ELSEWHERE + 1}, bound=BOUND)
    yield guest
    numa_host.destroy_all()


def test_its_memory_is_on_the_node_where_it_was_first_touched(guest):
    pages = guest.pages_by_node()
    assert pages.get(ELSEWHERE, 0) >= 0.99 * PAGES
    assert sum(pages.values()) <= PAGES


def test_its_cgroup_is_below_its_hosts_own(guest, numa_host):
    group = Path(f"/proc/{guest.pid}/cgroup").read_text().strip()
    assert group.startswith(f"0::/{numa_host.name}/machine/")


def test_it_stays_where_it_is_and_finds_its_memory_as_it_wrote_it(guest):
    before = guest.progress()
    after = guest.wait_until_all_is_checked()
    assert after.wrong == 0
    assert after.ms > before.ms
    assert after.longest_ever_ms < 1000
    assert guest.pages_by_node().get(ELSEWHERE, 0) >= 0.99 * PAGES


def test_it_notices_a_word_that_somebody_else_wrote(guest):
    before = guest.progress().wrong
    guest.wake(512 << 20, b"what")
    assert guest.wait_until_all_is_checked().wrong == before + 1


def test_it_notices_that_it_stood_still(guest):
    began = time.monotonic()
    os.kill(guest.pid, signal.SIGSTOP)
    wait_until(lambda: time.monotonic() > began + 2.0, "two seconds to pass")
    os.kill(guest.pid, signal.SIGCONT)
    # Its clock is set by the emulated machine's, under whatever load that was.
    wait_until(lambda: guest.progress().longest_ever_ms >= 1500, "the writer to say so")
