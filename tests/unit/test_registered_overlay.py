# SPDX-License-Identifier: Apache-2.0
"""Which overlays a host is told of: those of the servers that run there, each in one at most."""

import uuid
from datetime import UTC, datetime

from nova_vp.core.types.overlay import ArbitrationClass, Overlay
from nova_vp.registered_overlay import (
    RegisteredOverlay,
    Running,
    group_overlay_id,
    overlays_on_host,
)

WEB, DB, CACHE = (f"{n}1111111-1111-4111-8111-111111111111" for n in "123")
SHOP = RegisteredOverlay(
    id="aaaaaaaa-2222-4333-8444-555555555555",
    project_id="p1",
    name="shop",
    servers=frozenset({WEB, DB}),
    priority=3,
    arbitration=ArbitrationClass.ROUND_ROBIN,
    target=250.0,
    target_unit="requests/s",
    by="u",
    at=datetime(2026, 11, 21, tzinfo=UTC),
    version=7,
)
REGISTERED = {WEB: SHOP, DB: SHOP}


def test_a_host_is_told_of_the_members_that_run_there() -> None:
    here = [Running(WEB, "p1", ""), Running(CACHE, "p1", "")]
    [told] = overlays_on_host(here, REGISTERED)
    about = (3.0, ArbitrationClass.ROUND_ROBIN, 250.0, "requests/s")
    assert told == Overlay(SHOP.id, "shop", "p1", frozenset({WEB}), *about)


def test_a_group_is_an_overlay_without_a_call() -> None:
    here = [Running(WEB, "p1", "tiers"), Running(DB, "p1", "tiers"), Running(CACHE, "p2", "tiers")]
    told = overlays_on_host(here, {})
    assert {(one.project_id, one.name, one.members, one.priority) for one in told} == {
        ("p1", "tiers", frozenset({WEB, DB}), 1.0),
        ("p2", "tiers", frozenset({CACHE}), 1.0),
    }
    assert {one.id for one in told} == {
        group_overlay_id("p1", "tiers"),
        group_overlay_id("p2", "tiers"),
    }
    assert all(uuid.UUID(one.id).version == 5 for one in told)


def test_a_server_that_is_registered_is_in_no_other_overlay() -> None:
    here = [Running(WEB, "p1", "tiers"), Running(CACHE, "p1", "tiers")]
    told = {one.name: one.members for one in overlays_on_host(here, REGISTERED)}
    assert told == {"shop": {WEB}, "tiers": {CACHE}}


def test_a_host_that_claims_a_server_for_another_project_is_told_nothing_of_it() -> None:
    assert overlays_on_host([Running(WEB, "p2", "tiers")], REGISTERED) == ()


def test_a_guest_without_a_project_is_nobodys() -> None:
    assert overlays_on_host([Running(WEB, "", "tiers")], {}) == ()
