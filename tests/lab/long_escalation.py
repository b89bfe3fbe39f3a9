# SPDX-License-Identifier: Apache-2.0
"""A node that has nothing left is not the end: the cluster moves the right guest to the right host.

Three acts of the same shape: a victim that its host cannot help, because whoever hurts it is Nova's
own or because there is no room; in each another guest is the cheapest that solves it. Nova is told
nobody's name: the filter and the weigher choose.
"""

import json

import pytest

from nova_vp.escalation_status import Status
from testbed.lab import cloud
from tests.lab.hosts import wait_for_vp
from tests.lab.operators import openstack
from tests.lab.rates import Rates
from tests.lab.stage import (
    DEAREST,
    HOSTILE,
    NOVAS_OWN,
    QUIET,
    SOFT,
    SOURCE,
    Residents,
    Scene,
    between_two_storms,
    no_room_beside_the_quiet,
    three_hosts,
)


@pytest.fixture(scope="module")
def residents(admin):
    with three_hosts():
        yield Residents(admin)


@pytest.fixture
def scene(admin, residents):
    scene = Scene(admin)
    yield scene
    scene.strike()


def rate_of_victim(scene, host):
    """Measured while only its own vCPU has to keep the modelled pace."""
    server = scene.cast["victim"]
    instance = scene.admin.compute.get_server(server.id).instance_name
    rates = Rates(host, instance)
    rates.follow("victim", server.id)
    try:
        return rates.steady("victim", "chase")
    finally:
        rates.close()


def is_well(vp):
    return vp["state"] in (0, 1) and vp["interference"] is None


def play(scene, residents, mover, to):
    """The aggressor is let loose, while Nova's own weigher prefers the other host; what the ledger
    has of it once all is over.
    """
    admin, victim = scene.admin, scene.cast["victim"]
    victims_host = to if mover == "victim" else SOURCE
    solo_ops = rate_of_victim(scene, SOURCE)
    with residents.full(to):
        scene.let_loose("aggressor")
        told = scene.wait_for(lambda one: one.settled_at, "the cluster to be done")
    assert told.status is Status.COMPLETED, told.reason
    assert [one.server for one in told.attempts] == [scene.cast[mover].id]
    assert cloud.server_host(admin, scene.cast[mover]) == told.latest.dest_host == to
    assert cloud.server_host(admin, victim) == victims_host
    wait_for_vp(victims_host, victim.id, "it to be well", is_well, deadline_s=90)
    assert rate_of_victim(scene, victims_host) >= 0.95 * solo_ops
    return told


def assert_the_story_is_told(scene, told, mover, role):
    """Which rungs were tried and why not, whom it moved and why, and what Nova made of it."""
    text = openstack("vp", "escalation", "show", told.id).stdout
    [attempt] = told.attempts
    assert attempt.role == role, text
    [migration, *_] = scene.admin.compute.migrations(
        instance_uuid=scene.cast[mover].id, migration_type="live-migration"
    )
    assert (migration.id, migration.status) == (attempt.nova_id, "completed")
    message = json.loads(told.message)
    assert message["victim"] == scene.cast["victim"].id
    assert message["evidence"]["measured_loss_ratio"] > 0.05
    assert message["rejected"]
    assert f"Move t-{mover}" in text
    for other in scene.cast.keys() - {mover}:
        assert f"t-{other}" in text


def test_the_victim_is_the_right_one_to_move(scene, residents):
    """To where no storm is. What the node tried first was in vain."""
    between_two_storms(scene, victim=SOFT, aggressor={})
    told = play(scene, residents, "victim", to=QUIET)
    assert_the_story_is_told(scene, told, "victim", "victim")


def test_the_aggressor_is_the_right_one_to_move(scene, residents):
    """To other storms, whom it cannot harm. The victim is ten times as dear, and Nova's own."""
    between_two_storms(scene, victim={**NOVAS_OWN, **DEAREST}, aggressor=SOFT)
    with residents.delicate(QUIET):
        told = play(scene, residents, "aggressor", to=HOSTILE)
    assert_the_story_is_told(scene, told, "aggressor", "aggressor")
    assert {one["why"] for one in json.loads(told.message)["rejected"]} == {"guest-unmanaged"}


def test_a_quiet_co_runner_is_the_right_one_to_move(scene, residents):
    """It leaves the room that the node then uses."""
    no_room_beside_the_quiet(scene)
    told = play(scene, residents, "quiet", to=QUIET)
    assert_the_story_is_told(scene, told, "quiet", "co-runner")
    refused = [one for one in json.loads(told.message)["rejected"] if one["hurt_ratio"] is not None]
    assert scene.cast["aggressor"].id in {one["uuid"] for one in refused}
    assert scene.home("victim") != scene.home("aggressor")
