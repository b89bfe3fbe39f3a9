# SPDX-License-Identifier: Apache-2.0
"""A host that only observes: it changes nothing at all, and proposes as if servers were placed."""

from dataclasses import replace
from typing import Any

import pytest

from nova_vp.core.controllers.base import Answer, Controller, NoSettings, View
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.knob import Applied
from nova_vp.core.types.policy import Enabled, Mode
from tests.policies import a_policy
from tests.unit.core.build import CHASE, CHASE_HURT, COMPUTE, STREAM, Host, two_sockets, uuid_of

pytestmark = pytest.mark.needs_controllers("vp", "initial_placement")

NAMES = ("filler", "victim", "neighbour")


def a_host(homing: str = "enforce", controllers: tuple[Enabled, ...] = ()) -> Host:
    """It observes. Three servers float over two caches: two of them would share one."""
    policy = a_policy(controllers=("initial_placement", "vp"), home_on_arrival=homing)
    policy = replace(policy, controllers=(*policy.controllers, *controllers))
    host = Host(topology=two_sockets(2), policy=policy, mode=Mode.OBSERVE)
    for name in NAMES:
        host.add(name, COMPUTE if name == "filler" else CHASE)
    return host


def pair_of(host: Host) -> tuple[str, str, str]:
    """The two that would share a cache, and the third."""
    host.tick()
    seen = {view.guest.name: view.virtual_domain_ids for view in host.tick().vps}
    lone = next(n for n in NAMES if list(seen.values()).count(seen[n]) == 1)
    first, second = (n for n in NAMES if n != lone)
    return first, second, lone


def hurt(host: Host, victim: str, aggressor: str) -> None:
    """The third one bears any neighbour."""
    for name in NAMES:
        host.run(name, CHASE if name == victim else COMPUTE)
    host.ticks(8)
    host.run(victim, CHASE_HURT)
    host.run(aggressor, STREAM)


def is_untouched(host: Host) -> bool:
    return not host.applied and all(host.placement(n) == host.topology.cpus for n in NAMES)


@pytest.mark.parametrize("homing", ["enforce", "always"])
def test_proposals_appear_and_nothing_is_changed(homing):
    host = a_host(homing)
    victim, aggressor, _ = pair_of(host)
    hurt(host, victim, aggressor)
    decisions = host.ticks(6)
    proposed = {a.guest_uuid: a for a in decisions[-1].proposals}
    assert uuid_of(aggressor) in proposed or uuid_of(victim) in proposed
    action = next(iter(proposed.values()))
    assert len(action.domain_ids) == 1
    assert action.from_cpus != action.cpus
    assert not any(d.actions for d in decisions)
    assert is_untouched(host)


def test_the_places_themselves_are_not_proposed():
    host = a_host()
    assert not any(d.proposals or d.actions for d in host.ticks(5))


def test_where_newcomers_are_never_placed_there_are_no_virtual_places():
    host = a_host("never")
    decisions = host.ticks(3)
    assert all(view.virtual_domain_ids == () for view in decisions[-1].vps)
    assert host.state.virtual_places == {}


def test_what_is_published_tells_where_servers_really_run():
    host = a_host()
    host.ticks(2)
    for view in host.tick().vps:
        assert view.domain_ids == (0, 1)
        assert len(view.virtual_domain_ids) == 1
    floating = a_host("never")
    floating.ticks(3)
    assert host.state.domains == floating.state.domains, "newcomers are placed by what is real"


def test_who_is_blamed_really_shares_the_cache():
    host = a_host()
    victim, _, lone = pair_of(host)
    hurt(host, victim, lone)
    decision = host.ticks(4)[-1]
    [found] = [d for d in decision.detections if d.victim_uuid == uuid_of(victim)]
    assert [suspect.guest_uuid for suspect in found.suspects] == [uuid_of(lone)]
    assert not [a for a in decision.proposals if a.guest_uuid == uuid_of(lone)], "they would part"


def test_in_enforce_the_real_places_are_given():
    host = a_host()
    host.ticks(2)
    assert len(host.state.virtual_places) == 3
    host.mode = Mode.ENFORCE
    placed = {a.guest_uuid for d in host.ticks(2) for a in d.actions}
    assert placed == {uuid_of(name) for name in NAMES}
    assert host.state.virtual_places == {}


def test_where_one_server_may_be_changed_nobody_has_a_virtual_place():
    """Else it would be moved away from where others only seem to be."""
    host = a_host()
    host.ticks(2)
    host.change("victim", mode=Mode.ENFORCE)
    decision = host.tick()
    assert [a.guest_uuid for a in decision.actions] == [uuid_of("victim")], "it is placed"
    assert host.state.virtual_places == {}
    assert all(view.virtual_domain_ids == () for view in decision.vps)
    assert not decision.proposals
    host.ticks(5)
    assert host.placement("filler") == host.topology.cpus


@pytest.mark.parametrize(
    "change",
    [
        {"generation": "2"},
        {"unmanaged": Unmanaged.MIGRATING},
        {"placement": frozenset({0})},
    ],
    ids=["rebooted", "migrating", "placed by hand"],
)
def test_a_virtual_place_ends_with_what_it_was_for(change):
    host = a_host()
    host.ticks(2)
    before = host.state.virtual_places
    host.change("victim", **change)
    host.tick()
    now = host.state.virtual_places.get(uuid_of("victim"))
    assert now != before[uuid_of("victim")]
    assert len(host.state.virtual_places) >= 2, "the others keep theirs"


def test_who_bears_something_of_ours_has_no_virtual_place():
    host = a_host()
    host.ticks(2)
    uuid = uuid_of("victim")
    host.applied[uuid] = Applied(uuid, 1, ())
    host.tick()
    assert uuid not in host.state.virtual_places


def test_who_has_left_has_no_virtual_place():
    host = a_host()
    host.ticks(2)
    host.leave("victim")
    host.tick()
    assert set(host.state.virtual_places) == {uuid_of("filler"), uuid_of("neighbour")}


class Onlooker(Controller):
    """It decides by where servers really run, as one does that bills."""

    name, summary = "onlooker", "looks"

    def __init__(self) -> None:
        self.seen: set[bool] = set()

    def run(self, view: View, state: Any, settings: Any) -> Answer:
        self.seen |= {len(view.host.domains_of[uuid]) == 2 for uuid in view.host.guests}
        return Answer(state)


def test_controllers_that_do_not_place_servers_see_the_real_places():
    onlooker = Onlooker()
    host = a_host(controllers=(Enabled(onlooker, NoSettings()),))
    host.ticks(6)
    assert len(host.state.virtual_places) == 3
    assert onlooker.seen == {True}
