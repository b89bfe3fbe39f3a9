# SPDX-License-Identifier: Apache-2.0
"""`tune` of `io`: the weight of the threads that serve the network and the disks, and no other."""

import pytest

from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import (
    NO_EMULATOR_WEIGHT,
    EmulatorWeight,
    Knob,
    WeightUnit,
)
from nova_vp.core.types.overlay import Nack
from tests.unit.core.build import Host, uuid_of
from tests.unit.core.controllers.overlays.hosts import (
    DOWN,
    KNOBS,
    UP,
    a_host,
    overlay,
    release,
    renew,
    reweigh,
    server,
    tune,
    two_shops,
)


def number(host: Host, name: str = "web") -> int:
    return host.guest(name).emulator_weight.number


def test_it_is_doubled_or_halved_three_times_and_nothing_else_is_changed() -> None:
    host = two_shops()
    before = dict(host.guests)
    given = []
    for way in (UP, UP, UP, UP):
        given.append((reweigh(host, "web", way), number(host)))
    assert given == [(None, 200), (None, 400), (None, 800), (Nack.NO_ROOM, 800)]
    web = before[uuid_of("web")]
    assert host.guests == {**before, web.uuid: web._replace(emulator_weight=EmulatorWeight(800))}
    assert release(host, "web") is None
    for way in (DOWN, DOWN, DOWN, DOWN):
        given.append((reweigh(host, "db", way), number(host, "db")))
    assert given[4:] == [(None, 50), (None, 25), (None, 12), (Nack.NO_ROOM, 12)]


def test_a_tune_of_the_cpu_is_another_one() -> None:
    host = two_shops()
    reweigh(host, "web", UP)
    assert tune(host, "web") is None
    assert (number(host), host.guest("web").cpu_weight.number) == (200, 125)
    tune(host, "web", DOWN)
    assert (number(host), host.guest("web").cpu_weight.number) == (200, 100)


def test_on_a_host_of_version_1_it_is_told_in_shares() -> None:
    host = a_host()
    server(host, "web", emulator_weight=EmulatorWeight(1024, WeightUnit.SHARES))
    overlay(host, "shop", "web")
    host.ticks(2)
    reweigh(host, "web", DOWN)
    assert host.guest("web").emulator_weight == EmulatorWeight(512, WeightUnit.SHARES)


def test_it_ends_with_its_lease_and_comes_back_exactly() -> None:
    host = two_shops(tune_lease_s=5.0)
    reweigh(host, "web", UP)
    host.ticks(4)
    assert number(host) == 200
    host.ticks(2)
    assert (number(host), host.applied) == (100, {})


def test_it_is_renewed_with_what_else_was_tuned() -> None:
    host = two_shops(tune_lease_s=5.0)
    reweigh(host, "web", UP)
    host.ticks(3)
    assert renew(host, "web").lease_s == 5.0
    host.ticks(4)
    assert number(host) == 200
    host.ticks(2)
    assert number(host) == 100


def test_release_gives_it_back() -> None:
    host = two_shops()
    reweigh(host, "web", UP)
    assert release(host, "web") is None
    assert (number(host), host.applied) == (100, {})
    assert release(host, "web") is Nack.NOTHING_TO_RELEASE


def test_who_changes_its_mind_too_often_is_refused_until_it_was_quiet() -> None:
    host = two_shops()
    found = [reweigh(host, "web", way) for way in (DOWN, DOWN, UP, DOWN, UP, DOWN, UP)]
    assert found == [None] * 5 + [Nack.TOO_SOON, None], "up again is no turn"
    host.ticks(6)
    assert reweigh(host, "web", DOWN) is None


def test_it_ends_for_who_leaves_its_overlay_and_who_is_exempt_gets_no_more() -> None:
    host = two_shops()
    for name in ("web", "db"):
        reweigh(host, name, UP)
    overlay(host, "shop", "web")
    host.tick()
    assert (number(host), number(host, "db")) == (200, 100)
    host.change("web", unmanaged=Unmanaged.EXEMPT)
    assert reweigh(host, "web", UP) is Nack.UNMANAGED


def test_a_weight_that_somebody_else_set_meanwhile_is_respected() -> None:
    host = two_shops()
    reweigh(host, "web", UP)
    host.change("web", emulator_weight=EmulatorWeight(300))
    assert host.tick().foreign == (uuid_of("web"),)
    assert reweigh(host, "web", UP) is Nack.UNMANAGED
    assert number(host) == 300


def test_one_that_somebody_else_set_before_is_not_tuned() -> None:
    host = two_shops()
    host.change("web", emulator_weight=EmulatorWeight(300))
    host.tick()
    assert reweigh(host, "web", UP) is Nack.OUTRANKED
    assert number(host) == 300


@pytest.mark.parametrize("lacking", ["knob", "groups"])
def test_it_is_refused_on_a_host_that_cannot(lacking: str) -> None:
    host = two_shops(knobs=KNOBS - {Knob.EMULATOR_WEIGHT} if lacking == "knob" else KNOBS)
    if lacking == "groups":
        host.change("web", emulator_weight=NO_EMULATOR_WEIGHT)
        host.tick()
    assert reweigh(host, "web", UP) is Nack.NO_ROOM


def test_a_server_of_two_overlays_is_tuned_by_one() -> None:
    host = two_shops()
    overlay(host, "other", "web")
    reweigh(host, "web", UP)
    assert reweigh(host, "web", UP, of="other") is Nack.OUTRANKED
