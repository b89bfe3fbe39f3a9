# SPDX-License-Identifier: Apache-2.0
"""What moves where: the fewest pages, in chunks that huge pages fit, and what is still owed."""

import math
import time
from dataclasses import dataclass

import pytest

from nova_vp.core.types.knob import Knob
from tests.memory_subjects import KIB, FakePages, PagesSubject, over
from vp_agent.drivers.guest_pages import PAGE_BYTES, PAGE_KIB, Flow, choose
from vp_agent.drivers.memory_pages import Mover
from vp_agent.drivers.numa_nodes import Nodes, is_kernel_balancing
from vp_agent.drivers.page_migration import Move, chunks, flows_between

NODES = (0, 1, 2)
HUGE = 2 * 2**20


@pytest.mark.parametrize(
    ("what", "now", "to", "flows"),
    [
        ("all of it", ((0, 1.0),), ((1, 1.0),), {(0, 1): 1.0, (2, 1): 1.0}),
        ("a part", ((0, 1.0),), ((0, 0.25), (1, 0.75)), {(0, 1): 0.75, (2, 1): 1.0}),
        (
            "from two that have too much",
            ((0, 0.5), (1, 0.5)),
            ((0, 0.25), (1, 0.25), (2, 0.5)),
            {(0, 2): 0.5, (1, 2): 0.5},
        ),
        (
            "to two that lack some",
            ((0, 1.0),),
            ((1, 0.25), (2, 0.75)),
            {(0, 1): 0.25, (0, 2): 0.75},
        ),
        ("nothing, as far as a sample tells", ((0, 0.51), (1, 0.49)), ((0, 0.5), (1, 0.5)), {}),
        ("memory that was never touched", (), ((0, 1.0),), {(1, 0): 1.0, (2, 0): 1.0}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_fewest_pages_move(what, now, to, flows):
    found = {(f.source, f.target): f.ratio for f in flows_between(now, to, NODES)}
    # What the sample shows on no node may still be there, and leaves a node that shall be empty.
    relevant = {pair: r for pair, r in found.items() if pair in flows or pair[0] in dict(now)}
    assert relevant == pytest.approx(flows)


def test_chunks_end_where_huge_pages_do():
    first = 7 * HUGE + 3 * PAGE_BYTES
    spans = ((first, 9 * 2**20), (2**40, PAGE_BYTES))
    found = list(chunks(spans))
    assert sum(count for _, count in found) == 9 * 256 + 1
    assert found[0] == (first, (8 * HUGE - first) // PAGE_BYTES)
    assert [count for _, count in found[1:-2]] == [1024] * (len(found) - 3)
    assert all(address % (2 * HUGE) == 0 for address, _ in found[1:])


@pytest.mark.parametrize(
    ("flows", "chosen"),
    [
        ((Flow(0, 1, 1.0),), [(0, 1), (1, 1), (4, 1)]),
        ((Flow(0, 1, 0.3),), [(0, 1)]),
        ((Flow(0, 1, 0.3, owed=1.0),), [(0, 1), (1, 1)]),
        ((Flow(0, 1, 0.3, owed=-1.0),), []),
        ((Flow(0, 1, 0.4), Flow(0, 2, 0.4)), [(0, 1), (1, 2)]),
        ((Flow(2, 0, 1.0), Flow(0, 1, 1.0)), [(3, 0), (0, 1), (1, 1), (4, 1)]),
        ((Flow(5, 0, 1.0),), []),
    ],
)
def test_neighbours_go_together_and_what_is_nowhere_stays_there(flows, chosen):
    assert choose([0, 0, -2, 2, 0], flows) == chosen


@pytest.fixture
def subject():
    subject = PagesSubject()
    yield subject
    subject.close()


def moved(subject, uuid):
    subject.mover.apply(uuid, Knob.MEMORY, ((1, 1.0),))
    return over(subject, uuid)


@pytest.mark.parametrize("share", [0.25, 0.5, 0.125])
def test_what_huge_pages_moved_too_much_the_next_chunk_moves_less(subject, share):
    uuid = subject.boot(0)
    subject.table.together = 512
    subject.mover.apply(uuid, Knob.MEMORY, ((0, 1 - share), (1, share)))
    assert over(subject, uuid).problem == ""
    assert subject.lies(uuid) == {0: (1 - share) * KIB, 1: share * KIB}


def test_pages_that_are_busy_are_tried_again(subject):
    uuid = subject.boot(0)
    subject.table.busy = dict.fromkeys(range(0, 4000, 7), 2)
    ended = moved(subject, uuid)
    assert (ended.problem, ended.left_kib, ended.moved_kib) == ("", 0, KIB)
    assert subject.lies(uuid) == {1: KIB}


def test_a_second_try_moves_no_second_share(subject):
    uuid = subject.boot(0)
    subject.table.busy = dict.fromkeys(range(4096), 1)
    subject.mover.apply(uuid, Knob.MEMORY, ((0, 0.75), (1, 0.25)))
    assert over(subject, uuid).problem == ""
    assert subject.lies(uuid) == {0: 0.75 * KIB, 1: 0.25 * KIB}


@pytest.mark.parametrize(("kib_per_s", "span_s"), [(4096.0, 2.0), (0.0, math.inf)])
def test_a_chunk_waits_until_the_one_before_is_paid_for(subject, kib_per_s, span_s):
    uuid = subject.boot(0)
    move = Move(uuid, subject.known[uuid].process, ((1, 1.0),), (), (), KIB)
    subject.mover.set_copy_rates({uuid: kib_per_s})
    move.last_kib, move.last_at_s = 8192, time.monotonic()
    assert subject.mover._wait_s(move) == pytest.approx(span_s, abs=1.0)


def test_a_fault_ends_the_move_and_holds_up_nobody(subject):
    uuid = subject.boot(0)
    subject.table.busy = {0: "not a number"}
    assert "a fault of the agent: TypeError" in moved(subject, uuid).problem
    subject.table.busy = {}
    assert moved(subject, uuid).problem == ""


def test_pages_that_stay_busy_are_left_and_counted(subject):
    uuid = subject.boot(0)
    subject.table.busy = dict.fromkeys(range(1000), 1000)
    ended = moved(subject, uuid)
    assert ended.problem.startswith(f"{1000 * PAGE_KIB} KiB were in use by the kernel at every try")
    assert ended.left_kib == 1000 * PAGE_KIB
    assert subject.lies(uuid) == {0: 1000 * PAGE_KIB, 1: KIB - 1000 * PAGE_KIB}


def test_a_few_that_stay_are_no_problem(subject):
    uuid = subject.boot(0)
    subject.table.busy = dict.fromkeys(range(10), 1000)
    ended = moved(subject, uuid)
    assert (ended.problem, ended.left_kib) == ("", 10 * PAGE_KIB)


def test_who_may_not_look_says_what_to_do(subject):
    subject.boot(0)
    subject.table.is_refusing = True
    [seen] = subject.mover.survey(subject.guests(), 1.0)
    assert "CAP_SYS_PTRACE" in seen.memory_obstacle
    assert seen.memory_by_node == ()


def test_looks_are_few(subject):
    """New guests some at a time; then one in five seconds, whoever was not looked at longest."""
    guests = [subject.boot(0) for _ in range(6)]
    looks: list[int] = []
    mover = Mover(subject.find, Nodes(subject.folder), Watched(subject.table, looks))
    seen = [mover.survey(subject.guests(), float(second)) for second in range(20)]
    assert [bool(guest.memory_by_node) for guest in seen[0]] == [True] * 4 + [False] * 2
    assert all(guest.memory_by_node for guest in seen[1])
    assert looks[6:] == [subject.known[uuid].process.pid for uuid in guests[:3]]


@dataclass
class Watched:
    table: FakePages
    looks: list[int]

    def look(self, pid, started, memory_kib):
        self.looks.append(pid)
        return self.table.look(pid, started, memory_kib)

    def move_chunk(self, *chunk):
        return self.table.move_chunk(*chunk)


@pytest.mark.parametrize(("text", "answer"), [("0\n", False), ("1\n", True), (None, False)])
def test_the_kernels_own_balancing_is_seen(tmp_path, text, answer):
    file = tmp_path / "numa_balancing"
    if text is not None:
        file.write_text(text)
    assert is_kernel_balancing(file) is answer


def test_room_is_what_is_free_or_clean_cache_beside_the_reserve(tmp_path):
    (tmp_path / "has_memory").write_text("0-1,3\n")
    (tmp_path / "node3").mkdir()
    (tmp_path / "node3/meminfo").write_text(
        "Node 3 MemTotal:        1000000 kB\nNode 3 MemFree:          200000 kB\n"
        "Node 3 Inactive(anon):   500000 kB\nNode 3 Inactive(file):    60000 kB\n"
        "Node 3 Dirty:             10000 kB\nNode 3 Writeback:          5000 kB\n"
    )
    nodes = Nodes(tmp_path, reserve_ratio=0.1)
    assert nodes.ids == (0, 1, 3)
    assert nodes.spare_kib(3) == 200_000 + 45_000 - 100_000


def test_a_kernel_without_nodes_has_none_to_move_memory_between(tmp_path):
    assert Nodes(tmp_path / "node").ids == ()
