# SPDX-License-Identifier: Apache-2.0
"""The project's story on a real cloud: harm seen, proposed, mended, frozen, explained, undone.

One set of servers, one act after the other: the acts build on each other, in file order.
"""

import json
import os
import subprocess

import pytest

from testbed.lab import cloud, settings
from testbed.lab.monitor import agent_status
from tests.lab.hosts import (
    BOTH_CPUS,
    affinities,
    cgroup_values,
    domain_xml,
    is_degraded_at_cache,
    order,
    placement,
    set_mode,
    wait_for_vp,
    wait_until_homed,
    wait_until_measured,
)
from tests.lab.rates import Rates

HOST = "vp1"
JOURNAL = "urn:nova-vp:1"


class Cast:
    """The servers of the story, and what stood there before anything was mended."""

    def __init__(self, admin):
        self.admin = admin
        self.filler = cloud.boot(admin, "t-filler", "vp.small", "work=compute", host=HOST)
        self.home_of_filler = wait_until_homed(HOST, self.filler.id)
        self.victim = cloud.boot(admin, "t-victim", "vp.tiny", "work=chase:384", host=HOST)
        self.home = wait_until_homed(HOST, self.victim.id)
        self.rates = Rates(HOST)
        self.rates.follow("victim", self.victim.id)
        self.solo_ops = self.rates.steady("victim", "chase")
        self.boot_neighbour()

    def boot_neighbour(self):
        work = "work=compute@until=45,stream:8192"
        self.neighbour = cloud.boot(self.admin, "t-neighbour", "vp.tiny", work, host=HOST)
        self.rates.follow("neighbour", self.neighbour.id)

    def servers(self):
        return (self.victim, self.neighbour, self.filler)

    def instance(self, server) -> str:
        return self.admin.compute.get_server(server.id).instance_name


@pytest.fixture(scope="module")
def cast(admin):
    cast = Cast(admin)
    yield cast
    cast.rates.close()


def openstack(*argv: str) -> str:
    environment = {**os.environ, **settings.admin_environment()}
    client = str(settings.VENV / "bin" / "openstack")
    done = subprocess.run(
        [client, *argv], check=True, capture_output=True, text=True, env=environment
    )
    return done.stdout


def test_a_full_host_brings_victim_and_neighbour_into_one_domain(cast):
    assert cast.home != cast.home_of_filler
    assert wait_until_homed(HOST, cast.neighbour.id) == cast.home
    wait_until_measured(HOST, cast.victim.id, state=0)


def test_in_observe_the_harm_is_seen_and_nothing_is_done(cast):
    set_mode(HOST, "observe")
    cast.rates.wait_for_kind("neighbour", "stream")
    seen = wait_for_vp(HOST, cast.victim.id, "the harm", is_degraded_at_cache)
    assert [s["uuid"] for s in seen["interference"]["suspects"]] == [cast.neighbour.id]
    assert cast.rates.steady("victim", "chase") <= 0.5 * cast.solo_ops
    assert placement(cast.neighbour.id) == placement(cast.victim.id)
    wait_until_measured(HOST, cast.victim.id, state=8)


def test_in_advise_the_proposal_is_applied_on_request(cast):
    set_mode(HOST, "advise")
    [proposal] = cloud.wait_for(
        lambda: agent_status(HOST)["proposals"], "the agent's proposal", deadline_s=60
    )
    assert (proposal["uuid"], proposal["reason"]) in separations(cast)
    listed = ("vp", "action", "list", "--result", "proposed", "-f", "json")
    cloud.wait_for(
        lambda: proposal["id"] in openstack(*listed), "the API to list it", deadline_s=60
    )
    openstack("vp", "action", "accept", proposal["id"])
    cloud.wait_for(
        lambda: not placement(cast.neighbour.id) & placement(cast.victim.id),
        "the accepted action",
        deadline_s=60,
    )


def test_release_gives_everything_back_and_the_harm_returns(cast):
    assert order(HOST, "release") is True
    for server in cast.servers():
        assert set(affinities(server.id).values()) == {BOTH_CPUS}
        assert JOURNAL not in domain_xml(HOST, cast.instance(server))


def test_a_restarted_agent_homes_by_what_it_knew(cast):
    """All it sees at its start is the harm; the undisturbed states are those of before."""
    cloud.stop(f"vp-agent@{HOST}")
    cloud.start(f"vp-agent@{HOST}")
    set_mode(HOST, "enforce")
    cloud.wait_for(lambda: are_apart(cast), "victim and neighbour to be apart", deadline_s=120)
    wait_until_measured(HOST, cast.victim.id, state=0)


def separations(cast) -> list[tuple[str, str]]:
    """A host whose CPUs are busy has no room for the neighbour: then two servers swap places."""
    swaps = [(server.id, "swap-places") for server in (cast.victim, cast.neighbour)]
    return [(cast.neighbour.id, "move-aggressor"), *swaps]


def are_apart(cast) -> bool:
    theirs, ours = placement(cast.neighbour.id), placement(cast.victim.id)
    return len(theirs) == 1 and not theirs & ours


def test_in_enforce_a_fresh_onset_is_mended_while_the_neighbour_streams_on(cast):
    cloud.delete(cast.admin, cast.neighbour)
    cast.boot_neighbour()
    assert wait_until_homed(HOST, cast.neighbour.id) == wait_until_homed(HOST, cast.victim.id)
    wait_until_measured(HOST, cast.victim.id, state=0)
    cast.rates.wait_for_kind("neighbour", "stream")
    cloud.wait_for(lambda: are_apart(cast), "victim and neighbour to be apart", deadline_s=120)
    wait_until_measured(HOST, cast.victim.id, state=0)
    assert cast.rates.steady("victim", "chase") >= 0.95 * cast.solo_ops
    assert cast.rates.kind("neighbour") == "stream"


def test_what_is_applied_stays_frozen_in_observe(cast):
    before = {s.id: placement(s.id) for s in cast.servers()}
    set_mode(HOST, "observe")
    cast.rates.wait_for_lines("victim", 5)
    assert {s.id: placement(s.id) for s in cast.servers()} == before


def test_the_api_tells_what_was_done(cast):
    def told() -> dict | None:
        vp = json.loads(openstack("vp", "show", cast.victim.id, "-f", "json"))
        return vp if any(a["result"] == "mended" for a in vp["actions"]) else None

    vp = cloud.wait_for(told, "the API to have the news", deadline_s=60, interval_s=1)
    action = [a for a in vp["actions"] if a["result"] == "mended"][-1]
    assert (vp["host"], vp["state"], vp["hurt_by_neighbour"]) == (HOST, 0, False)
    assert vp["sensitivity"] == ["cache"]
    assert (action["server"]["server_id"], action["reason"]) in separations(cast)
    evidence = action["evidence"]
    assert evidence["memory_factor_before"] < 0.25 < evidence["memory_factor_now"]


def test_stop_gives_every_guest_back_exactly(cast):
    limits = {s.id: cgroup_values(HOST, cast.instance(s)) for s in cast.servers()}
    assert all(limits.values())
    cloud.stop(f"vp-agent@{HOST}")
    for server in cast.servers():
        instance = cast.instance(server)
        assert set(affinities(server.id).values()) == {BOTH_CPUS}
        assert cgroup_values(HOST, instance) == limits[server.id], "the kernel actuator sets none"
        xml = domain_xml(HOST, instance)
        assert JOURNAL not in xml
        assert "<vcpupin" not in xml
    cloud.start(f"vp-agent@{HOST}")
