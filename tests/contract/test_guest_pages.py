# SPDX-License-Identifier: Apache-2.0
"""Pages of a real process as the kernel tells and moves them, as far as one node shows it.

What takes two nodes is in `test_memory.py`, on the real kernel in the NUMA lab.
"""

import errno
import os
import subprocess

import pytest

from nova_vp.core.types.knob import Knob
from tests.memory_subjects import a_writer, numa_maps
from vp_agent.drivers import guest_pages
from vp_agent.drivers.base import ApplyFailed
from vp_agent.drivers.guest_pages import PAGE_KIB, Flow
from vp_agent.drivers.memory_pages import Mover
from vp_agent.drivers.numa_nodes import Nodes
from vp_agent.drivers.numa_residency import Ram

MIB = 32
PAGES = MIB * 1024 // PAGE_KIB
NO_NODE = 1000


@pytest.fixture(scope="module")
def writer():
    with a_writer(MIB) as running:
        yield running


@pytest.fixture
def look(writer):
    return guest_pages.look(*ids(writer), MIB * 1024)


def ids(writer):
    return writer.process.pid, writer.process.started


def test_the_ram_is_found_and_its_pages_lie_where_the_kernel_lists_them(writer, look):
    assert sum(size for _, size in look.spans) >= MIB * 2**20
    listed = numa_maps(writer.process.pid)
    told = dict(look.nodes)
    assert told.keys() == listed.keys()
    for node, kib in listed.items():
        assert told[node] / look.sampled == pytest.approx(kib / sum(listed.values()), abs=0.05)
    assert (look.locked_kib, look.huge_kib) == (0, 0)


def test_a_page_that_lies_where_it_shall_is_not_moved(writer, look):
    (address, _), node = look.spans[0], look.nodes[0][0]
    flows = (Flow(NO_NODE, node, 1.0),)
    done = guest_pages.move_chunk(*ids(writer), address, 1024, flows)
    assert done == guest_pages.Moved(was=((node, 1024),), moved=())
    assert writer.ask().bad_pages == 0


def test_a_node_that_is_not_there_is_an_error(writer, look):
    (address, _), node = look.spans[0], look.nodes[0][0]
    with pytest.raises(OSError, match="move_pages") as caught:
        guest_pages.move_chunk(*ids(writer), address, 1024, (Flow(node, NO_NODE, 1.0),))
    assert caught.value.errno in (errno.ENODEV, errno.EINVAL)


def test_another_process_of_the_same_number_is_none(writer):
    pid, started = ids(writer)
    with pytest.raises(ProcessLookupError):
        guest_pages.look(pid, started - 1, MIB * 1024)
    with pytest.raises(ProcessLookupError):
        guest_pages.move_chunk(pid, started - 1, 0, 1, ())


def test_a_process_that_has_ended_and_was_not_waited_for_is_gone(look):
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    here = guest_pages.read_process(ended.pid)
    (address, _), node = look.spans[0], look.nodes[0][0]
    flows = (Flow(NO_NODE, node, 1.0),)
    with pytest.raises(ProcessLookupError, match="has ended"):
        guest_pages.move_chunk(here.pid, here.started, address, 1024, flows)
    ended.wait()


def test_memory_that_was_never_touched_is_nowhere(tmp_path):
    import mmap  # Of this very process.

    with mmap.mmap(-1, 2**30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
        here = guest_pages.read_process(os.getpid())
        look = guest_pages.look(here.pid, here.started, 2**20)
        assert look.sampled == guest_pages.SAMPLES
        assert sum(pages for _, pages in look.nodes) < look.sampled / 10


def test_locked_memory_is_seen_and_refused():
    with a_writer(MIB, "locked") as writer:
        mover = Mover(lambda _: Ram(writer.process, MIB * 1024), Nodes(), guest_pages)
        with pytest.raises(ApplyFailed, match=r"cannot be moved: \d+ KiB of its process are lock"):
            mover.apply("guest", Knob.MEMORY, ((Nodes().ids[0], 1.0),))
        assert mover.moves() == {}


MAPS = """\
55d000000000-55d000400000 r-xp 00000000 08:01 11 /usr/bin/qemu-system-x86_64
55d000400000-55d000500000 rw-p 00400000 08:01 11 /usr/bin/qemu-system-x86_64
55d001000000-55d041000000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0040000000 rwxp 00000000 00:00 0
7f1000000000-7f1000800000 rw-p 00000000 00:00 0
7f2000000000-7f2020000000 rw-p 00000000 00:00 0
7f2040000000-7f2050000000 rw-s 00000000 00:01 77 /memfd:pc.dimm (deleted)
7f3000000000-7f3001000000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
"""


@pytest.mark.parametrize(
    ("memory_mib", "spans_mib"),
    [(512, [512]), (768, [512, 256]), (500, [512]), (784, [512, 256, 16]), (0, [])],
)
def test_ram_is_the_largest_mappings_that_together_hold_it(memory_mib, spans_mib):
    """Neither code, heap, stack nor the code that TCG makes."""
    found = guest_pages.find_ram(MAPS, memory_mib * 1024)
    assert [size >> 20 for _, size in found] == spans_mib


def test_a_mapping_far_larger_than_the_guests_memory_is_none_of_it():
    """QEMU may map what it likes."""
    maps = (
        "7f0000000000-7f8000000000 rw-p 00000000 00:00 0 \n"
        "550000000000-550001000000 rw-p 00000000 00:00 0 \n"
    )
    assert guest_pages.find_ram(maps, 16 * 1024) == ((0x550000000000, 0x1000000),)
