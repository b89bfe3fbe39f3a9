# SPDX-License-Identifier: Apache-2.0
"""In which modes newcomers are placed, and in which that is only proposed."""

import pytest

from nova_vp.core.controllers.initial_placement.declaration import HOME
from nova_vp.core.types.policy import Mode
from tests.policies import a_policy, with_numbers
from tests.unit.core.build import (
    COMPUTE,
    Host,
)

POLICY = a_policy(controllers=("initial_placement",))


@pytest.mark.parametrize(
    ("homing", "mode", "homed"),
    [
        ("never", Mode.ENFORCE, False),
        ("enforce", Mode.ENFORCE, True),
        ("enforce", Mode.OBSERVE, False),
        ("enforce", Mode.ADVISE, False),
        ("always", Mode.OBSERVE, True),
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
    ("ordered", "homed"), [(None, True), (Mode.ENFORCE, True), (Mode.ADVISE, False)]
)
def test_homing_always_does_not_outrank_an_order(ordered, homed):
    host = Host(policy=with_numbers(POLICY, home_on_arrival="always"), mode=Mode.OBSERVE)
    host.add("one", COMPUTE, mode=ordered)
    host.add("two", COMPUTE, mode=ordered)
    host.ticks(2)
    assert (len(host.domains("one")) == 1) is homed


def test_in_observe_no_home_is_proposed():
    host = Host(policy=POLICY, mode=Mode.OBSERVE)
    host.add("vm", COMPUTE)
    assert not any(d.actions or d.proposals for d in host.ticks(3))


@pytest.mark.parametrize(
    ("homing", "modes"),
    [("never", set()), ("enforce", {Mode.ENFORCE}), ("always", set(Mode))],
)
def test_in_which_modes_it_says_that_it_places_newcomers(homing, modes):
    [one] = with_numbers(POLICY, home_on_arrival=homing).controllers
    placing = {mode for mode in Mode if one.controller.places_newcomers(mode, one.settings)}
    assert placing == modes
