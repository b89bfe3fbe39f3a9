# SPDX-License-Identifier: Apache-2.0
"""`tune` of the memory size: between what is used, with a tenth to spare, and the flavor's."""

import pytest

from nova_vp.core.types.knob import NO_MEMORY_SIZE, Knob
from nova_vp.core.types.overlay import Nack
from tests.unit.core.build import Host
from tests.unit.core.controllers.overlays.hosts import (
    DOWN,
    KNOBS,
    MIB,
    UP,
    overlay,
    release,
    resize,
    two_shops,
)


def size_mib(host: Host, name: str = "web") -> float:
    return host.guest(name).memory_size.kib / MIB


def test_down_takes_a_tenth_of_the_flavors_until_a_tenth_is_to_spare() -> None:
    host = two_shops()
    assert resize(host, "web", DOWN) is None
    assert size_mib(host) == pytest.approx(86.4, abs=0.01)
    given = [resize(host, "web", DOWN) for _ in range(8)]
    assert given[-1] is Nack.NO_ROOM
    assert size_mib(host) == pytest.approx(1.1 * 32, abs=0.01)


def test_up_gives_back_until_the_flavors() -> None:
    host = two_shops()
    assert resize(host, "web", UP) is Nack.NO_ROOM
    resize(host, "web", DOWN)
    assert resize(host, "web", UP) is None
    assert size_mib(host) == 96
    assert resize(host, "web", UP) is Nack.NO_ROOM


def test_who_changes_its_mind_too_often_is_refused_until_it_was_quiet() -> None:
    host = two_shops()
    found = [resize(host, "web", way) for way in (DOWN, DOWN, UP, DOWN, UP, DOWN, UP)]
    assert found == [None] * 5 + [Nack.TOO_SOON, None], "up again is no turn"
    host.ticks(6)
    assert resize(host, "web", DOWN) is None


def test_it_ends_with_its_lease_and_comes_back_exactly() -> None:
    host = two_shops(tune_lease_s=5.0)
    resize(host, "web", DOWN)
    host.ticks(4)
    assert size_mib(host) < 96
    host.ticks(2)
    assert (size_mib(host), host.applied) == (96, {})


def test_release_gives_it_back() -> None:
    host = two_shops()
    resize(host, "web", DOWN)
    assert release(host, "web") is None
    assert (size_mib(host), host.applied) == (96, {})


def test_who_uses_more_meanwhile_gets_memory_back_in_steps() -> None:
    host = two_shops()
    for _ in range(8):
        resize(host, "web", DOWN)
    host.change("web", memory_used_kib=36 * MIB)
    host.tick()
    assert size_mib(host) == pytest.approx(1.1 * 32 + 9.6, abs=0.01)
    host.change("web", memory_used_kib=37 * MIB)
    assert host.tick().actions == ()
    host.change("web", memory_used_kib=90 * MIB)
    host.tick()
    assert size_mib(host) == 96


@pytest.mark.parametrize(
    "about",
    [
        {"balloon_obstacle": "a device is passed through"},
        {"memory_used_kib": None},
        {"memory_size": NO_MEMORY_SIZE},
    ],
)
def test_it_is_refused_without_a_balloon(about: dict[str, object]) -> None:
    host = two_shops()
    host.change("web", **about)
    assert resize(host, "web", DOWN) is Nack.NO_BALLOON


def test_it_is_refused_on_a_host_that_resizes_nobody() -> None:
    assert resize(two_shops(knobs=KNOBS - {Knob.MEMORY_SIZE}), "web", DOWN) is Nack.NO_BALLOON


def test_a_server_of_two_overlays_is_resized_by_one() -> None:
    host = two_shops()
    overlay(host, "other", "web")
    resize(host, "web", DOWN)
    assert resize(host, "web", DOWN, of="other") is Nack.OUTRANKED
