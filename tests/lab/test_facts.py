# SPDX-License-Identifier: Apache-2.0
"""What Nova knows of a host and its servers gets to the host's agent, which asks nobody.

The rights are those of the policy file that operators add to nova-api's.
"""

import pytest

from testbed.lab import cloud
from testbed.lab.monitor import agent_status
from tests.lab.hosts import HOSTS

HOST, OTHER = HOSTS
FLAVOR = "t-grouped"
SPECS = {"vp:isolation": "soft"}
DEADLINE_S = 180
"""Nova is read once a minute, and projects are known from reports that come as often."""


@pytest.fixture
def group(admin):
    made = admin.compute.create_server_group(name="t-apart", policy="anti-affinity")
    yield made
    admin.compute.delete_server_group(made)


@pytest.fixture
def aggregate(admin):
    made = admin.compute.create_aggregate(name="t-databases")
    admin.compute.add_host_to_aggregate(made, HOST)
    yield made
    admin.compute.remove_host_from_aggregate(made, HOST)
    admin.compute.delete_aggregate(made)


def told(host):
    """Aggregates, members of groups by policy, and extra specs by server."""
    facts = agent_status(host)["facts"]
    return (
        facts["aggregates"],
        {group["policy"]: set(group["members"]) for group in facts["groups"]},
        {server["uuid"]: server["specs"] for server in facts["servers"]},
    )


def wait_until_told(host, expected):
    cloud.wait_for(lambda: told(host) == expected, f"{host} to be told", deadline_s=DEADLINE_S)


def test_aggregates_groups_and_specs_arrive_and_go(admin, group, aggregate):
    flavor = cloud.put_flavor(admin, FLAVOR, specs=SPECS)
    hints = {"scheduler_hints": {"group": group.id}}
    one = cloud.boot(admin, "t-one", flavor, "work=compute", host=HOST, **hints)
    two = cloud.boot(admin, "t-two", flavor, "work=compute", host=OTHER, **hints)
    apart = {"anti-affinity": {one.id, two.id}}
    wait_until_told(HOST, (["t-databases"], apart, {one.id: SPECS}))
    wait_until_told(OTHER, ([], apart, {two.id: SPECS}))
    cloud.delete(admin, two)
    admin.compute.remove_host_from_aggregate(aggregate, HOST)
    wait_until_told(HOST, ([], {"anti-affinity": {one.id}}, {one.id: SPECS}))
    admin.compute.add_host_to_aggregate(aggregate, HOST)
