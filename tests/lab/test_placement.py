# SPDX-License-Identifier: Apache-2.0
"""Placement is not luck: Nova's own weighers prefer the hostile host, and ours decide against it.

One set of servers, changed from act to act in file order (`tests/lab/placing.py`).
"""

from contextlib import ExitStack

import pytest

from testbed.lab import cloud
from tests.lab.hosts import HOSTS
from tests.lab.operators import CONTROLLER_CONF, host_conf, reconfigured
from tests.lab.placing import BALLAST, STREAM, World, wait_for_choice, wait_until_refused

STALE_AFTER_S = 5


@pytest.fixture(scope="module")
def world(admin):
    world = World(admin)
    world.fill("vp1", STREAM)
    world.fill("vp2", BALLAST)
    return world


@pytest.fixture
def place(world):
    world.settle()
    return world.place


def test_novas_own_weighers_prefer_the_hostile_host(world):
    """Nobody knows what a server of this flavor does, and it asks for nothing: ours have no
    preference."""
    world.settle()
    wait_for_choice(world, "t.plain", "vp1")


def test_a_strict_server_goes_to_the_quiet_host(place):
    host, reason = place("t.strict")
    assert host == "vp2"
    assert "vp1: rejected, domain" in reason
    assert "vp2: passed, domain" in reason


def test_a_soft_server_goes_to_the_quiet_host(place):
    assert place("t.soft")[0] == "vp2"


def test_servers_of_one_request_are_counted_before_any_agent_has_seen_them(world):
    """Strict ones need an LLC domain each: the quiet host has two."""
    world.settle()
    with pytest.raises(cloud.LabError, match="No valid host"):
        cloud.boot(world.admin, "t-three", "t.strict", min_count=3)
    two = cloud.boot(world.admin, "t-two", "t.strict", min_count=2)
    of_request = [s for s in world.admin.compute.servers() if s.name.startswith("t-t")]
    hosts = [cloud.server_host(world.admin, s) for s in of_request]
    cloud.delete(world.admin, two, *of_request)
    assert sorted(hosts, key=str) == [None, None, None, "vp2", "vp2"]


def test_servers_asked_for_one_by_one_are_counted_while_the_digest_does_not_know_them(world):
    """The agent of the quiet host is stopped: its last digest stays all that is known."""
    world.settle()
    cloud.stop("vp-agent@vp2")
    try:
        placed = [cloud.boot(world.admin, f"t-one-{n}", "t.strict") for n in range(2)]
        assert {cloud.server_host(world.admin, server) for server in placed} == {"vp2"}
        with pytest.raises(cloud.LabError, match="No valid host"):
            cloud.boot(world.admin, "t-one-too-many", "t.strict")
    finally:
        # First, or the agent would home the residents by what is about to go.
        cloud.delete(world.admin, *(s for s in world.admin.compute.servers() if "t-one" in s.name))
        cloud.start("vp-agent@vp2")


def test_with_both_hosts_hostile_strict_finds_none_and_soft_boots(world):
    world.fill("vp2", STREAM)
    world.settle()
    wait_until_refused(world, "t.strict")
    assert world.place("t.soft")[0] in HOSTS


def test_with_the_hosts_roles_swapped_all_choices_are(world):
    world.clear("vp1", STREAM)
    world.clear("vp2", BALLAST)
    world.fill("vp1", BALLAST)
    world.settle()
    assert world.place("t.strict")[0] == "vp1"
    wait_for_choice(world, "t.plain", "vp2")


def test_reports_stopped_novas_own_choice_returns(world):
    """The staleness limit is shortened from three minutes, and the refresh interval with it."""
    agents = [f"vp-agent@{host}" for host in HOSTS]
    stale = f"[vp_scheduler]\nstale_after_s = {STALE_AFTER_S}"
    with ExitStack() as stack:
        for host, agent in zip(HOSTS, agents, strict=True):
            refresh = "[bus]\nrefresh_interval_s = 1"
            stack.enter_context(reconfigured(host_conf(host), refresh, agent))
        stack.enter_context(reconfigured(CONTROLLER_CONF, stale, "nova-scheduler"))
        wait_for_choice(world, "t.strict", "vp1")
        for agent in agents:
            cloud.stop(agent)
        assert "no fresh digest" in wait_for_choice(world, "t.strict", "vp2")
