# SPDX-License-Identifier: Apache-2.0
"""Which originals are journalled once, so that changes need not be: limits that change often."""

import pytest

from nova_vp.core.types.guest import Guest, Unmanaged
from nova_vp.core.types.knob import NO_QUOTA, Applied, Held, Knob, Quota
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Mode, Policy
from nova_vp.core.types.topology import LlcDomain, Topology
from tests.decisions import a_guest
from tests.policies import a_policy
from vp_agent.loop.reservation import originals

GUEST = a_guest(1)

pytestmark = pytest.mark.needs_controllers("latency")


@pytest.fixture(scope="module")
def policy() -> Policy:
    return a_policy(controllers=("latency",))


def a_picture(guest: Guest = GUEST, controller: str = "latency", mode: Mode = Mode.ENFORCE):
    held = Held(Knob.CPU_CAP, Quota(20_000), NO_QUOTA, controller, "a-1", 60.0)
    return Picture(
        at_s=1.0,
        mode=mode,
        topology=Topology((LlcDomain(0, 0, frozenset({0, 1})),)),
        guests=(guest._replace(quota=Quota(20_000)),),
        readings={},
        applied={guest.uuid: Applied(guest.uuid, 1, (held,))},
        knobs=frozenset({Knob.CPU_CAP, Knob.PLACEMENT}),
    )


def test_a_limit_that_changes_often_is_journalled_once(policy):
    assert originals(a_picture(), policy, ()) == {GUEST.uuid: {Knob.CPU_CAP: NO_QUOTA}}


@pytest.mark.parametrize(
    ("picture", "foreign"),
    [
        (a_picture(controller="vp"), ()),
        (a_picture(mode=Mode.ADVISE), ()),
        (a_picture(GUEST._replace(unmanaged=Unmanaged.EXEMPT)), ()),
        (a_picture(), (GUEST.uuid,)),
    ],
    ids=["of another controller", "not in enforce", "not managed", "somebody else's now"],
)
def test_others_are_journalled_at_each_change(policy, picture, foreign):
    assert originals(picture, policy, foreign) == {}


def test_before_the_first_limit_nothing_is_journalled(policy):
    picture = a_picture()
    assert (
        originals(Picture(1.0, Mode.ENFORCE, picture.topology, picture.guests, {}, {}), policy, ())
        == {}
    )
