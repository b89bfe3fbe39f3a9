# SPDX-License-Identifier: Apache-2.0
"""An opt-out refuses help, and never restraint, on a whole agent; an exemption refuses both."""

from pathlib import Path

import pytest

from nova_vp.core.types.guest import Unmanaged
from nova_vp.server_override import NO_OVERRIDE, ServerOverride, overrides_text
from tests.policies import a_policy
from tests.unit.agent_host import World, a_hurt_pair

OUT, EXEMPT = ServerOverride(opt_out=True), ServerOverride(exempt=True)

pytestmark = pytest.mark.needs_controllers("vp")


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "state", policy=a_policy(home_on_arrival="never"))
    world.start_agent()
    return world


def tell(world: World, **ordered: ServerOverride) -> None:
    every = dict.fromkeys(world.host.guests, NO_OVERRIDE)
    world.control.take_overrides(overrides_text(1, every | ordered))


def moved(world: World) -> set[str]:
    return {outcome.action.guest_uuid for outcome in world.heard.outcomes}


def test_an_aggressor_that_is_opted_out_is_moved(world: World) -> None:
    _, neighbour = a_hurt_pair(world)
    tell(world, **{neighbour: OUT})
    world.tick(3)
    assert moved(world) == {neighbour}


def test_what_restrains_a_server_stands_when_it_is_opted_out(world: World) -> None:
    _, neighbour = a_hurt_pair(world)
    world.tick(3)
    placement, journal = world.placement(neighbour), world.host.guests[neighbour].journal
    assert journal is not None
    tell(world, **{neighbour: OUT})
    world.tick(2)
    assert world.placement(neighbour) == placement
    assert world.host.guests[neighbour].journal == journal


def test_nothing_is_done_for_a_victim_that_is_opted_out(world: World) -> None:
    victim, _ = a_hurt_pair(world)
    tell(world, **{victim: OUT})
    world.tick(60)
    assert any(decision.detections for decision in world.heard.decisions)
    assert moved(world) == set()


def test_an_aggressor_that_is_exempt_is_left_and_the_victim_moves(world: World) -> None:
    victim, neighbour = a_hurt_pair(world)
    tell(world, **{neighbour: EXEMPT})
    decision = world.tick(3)
    assert moved(world) == {victim}
    reasons = {view.guest.uuid: view.guest.unmanaged for view in decision.vps}
    assert reasons[neighbour] is Unmanaged.EXEMPT
