# SPDX-License-Identifier: Apache-2.0
"""Where nothing is due nothing is done, and of two co-runners only the guilty one moves."""

import pytest

from testbed.lab import cloud
from tests.lab.hosts import placement, set_mode, vp, wait_until_homed, wait_until_measured
from tests.lab.rates import Rates

HOST = "vp1"
SECONDS_OF_CALM = 15


@pytest.fixture
def rates(admin):
    """A host in `enforce` whose LLC domain 0 is taken by a wide, calm server."""
    cloud.delete(admin, *admin.compute.servers())
    set_mode(HOST, "enforce")
    rates = Rates(HOST)
    wide = boot(admin, rates, "wide", "compute", flavor="vp.small")
    wait_until_measured(HOST, wide.id, state=0)  # it is placed around by what it was seen to use
    yield rates
    rates.close()


def boot(admin, rates, name, work, flavor="vp.tiny"):
    server = cloud.boot(admin, f"t-{name}", flavor, f"work={work}", host=HOST)
    rates.follow(name, server.id)
    wait_until_homed(HOST, server.id)
    return server


def mitigations(server) -> list:
    seen = vp(HOST, server.id)
    return [a for a in seen["actions"] if a["controller"] == "vp"] + (
        [seen["interference"]] if seen["interference"] else []
    )


def test_a_victim_that_grows_beside_a_busy_innocent_moves_nobody(admin, rates):
    innocent = boot(admin, rates, "innocent", "stream:8192")
    grower = boot(admin, rates, "grower", "chase:64@until=45,chase:2048")
    assert placement(innocent.id) == placement(grower.id)
    wait_until_measured(HOST, grower.id, state=0)  # the calm ends, so it comes first
    wait_until_measured(HOST, innocent.id, state=8)
    before = placement(innocent.id), placement(grower.id)
    wait_until_measured(HOST, grower.id, state=8)
    rates.wait_for_lines("grower", SECONDS_OF_CALM)
    assert (placement(innocent.id), placement(grower.id)) == before
    assert mitigations(innocent) == mitigations(grower) == []


def test_of_two_corunners_only_the_guilty_one_moves(admin, rates):
    innocent = boot(admin, rates, "innocent", "chase:64")
    guilty = boot(admin, rates, "guilty", "compute@until=90,stream:8192")
    for server in (innocent, guilty):
        wait_until_measured(HOST, server.id, state=0)
    boot(admin, rates, "filler", "compute")  # or the victim would find room in domain 0
    # Both fill half of the cache: were it more, their pages could meet in a colour, and `rebalance`
    # would take them apart once the guilty one has left.
    victim = boot(admin, rates, "victim", "chase:192")
    home = placement(victim.id)
    assert placement(innocent.id) == placement(guilty.id) == home
    for server in (innocent, victim):
        wait_until_measured(HOST, server.id, state=0)
    rates.wait_for_kind("guilty", "stream")
    cloud.wait_for(lambda: placement(guilty.id) != home, "the guilty one to move", deadline_s=120)
    wait_until_measured(HOST, victim.id, state=0)
    rates.wait_for_lines("victim", SECONDS_OF_CALM)
    assert placement(innocent.id) == placement(victim.id) == home
    assert [a for a in mitigations(innocent) if a.get("uuid") == innocent.id] == []
