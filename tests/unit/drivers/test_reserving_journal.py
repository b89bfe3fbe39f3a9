# SPDX-License-Identifier: Apache-2.0
"""What is journalled beforehand need not be written again, and everything can still be undone."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from nova_vp.core.types.knob import NO_QUOTA, Applied, CpuWeight, Held, Knob, Quota
from vp_agent.drivers.base import ApplyFailed
from vp_agent.drivers.fake import FakeHost, FakeJournal
from vp_agent.drivers.journal_entry import RESERVED
from vp_agent.drivers.reserving_journal import ReservingJournal

EPOCH = 7
WEIGHT = CpuWeight(100)
ORIGINALS = {Knob.CPU_CAP: NO_QUOTA, Knob.CPU_WEIGHT: WEIGHT}
HALF, THIRD = Quota(50_000), Quota(33_000)


@dataclass
class Counted:
    """A journal that counts what it had to do. As libvirt's, it answers the same while nothing has
    changed in it."""

    inner: FakeJournal
    writes: list[Applied] = field(default_factory=list)
    last: Mapping[str, Applied] = field(default_factory=dict)

    def read(self) -> Mapping[str, Applied]:
        now = self.inner.read()
        if now != self.last:
            self.last = now
        return self.last

    def write(self, applied: Applied) -> None:
        self.writes.append(applied)
        self.inner.write(applied)

    def drop(self, guest_uuid: str) -> None:
        self.inner.drop(guest_uuid)


@dataclass
class World:
    host: FakeHost = field(default_factory=FakeHost)

    def __post_init__(self) -> None:
        self.stored = Counted(FakeJournal(self.host))
        self.unwritten: dict[str, frozenset[Knob]] = {}
        self.journal = ReservingJournal(self.stored, EPOCH, self.unwritten)
        self.uuid = self.host.boot()

    def held(self, value, knob=Knob.CPU_CAP, original=NO_QUOTA) -> Applied:
        return Applied(self.uuid, EPOCH, (Held(knob, value, original, "overlays", "a-1"),))

    def reserve(self, originals=ORIGINALS) -> None:
        self.journal.reserve_only({self.uuid: originals})
        self.stored.writes.clear()

    def undone(self) -> dict[Knob, object]:
        """What whoever finds the domain gives back."""
        entry = self.stored.read().get(self.uuid)
        return {held.knob: held.original for held in entry.held} if entry else {}


@pytest.fixture
def world() -> World:
    return World()


def test_a_change_of_what_is_reserved_is_not_written_and_would_be_undone(world):
    world.reserve()
    for value in (HALF, THIRD):
        world.journal.write(world.held(value))
        assert world.journal.read() == {world.uuid: world.held(value)}
    world.journal.drop(world.uuid)
    assert world.journal.read() == {}
    assert world.stored.writes == []
    assert world.undone() == ORIGINALS


def test_who_is_changed_without_being_written_is_known(world):
    """These knobs of such guests are looked at in every tick."""
    world.reserve()
    assert world.unwritten == {}
    world.journal.write(world.held(HALF))
    assert world.unwritten == {world.uuid: {Knob.CPU_CAP}}
    world.journal.drop(world.uuid)
    assert world.unwritten == {}
    world.journal.write(world.held(HALF))
    world.host.reboot(world.uuid)
    world.journal.read()
    assert world.unwritten == {}


def test_what_is_reserved_is_held_by_nobody(world):
    world.reserve()
    assert world.journal.read() == {}
    [held, _] = world.stored.read()[world.uuid].held
    assert (held.value, held.controller, held.action_id) == (held.original, RESERVED, "")


def test_another_knob_or_another_original_is_written(world):
    world.reserve({Knob.CPU_WEIGHT: WEIGHT})
    world.journal.write(world.held(HALF))
    assert len(world.stored.writes) == 1
    assert world.undone() == {Knob.CPU_CAP: NO_QUOTA, Knob.CPU_WEIGHT: WEIGHT}
    other = world.held(CpuWeight(50), Knob.CPU_WEIGHT, CpuWeight(200))
    world.journal.write(other)
    assert world.undone() == {Knob.CPU_WEIGHT: CpuWeight(200)}
    assert world.journal.read() == {world.uuid: other}


def test_the_same_knob_from_another_original_is_written(world):
    world.reserve({Knob.CPU_WEIGHT: WEIGHT})
    world.journal.write(world.held(CpuWeight(50), Knob.CPU_WEIGHT, CpuWeight(200)))
    assert world.undone() == {Knob.CPU_WEIGHT: CpuWeight(200)}


def test_what_is_not_reserved_and_ends_is_taken_out(world):
    world.reserve({Knob.CPU_WEIGHT: WEIGHT})
    world.journal.write(world.held(HALF))
    world.journal.drop(world.uuid)
    assert world.undone() == {Knob.CPU_WEIGHT: WEIGHT}
    assert world.journal.read() == {}


def test_vcpus_that_are_placed_apart_are_written_with_their_places(world):
    """Else they are taken for somebody else's doing."""
    bound = (world.host.topology.cpus,)
    world.reserve({Knob.PLACEMENT: bound})
    world.journal.write(world.held((frozenset({1}),), Knob.PLACEMENT, bound))
    assert world.stored.writes == []
    apart = world.held((frozenset({1}), frozenset({2})), Knob.PLACEMENT, bound)
    world.journal.write(apart)
    assert world.stored.read()[world.uuid].of(Knob.PLACEMENT).value == apart.held[0].value


def test_of_others_everything_is_written(world):
    other = world.host.boot()
    world.reserve()
    applied = Applied(other, EPOCH, world.held(HALF).held)
    world.journal.write(applied)
    assert world.stored.writes == [applied]
    assert world.journal.read() == {other: applied}
    world.journal.drop(other)
    assert world.stored.read().keys() == {world.uuid}


def test_what_is_held_already_stays_so_when_it_is_reserved_and_when_that_ends(world):
    world.journal.write(world.held(HALF))
    world.reserve()
    assert world.journal.read() == {world.uuid: world.held(HALF)}
    world.journal.write(world.held(THIRD))
    assert world.stored.writes == []
    world.journal.reserve_only({})
    assert world.stored.read() == {world.uuid: world.held(THIRD)}


def test_what_an_earlier_run_left_is_of_this_one_once_it_is_reserved(world):
    """`vp-agent release` restores the originals of the last run exactly."""
    world.stored.write(replace(world.held(HALF), epoch=EPOCH - 1))
    world.reserve({Knob.CPU_WEIGHT: WEIGHT})
    assert world.stored.read()[world.uuid].epoch == EPOCH


def test_a_lease_is_stored_only_as_long_as_its_renewals_are(world):
    """Else `vp-agent release --expired` would take it for over, beside an agent that lives."""

    def with_lease(until_s):
        [held] = world.held(HALF).held
        return Applied(world.uuid, EPOCH, (replace(held, until_s=until_s),))

    def stored_end_s():
        return world.stored.read()[world.uuid].of(Knob.CPU_CAP).until_s

    world.journal.write(with_lease(60.0))
    assert stored_end_s() == 60.0
    world.reserve()
    assert stored_end_s() is None
    world.journal.write(with_lease(90.0))
    assert world.stored.writes == []
    assert world.journal.read() == {world.uuid: with_lease(90.0)}
    world.journal.reserve_only({})
    assert stored_end_s() == 90.0


def test_when_nothing_is_reserved_any_more_the_entry_goes(world):
    world.reserve()
    world.journal.reserve(world.uuid)
    assert world.stored.read() == {}


def test_an_original_that_changed_meanwhile_is_reserved_anew(world):
    world.reserve()
    world.journal.reserve_only({world.uuid: {**ORIGINALS, Knob.CPU_WEIGHT: CpuWeight(300)}})
    assert world.undone()[Knob.CPU_WEIGHT] == CpuWeight(300)


def test_another_qemu_of_the_guest_has_nothing_reserved(world):
    world.reserve()
    world.journal.write(world.held(HALF))
    assert world.journal.read() == {world.uuid: world.held(HALF)}
    world.host.reboot(world.uuid)
    assert world.journal.read() == {}
    world.journal.write(world.held(HALF))
    assert world.stored.writes == [world.held(HALF)]


def test_another_qemu_that_is_changed_before_anybody_read_has_nothing_reserved_either(world):
    world.reserve()
    world.journal.write(world.held(HALF))
    world.host.reboot(world.uuid)
    for value in (HALF, THIRD):
        world.journal.write(world.held(value))
    assert world.stored.writes == [world.held(HALF), world.held(THIRD)]
    assert world.unwritten == {}


def test_of_another_qemu_the_same_is_reserved_anew(world):
    world.reserve()
    world.host.reboot(world.uuid)
    world.reserve()
    assert world.undone() == ORIGINALS


def test_what_could_not_be_reserved_is_tried_again(world):
    world.reserve({Knob.CPU_WEIGHT: WEIGHT})
    world.host.guests[world.uuid].refuses = "a job runs"
    world.reserve()
    assert world.undone() == {Knob.CPU_WEIGHT: WEIGHT}
    world.host.guests[world.uuid].refuses = ""
    world.reserve()
    assert world.undone() == ORIGINALS


def test_who_has_nothing_reserved_and_wants_nothing_is_not_written(world):
    world.journal.write(world.held(HALF))
    world.stored.writes.clear()
    world.journal.reserve(world.uuid)
    assert world.stored.writes == []


def test_few_guests_are_written_at_once_and_the_others_later(world):
    wanted = {world.uuid: ORIGINALS, world.host.boot(): ORIGINALS, world.host.boot(): ORIGINALS}
    world.journal.reserve_only(wanted, most=2)
    assert len(world.stored.read()) == 2
    world.journal.reserve_only(wanted, most=2)
    assert world.stored.read().keys() == wanted.keys()
    world.journal.reserve_only({}, most=2)
    assert len(world.stored.read()) == 1


def test_a_guest_whose_journal_refuses_is_journalled_as_it_is_changed(world):
    world.host.guests[world.uuid].refuses = "a job runs"
    world.reserve()
    with pytest.raises(ApplyFailed):
        world.journal.write(world.held(HALF))
    world.host.guests[world.uuid].refuses = ""
    world.journal.write(world.held(HALF))
    assert world.stored.read() == {world.uuid: world.held(HALF)}
