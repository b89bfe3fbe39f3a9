# SPDX-License-Identifier: Apache-2.0
"""In which modes newcomers are placed, and in which that is only proposed."""

import pytest

from nova_vp.core.controllers.initial_placement.declaration import HOME
from nova_vp.core.types.policy import Mode
from tests.policies import a_policy, with_numbers
from tests.unit.core.build import (
    COMPUTE,
    Host,
    uuid_of,
)

POLICY = a_policy(controllers=("initial_placement",))


@pytest.mark.parametrize(
    ("homing", "mode", "homed"),
    [
        ("never", Mode.ENFORCE, False),
        ("enforce", Mode.ENFORCE, True),
        ("enforce", Mode.OBSERVE, False),
        ("enforce", Mode.ADVISE, False),
        ("always", Mode.OBSERVE, False),
        ("always", Mode.ADVISE, True),
    ],
)
def test_who_is_homed_when(homing, mode, homed):
    host = Host(policy=with_numbers(POLICY, home_on_arrival=homing), mode=mode)
    host.add("vm", COMPUTE)
    host.ticks(2)
    assert (len(host.placement("vm")) == 1) is homed


def test_in_advise_homing_is_proposed_and_applied_on_request():
    host = Host(policy=POLICY, mode=Mode.ADVISE)
    host.add("vm", COMPUTE)
    [proposal] = host.tick().proposals
    assert proposal.reason is HOME
    host.approved = frozenset({proposal.id})
    host.tick()
    assert len(host.placement("vm")) == 1


@pytest.mark.parametrize(
    ("host_mode", "ordered", "homed"),
    [
        (Mode.ADVISE, None, True),
        (Mode.ENFORCE, Mode.ADVISE, False),
        (Mode.OBSERVE, Mode.ADVISE, False),
        (Mode.OBSERVE, Mode.ENFORCE, True),
    ],
)
def test_homing_always_does_not_outrank_an_order(host_mode, ordered, homed):
    host = Host(policy=with_numbers(POLICY, home_on_arrival="always"), mode=host_mode)
    host.add("one", COMPUTE, mode=ordered)
    host.add("two", COMPUTE, mode=ordered)
    host.ticks(2)
    assert (len(host.domains("one")) == 1) is homed


@pytest.mark.parametrize("homing", ["enforce", "always"])
def test_in_observe_no_home_is_proposed(homing):
    host = Host(policy=with_numbers(POLICY, home_on_arrival=homing), mode=Mode.OBSERVE)
    host.add("vm", COMPUTE)
    assert not any(d.actions or d.proposals for d in host.ticks(3))
    assert len(host.view("vm", host.tick()).virtual_domain_ids) == 1


def test_beside_a_server_that_may_be_changed_one_that_may_not_has_no_home():
    host = Host(policy=POLICY, mode=Mode.OBSERVE)
    host.add("one", COMPUTE, mode=Mode.ADVISE)
    host.add("two", COMPUTE)
    assert {a.guest_uuid for d in host.ticks(3) for a in d.proposals} == {uuid_of("one")}


@pytest.mark.parametrize(
    ("homing", "modes"),
    [("never", set()), ("enforce", {Mode.ENFORCE}), ("always", {Mode.ADVISE, Mode.ENFORCE})],
)
def test_in_which_modes_it_says_that_it_places_newcomers(homing, modes):
    [one] = with_numbers(POLICY, home_on_arrival=homing).controllers
    placing = {mode for mode in Mode if one.controller.places_newcomers(mode, one.settings)}
    assert placing == modes
