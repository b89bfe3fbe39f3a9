# SPDX-License-Identifier: Apache-2.0
"""`renew`: what was tuned and borrowed stands for another lease, and nothing else changes."""

import pytest

from nova_vp.core.types.overlay import Nack
from tests.unit.core.build import Host
from tests.unit.core.controllers.overlays.hosts import (
    DOWN,
    MIB,
    ROUND_ROBIN,
    borrow,
    overlay,
    release,
    renew,
    resize,
    trigger,
    tune,
    two_shops,
    weight,
)
from tests.unit.core.controllers.overlays.test_borrow import A, B, three_islands


def after(host: Host, seconds: int) -> None:
    host.answer()
    host.ticks(seconds)


def test_a_loan_that_is_renewed_stands_on_and_grows_no_larger() -> None:
    host = three_islands(borrow_lease_s=5.0)
    assert borrow(host) is None
    for _ in range(4):
        after(host, 3)
        told = renew(host, "web")
        assert (told.nack, told.lease_s) == (None, 5.0)
        assert told.detail == "leases that were renewed: 1"
        assert host.placement("web") == A | {4}
    after(host, 6)
    assert (host.placement("web"), host.placement("db")) == (A, B)
    assert renew(host, "web").nack is Nack.NOTHING_TO_RENEW


def test_what_was_tuned_is_renewed_as_it_is() -> None:
    host = two_shops(tune_lease_s=5.0)
    tune(host, "web")
    resize(host, "db", DOWN)
    for _ in range(4):
        after(host, 3)
        assert renew(host).detail == "leases that were renewed: 2"
    assert weight(host, "web") == 125
    assert host.guest("db").memory_size.kib < 96 * MIB
    after(host, 6)
    assert (weight(host, "web"), host.guest("db").memory_size.kib) == (100, 96 * MIB)


@pytest.mark.parametrize(("asked_s", "lease_s"), [(2.0, 20.0), (25.0, 25.0), (900.0, 30.0)])
def test_no_lease_gets_shorter_or_longer_than_the_operator_allows(
    asked_s: float, lease_s: float
) -> None:
    host = three_islands(borrow_lease_s=30.0, tune_lease_s=40.0)
    assert borrow(host, lease_s=20.0) is None
    assert renew(host, "web", lease_s=asked_s).lease_s == pytest.approx(lease_s)


def test_one_server_is_renewed_alone() -> None:
    host = two_shops(tune_lease_s=5.0)
    tune(host, "web")
    tune(host, "db")
    after(host, 3)
    assert renew(host, "db").detail == "leases that were renewed: 1"
    after(host, 3)
    assert (weight(host, "web"), weight(host, "db")) == (100, 125)


def test_a_trigger_and_what_other_overlays_hold_are_not_renewed() -> None:
    host = two_shops()
    trigger(host, "web")
    tune(host, "mill", of="mills")
    resize(host, "mill", DOWN, of="mills")
    overlay(host, "shop", "web", "db", "mill")
    assert renew(host).nack is Nack.NOTHING_TO_RENEW


def test_who_takes_turns_renews_no_cpu_for_which_another_one_waits() -> None:
    host = three_islands(borrow_lease_s=5.0)
    overlay(host, "shop", "web", arbitration=ROUND_ROBIN)
    overlay(host, "mills", "mill", arbitration=ROUND_ROBIN)
    assert borrow(host, cpus=3, island="llc-1") is None
    assert renew(host, "web").nack is None
    assert borrow(host, "mill", cpus=3, of="mills", island="llc-1") is Nack.NO_ROOM
    assert renew(host, "web").nack is Nack.OUTRANKED
    after(host, 6)
    assert borrow(host, "mill", cpus=3, of="mills", island="llc-1") is None


def test_what_was_released_is_not_renewed() -> None:
    host = two_shops()
    tune(host, "web")
    assert release(host, "web") is None
    assert renew(host, "web").nack is Nack.NOTHING_TO_RENEW
