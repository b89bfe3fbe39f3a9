# SPDX-License-Identifier: Apache-2.0
"""Moving memory, on the fake, on the real mover with pages in memory, and on the real kernel.

The kernel's part needs two NUMA nodes: where the machine has one, it runs in the NUMA lab.
"""

from collections.abc import Iterator

import pytest

from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Knob
from tests.memory_subjects import (
    KIB,
    FakeSubject,
    PagesSubject,
    ProcessSubject,
    Subject,
    held,
    over,
)
from tests.waiting import wait_until
from vp_agent.drivers.base import ApplyFailed, GuestGone
from vp_agent.drivers.numa_nodes import Nodes

CHUNK_KIB = 4096
HUGE_PAGE_KIB = 2048
"""Transparent ones move whole, so that a split is as fine as one of them."""
SLOW_KIB_PER_S = 20 * CHUNK_KIB
CRAWL_KIB_PER_S = 1.0
"""After the first chunk nothing moves for an hour."""


@pytest.fixture(params=["fake", "pages", "process"])
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    if request.param == "process" and len(Nodes().ids) < 2:
        pytest.skip("moving real pages needs two NUMA nodes: `testbed/numa/numa-lab`")
    kinds = {"fake": FakeSubject, "pages": PagesSubject, "process": ProcessSubject}
    host = kinds[request.param]()
    yield host
    host.close()


@pytest.fixture
def here(subject):
    """All on the first node."""
    return ((subject.nodes[0], 1.0),)


@pytest.fixture
def there(subject):
    return ((subject.nodes[1], 1.0),)


@pytest.fixture
def guest(subject):
    return subject.boot(subject.nodes[0])


def move(subject, uuid, shares):
    subject.mover.apply(uuid, Knob.MEMORY, shares)


def halt_half_way(subject, uuid, shares):
    """Begins, and ends it once something was moved."""
    subject.mover.set_copy_rates({uuid: CRAWL_KIB_PER_S})
    move(subject, uuid, shares)
    wait_until(lambda: subject.mover.moves()[uuid].moved_kib, "the first chunk")
    subject.mover.abort(uuid, "enough")
    return over(subject, uuid)


def test_it_tells_where_the_memory_lies(subject, guest, here):
    assert subject.mover.read(guest, Knob.MEMORY) == here
    [seen] = subject.mover.survey(subject.guests(), 1.0)
    assert seen.memory_shares == here
    assert sum(kib for _, kib in seen.memory_by_node) == pytest.approx(KIB, rel=0.02)


def test_everything_moves_and_nothing_is_lost(subject, guest, there):
    move(subject, guest, there)
    begun = subject.mover.moves()[guest]
    assert begun.to == there
    assert begun.moved_kib + begun.left_kib == pytest.approx(KIB, rel=0.02)
    ended = begun if begun.is_over else over(subject, guest)
    assert (ended.problem, ended.left_kib) == ("", 0)
    assert ended.moved_kib == pytest.approx(KIB, rel=0.02)
    assert ended.kib_per_s > 0
    assert subject.lies(guest) == pytest.approx({subject.nodes[1]: KIB}, rel=0.02)
    assert subject.mover.read(guest, Knob.MEMORY) == there
    assert subject.is_intact(guest)


def test_what_was_over_is_told_once_and_the_memory_is_seen_where_it_is(subject, guest, there):
    subject.mover.survey(subject.guests(), 1.0)
    move(subject, guest, there)
    over(subject, guest)
    assert subject.mover.moves() == {}
    [seen] = subject.mover.survey(subject.guests(), 1.5)
    assert seen.memory_shares == there


@pytest.mark.parametrize("share", [0.25, 0.6])
def test_a_split_moves_no_more_than_it_must(subject, guest, share):
    first, second = subject.nodes
    move(subject, guest, ((first, 1 - share), (second, share)))
    ended = over(subject, guest)
    assert ended.problem == ""
    assert ended.moved_kib == pytest.approx(share * KIB, abs=HUGE_PAGE_KIB)
    split = subject.lies(guest)
    assert split[second] == pytest.approx(share * KIB, abs=HUGE_PAGE_KIB)
    move(subject, guest, ((first, share), (second, 1 - share)))
    back_kib = abs(split[second] - (1 - share) * KIB)
    assert over(subject, guest).moved_kib == pytest.approx(back_kib, abs=1.5 * HUGE_PAGE_KIB)


def test_a_split_that_stands_already_moves_nothing(subject, guest):
    subject.mover.restore(guest, held(tuple((node, 0.5) for node in subject.nodes)))
    subject.mover.moves()
    move(subject, guest, subject.mover.read(guest, Knob.MEMORY))
    assert over(subject, guest).moved_kib == 0


def test_a_pace_of_nothing_halts_it_and_a_new_one_frees_it(subject, guest, there):
    subject.mover.set_copy_rates({guest: 0.0})
    move(subject, guest, there)
    assert [subject.mover.moves()[guest].moved_kib for _ in range(5)] == [0] * 5
    subject.mover.set_copy_rates({})
    assert over(subject, guest).problem == ""


def test_ended_half_way_it_is_undone(subject, guest, here, there):
    ended = halt_half_way(subject, guest, there)
    assert ended.problem == "enough"
    assert ended.moved_kib > 0
    assert ended.left_kib > 0
    assert set(subject.lies(guest)) == set(subject.nodes)
    subject.mover.restore(guest, held(here))
    assert subject.lies(guest) == pytest.approx({subject.nodes[0]: KIB}, rel=0.02)
    assert subject.is_intact(guest)


def test_a_new_agent_brings_back_what_the_old_one_began(subject, guest, here, there):
    halt_half_way(subject, guest, there)
    subject.restart_agent()
    subject.mover.restore(guest, held(here))
    assert subject.lies(guest) == pytest.approx({subject.nodes[0]: KIB}, rel=0.02)


def test_restoring_waits_for_no_pace(subject, guest, here, there):
    subject.mover.set_copy_rates({guest: 0.0})
    move(subject, guest, there)
    subject.mover.restore(guest, held(here))
    assert set(subject.lies(guest)) == {subject.nodes[0]}


def test_no_shares_of_another_host_are_restored(subject, guest, here):
    subject.mover.restore(guest, held(()))
    assert subject.mover.read(guest, Knob.MEMORY) == here


def test_what_does_not_fit_is_not_begun(subject, guest, here, there):
    subject.fill(subject.nodes[1], KIB - CHUNK_KIB)
    with pytest.raises(ApplyFailed, match=rf"do not fit onto node {subject.nodes[1]}"):
        move(subject, guest, there)
    assert subject.mover.moves() == {}
    assert subject.mover.read(guest, Knob.MEMORY) == here


def test_a_node_that_fills_up_ends_it(subject, guest, there):
    subject.mover.set_copy_rates({guest: CRAWL_KIB_PER_S})
    move(subject, guest, there)
    wait_until(lambda: subject.mover.moves()[guest].moved_kib, "the first chunk")
    subject.fill(subject.nodes[1], CHUNK_KIB - 1)
    subject.mover.set_copy_rates({})
    assert f"node {subject.nodes[1]} runs short of memory" in over(subject, guest).problem


@pytest.mark.parametrize("shares", [(), ((0, 0.5),), ((0, 1.0), (1, 0.0)), ((99, 1.0),)])
def test_shares_of_no_host_are_refused(subject, guest, here, shares):
    with pytest.raises(ApplyFailed, match="are not shares"):
        move(subject, guest, shares)
    assert subject.mover.read(guest, Knob.MEMORY) == here


def test_what_cannot_be_moved_says_why(subject, guest, there):
    subject.hinder(guest, "its memory is locked")
    with pytest.raises(ApplyFailed, match="its memory is locked"):
        move(subject, guest, there)
    [seen] = subject.mover.survey(subject.guests(), 1.0)
    assert seen.memory_obstacle == "its memory is locked"


def test_a_guest_that_is_gone_says_so(subject, guest, here, there):
    subject.end(guest)
    with pytest.raises(GuestGone):
        subject.mover.read(guest, Knob.MEMORY)
    with pytest.raises(GuestGone):
        move(subject, guest, there)
    with pytest.raises(GuestGone):
        subject.mover.restore(guest, held(here))


@pytest.mark.parametrize("happening", ["end", "reboot"])
def test_a_guest_that_ends_or_starts_anew_ends_its_move(subject, guest, there, happening):
    subject.mover.set_copy_rates({guest: 0.0})
    move(subject, guest, there)
    getattr(subject, happening)(guest)
    subject.mover.set_copy_rates({})
    assert "has ended or was restarted" in over(subject, guest).problem


def test_a_migration_ends_the_move(subject, guest, there):
    subject.mover.set_copy_rates({guest: CRAWL_KIB_PER_S})
    move(subject, guest, there)
    [leaving] = (g._replace(unmanaged=Unmanaged.MIGRATING) for g in subject.guests())
    subject.mover.survey((leaving,), 1.0)
    assert "migrat" in over(subject, guest).problem


def test_one_guest_moves_at_a_time(subject, guest, there):
    second = subject.boot(subject.nodes[0])
    subject.mover.set_copy_rates({guest: SLOW_KIB_PER_S})
    move(subject, guest, there)
    move(subject, second, there)
    while not (seen := subject.mover.moves())[guest].is_over:
        assert seen[second].moved_kib == 0
    last = seen[second] if seen[second].is_over else over(subject, second)
    assert last.problem == ""


def test_asked_again_it_goes_on_and_asked_otherwise_it_turns(subject, guest, here, there):
    subject.mover.set_copy_rates({guest: CRAWL_KIB_PER_S})
    move(subject, guest, there)
    wait_until(lambda: subject.mover.moves()[guest].moved_kib, "the first chunk")
    move(subject, guest, there)
    assert subject.mover.moves()[guest].moved_kib > 0
    move(subject, guest, here)
    wait_until(lambda: subject.mover.moves()[guest].to == here, "the turn")
    subject.mover.set_copy_rates({})
    assert over(subject, guest).to == here
    assert subject.mover.read(guest, Knob.MEMORY) == here


def test_closed_it_moves_no_more(subject, guest, there):
    subject.mover.set_copy_rates({guest: CRAWL_KIB_PER_S})
    move(subject, guest, there)
    subject.mover.close()
    assert over(subject, guest).problem == "the agent stopped"
    lies = subject.lies(guest)
    assert [subject.lies(guest) for _ in range(3)] == [lies] * 3
