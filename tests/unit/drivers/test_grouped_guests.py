# SPDX-License-Identifier: Apache-2.0
"""Nova's server groups as VPs of several servers: which count, and what goes before them."""

import pytest

from nova_vp.core.types.cpu_time import HostCpuTimes
from nova_vp.host_facts import NO_FACTS, HostFacts, ServerGroup
from tests.unit.core.build import COMPUTE, Host, two_sockets, uuid_of
from vp_agent.drivers.fake import FakeGuests, FakeHost
from vp_agent.drivers.grouped_guests import GroupedGuests, ServerGroups

AFFINE = "99999999-2222-4333-8444-000000000001"
APART = "99999999-2222-4333-8444-000000000002"


class Told:
    """What the agent was told last."""

    facts = NO_FACTS

    def tell(self, *groups: ServerGroup) -> None:
        self.facts = HostFacts(groups=groups)


def a_side(*names: str, policies=("affinity",), **fields):
    """A guests driver with those servers, and what tells its facts."""
    built = Host()
    host = FakeHost()
    for name in names:
        built.add(name, COMPUTE, **fields)
        host.boot(built.guest(name))
    told = Told()
    guests = GroupedGuests(FakeGuests(host), ServerGroups(lambda: told.facts, policies))
    return guests, told


def vps_of(guests) -> dict[str, str]:
    return {guest.name: guest.vp_id for guest in guests.read()}


def group(*names: str, id=AFFINE, policy="affinity") -> ServerGroup:
    return ServerGroup(id, policy, tuple(map(uuid_of, names)))


def test_servers_of_an_affinity_group_are_one_vp():
    guests, told = a_side("web", "db", "other")
    told.tell(group("web", "db"))
    assert vps_of(guests) == {
        "web": f"p1/{AFFINE}",
        "db": f"p1/{AFFINE}",
        "other": uuid_of("other"),
    }


@pytest.mark.parametrize("policies", [(), ("affinity", "soft-affinity")])
def test_groups_of_other_policies_are_none(policies):
    guests, told = a_side("web", "db", policies=policies)
    told.tell(group("web", "db", id=APART, policy="anti-affinity"))
    assert vps_of(guests) == {name: uuid_of(name) for name in ("web", "db")}


def test_what_the_flavor_says_goes_first():
    guests, told = a_side("web", "db", group="shop")
    told.tell(group("web", "db"))
    assert set(vps_of(guests).values()) == {"p1/shop"}


def test_a_group_of_two_projects_is_two_vps():
    built, host = Host(), FakeHost()
    for name, project in (("web", "p1"), ("db", "p2")):
        built.add(name, COMPUTE, project_id=project)
        host.boot(built.guest(name))
    facts = HostFacts(groups=(group("web", "db"),))
    guests = GroupedGuests(FakeGuests(host), ServerGroups(lambda: facts, ("affinity",)))
    assert set(vps_of(guests).values()) == {f"p1/{AFFINE}", f"p2/{AFFINE}"}


def test_newer_facts_hold_from_the_next_reading_on():
    guests, told = a_side("web", "db")
    told.tell(group("web", "db"))
    guests.read()
    told.tell()
    assert vps_of(guests) == {name: uuid_of(name) for name in ("web", "db")}


def test_the_rest_of_the_driver_is_the_hosts():
    built, host = Host(), FakeHost(two_sockets(), host_cpu=HostCpuTimes(1000, 10))
    for name in ("web", "db"):
        built.add(name, COMPUTE)
        host.boot(built.guest(name))
    host.end(uuid_of("db"))
    guests = GroupedGuests(Closing(host), ServerGroups(lambda: NO_FACTS, ("affinity",)))
    assert guests.topology() == two_sockets()
    assert [one.guest_uuid for one in guests.threads()] == [uuid_of("web")]
    assert (guests.stopped(), guests.host_name()) == ({uuid_of("db")}, "fake.example.org")
    assert guests.host_cpu() == HostCpuTimes(1000, 10)
    guests.close()
    assert not host.is_up


class Closing(FakeGuests):
    """Once it is closed, its host cannot be asked any more."""

    def close(self) -> None:
        self.host.is_up = False
