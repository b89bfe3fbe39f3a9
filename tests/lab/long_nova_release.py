# SPDX-License-Identifier: Apache-2.0
"""What `tests.nova_matrix` asks of each release of Nova: servers are placed, and agents know them.

Of any release that the lab was brought up with (`lab up --nova`), so that one file serves all.
"""

import re

import pytest

from testbed.lab import cloud, nova, processes, settings
from testbed.lab.monitor import agent_status
from tests.lab.hosts import HOSTS, domain_xml, wait_for_vp
from tests.lab.operators import reconfigured
from tests.lab.placing import BALLAST, STREAM, World, wait_until_refused

HOSTILE, QUIET = HOSTS
SOFT = {"vp:isolation": "soft"}
WRITES_NO_SPECS = 31
"""The last release whose libvirt domains have no extra specs."""
DEADLINE_S = 180
"""Nova is read once a minute, and projects are known from reports that come as often."""


@pytest.fixture(scope="module")
def scheduler(lab_up):
    """Forked, as in any cloud: the lab has one worker, for which Nova 31 and 32 fork none."""
    more = "[scheduler]\nworkers = 2"
    with reconfigured(settings.ETC / "nova.conf", more, "nova-scheduler"):
        yield


@pytest.fixture(scope="module")
def world(admin, scheduler):
    # Nova asks Placement for its versions before it forks: until that connection is closed its
    # workers share it, and disturb each other if they ask at the same moment.
    made = World(admin, one_at_a_time=True)
    made.fill(HOSTILE, STREAM)
    made.fill(QUIET, BALLAST)
    made.settle()
    return made


@pytest.mark.parametrize("name", ["nova-scheduler", *(f"nova-compute@{host}" for host in HOSTS)])
def test_the_release_is_what_runs(lab_up, name):
    address = processes.Address.parse(name)
    log = processes.log_path(address.where, address.name).read_text()
    releases = re.findall(r"Starting \w+ node \(version (\d+)\.", log)
    assert set(releases) == {str(nova.chosen().release)}


def test_a_strict_server_goes_where_it_loses_nothing(world):
    host, reason = world.place("t.strict")
    assert host == QUIET
    assert f"{HOSTILE}: rejected, domain" in reason
    assert f"{QUIET}: passed, domain" in reason


def test_a_soft_server_goes_there_too_and_its_agent_knows_what_it_asks(world):
    """By libvirt's domain or, where Nova does not write that into it, by Nova's facts."""
    server = cloud.boot(world.admin, "t-asking", "t.soft")
    assert cloud.server_host(world.admin, server) == QUIET
    assert f"{HOSTILE}: 0." in cloud.placement_reason(server.id)
    has_specs = "extraSpecs" in domain_xml(QUIET, server.instance_name)
    assert has_specs == (nova.chosen().release > WRITES_NO_SPECS)
    wait_for_vp(
        QUIET, server.id, "what it asks for", lambda one: one["isolation"] == "soft", DEADLINE_S
    )
    cloud.wait_for(
        lambda: specs_by_facts(QUIET).get(server.id) == SOFT,
        f"{QUIET} to be told the specs of {server.id}",
        deadline_s=DEADLINE_S,
    )
    cloud.delete(world.admin, server)


def test_where_no_host_is_quiet_a_strict_server_is_refused_and_a_soft_one_boots(world):
    world.fill(QUIET, STREAM)
    world.settle()
    wait_until_refused(world, "t.strict")
    assert world.place("t.soft")[0] in HOSTS


def specs_by_facts(host):
    """Extra specs by server, as Nova has them."""
    return {one["uuid"]: one["specs"] for one in agent_status(host)["facts"]["servers"]}
