# SPDX-License-Identifier: Apache-2.0
"""When a guest's knob is read again: every tick while we hold it, else now and then."""

from collections import Counter
from dataclasses import replace

import pytest

from nova_vp.core.types.knob import NO_QUOTA, Applied, Held, Knob, Quota
from tests.domain_xml import a_domain
from vp_agent.drivers.base import VcpuThreads
from vp_agent.drivers.domain_xml import parse_description
from vp_agent.drivers.domains import Domain, _guest_of
from vp_agent.drivers.journal_entry import RESERVED
from vp_agent.drivers.paced_reading import LOOK_EVERY_S, PacedReading
from vp_agent.drivers.vcpu_threads import Process

UUID = "00000000-0000-0000-0000-000000000001"
OURS = Quota(50_000, 100_000)
HELD = Applied(UUID, 1, (Held(Knob.CPU_CAP, OURS, NO_QUOTA, "vp", "vp-1"),))


def a_guest(generation: str = "start-1", applied: Applied | None = None) -> Domain:
    about = replace(parse_description(a_domain(uuid=UUID), frozenset({0, 1})), applied=applied)
    return Domain(
        domain_id=1,
        process=Process(7, 1),
        threads=VcpuThreads(UUID, about.domain_name, 7, (8, 9), generation),
        guest=_guest_of(about, generation, about.allowed_cpus),
        description=about,
        leftover=None,
        read_at_s=0.0,
        told_specs={},
    )


class Place:
    """Groups that are there; what was read is kept open until it is closed."""

    is_open = False

    def close(self) -> None:
        self.is_open = False


class World:
    """`is_there`: the groups; else nowhere yet."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.is_there, self.is_gone = True, False
        self.asked: Counter[str] = Counter()
        self.told: list[Quota | None] = []
        self.places: list[Place] = []
        self.reading = PacedReading(
            Knob.CPU_CAP, self._find, self._read, NO_QUOTA, lambda: self.now_s
        )

    def _find(self, domain: Domain) -> Place | None:
        self.asked["where"] += 1
        if not self.is_there:
            return None
        self.places.append(Place())
        return self.places[-1]

    def _read(self, place: Place, ours: Quota | None) -> Quota:
        place.is_open = True
        if self.is_gone:
            raise ProcessLookupError("its group is gone")
        self.asked["what"] += 1
        self.told.append(ours)
        return Quota(1000 * self.asked["what"])

    def open_places(self) -> list[bool]:
        return [place.is_open for place in self.places]


def test_one_that_we_do_not_hold_is_read_every_thirty_seconds() -> None:
    world, guest = World(), a_guest()
    assert world.reading.of(guest) == Quota(1000)
    for _ in range(10 * int(LOOK_EVERY_S)):
        world.now_s += 1.0
        world.reading.of(guest)
    # Its second look comes at random within the first thirty seconds.
    assert world.asked == {"where": 1, "what": 1 + 10}


def test_one_that_we_hold_is_read_each_time_and_compared_with_ours() -> None:
    world, guest = World(), a_guest(applied=HELD)
    for _ in range(3):
        world.reading.of(guest)
    assert world.asked == {"where": 1, "what": 3}
    assert world.told == [OURS] * 3


RESERVED_ONLY = Applied(UUID, 1, (Held(Knob.CPU_CAP, NO_QUOTA, NO_QUOTA, RESERVED, ""),))


def test_one_whose_original_is_journalled_beforehand_is_not_held() -> None:
    world, guest = World(), a_guest(applied=RESERVED_ONLY)
    for _ in range(3):
        world.reading.of(guest)
    assert world.asked["what"] == 1


def test_one_that_is_changed_without_being_written_is_read_each_time_and_once_after() -> None:
    world, guest = World(), a_guest(applied=RESERVED_ONLY)
    for _ in range(3):
        world.reading.of(guest, {Knob.CPU_CAP, Knob.CPU_WEIGHT})
    assert world.asked["what"] == 3
    for _ in range(3):
        world.reading.of(guest)
    assert world.asked["what"] == 4, "it may have been given back since"


def test_another_knob_that_is_changed_without_being_written_is_no_reason_to_read_this_one() -> None:
    world, guest = World(), a_guest(applied=RESERVED_ONLY)
    for _ in range(3):
        world.reading.of(guest, {Knob.CPU_WEIGHT})
    assert world.asked["what"] == 1
    world.reading.of(guest, {Knob.CPU_CAP})
    assert world.asked["what"] == 2


def test_when_libvirt_tells_of_a_change_it_is_read_at_once() -> None:
    world, guest = World(), a_guest()
    world.reading.of(guest)
    assert world.reading.of(replace(guest)) == Quota(2000)
    assert world.asked == {"where": 1, "what": 2}


def test_another_start_is_looked_for_anew() -> None:
    world = World()
    world.reading.of(a_guest())
    assert world.reading.of(a_guest("start-2")) == Quota(2000)
    assert world.asked == {"where": 2, "what": 2}


def test_one_that_has_no_group_yet_is_looked_for_until_it_has() -> None:
    world, guest = World(), a_guest(applied=HELD)
    world.is_there = False
    assert world.reading.of(guest) == NO_QUOTA
    world.is_there = True
    assert world.reading.of(guest) == Quota(1000)
    world.reading.of(guest)
    assert world.asked["where"] == 2


def test_one_that_has_ended_is_forgotten() -> None:
    world, guest = World(), a_guest()
    world.reading.of(guest)
    world.reading.forget_others([UUID])
    world.reading.of(guest)
    world.reading.forget_others([])
    world.reading.of(guest)
    assert world.asked == {"where": 2, "what": 2}


def test_what_is_held_stays_open_and_what_is_not_is_closed_after_each_look() -> None:
    world = World()
    world.reading.of(a_guest())
    assert world.open_places() == [False]
    world.reading.of(a_guest(applied=HELD))
    assert world.open_places() == [True]
    world.reading.of(a_guest())
    assert world.open_places() == [False]


def test_files_of_an_earlier_start_are_closed() -> None:
    world = World()
    world.reading.of(a_guest(applied=HELD))
    world.reading.of(a_guest("start-2", applied=HELD))
    assert world.open_places() == [False, True]


def test_files_of_one_that_has_ended_are_closed() -> None:
    world, guest = World(), a_guest(applied=HELD)
    world.reading.of(guest)
    world.is_gone = True
    with pytest.raises(ProcessLookupError):
        world.reading.of(guest)
    assert world.open_places() == [False]
    world.is_gone = False
    world.reading.of(guest)
    assert world.open_places() == [True]
    world.reading.close()
    assert world.open_places() == [False]
