# SPDX-License-Identifier: Apache-2.0
"""Two tenants on one host, one hurting the other: what each is told, byte by byte, and what not.

The real client asks the real API with tokens of the real keystone. The story is the demo's, hurt
and then mended: whoever could learn of a neighbour would learn of it here.
"""

import json
import re

import pytest

from testbed.lab import cloud
from tests.lab.hosts import (
    HOSTS,
    is_degraded_at_cache,
    set_mode,
    wait_for_vp,
    wait_until_homed,
    wait_until_measured,
)
from tests.lab.operators import openstack

HOST, OTHER = HOSTS
SWITCH_AT_UPTIME_S = 40
NOBODY = "00000000-0000-4000-8000-000000000000"
SUMMARY = {
    *("server_id", "name", "project_id", "isolation"),
    *("is_stale", "state", "since", "hurt_by_neighbour", "degradation", "service"),
}
SHOWN = SUMMARY | {
    "group",
    "sensitivity",
    "unmanaged",
    "last_known",
    "cpu_use",
    "group_state",
    "figures",
    "actions",
    "overrides",
}
ACTION = {"at", "what", "result"}
OPERATORS_WORDS = re.compile(
    r"\b(cpus?|llc|cells?|nodes?|mpki|misses|memory_factor|rise_per_s|suspects?|evidence|rejected)\b",
    re.IGNORECASE,
)


class Tenancy:
    """A victim of tenant-a and a neighbour of tenant-b in one LLC domain, mended in the end."""

    def __init__(self, admin):
        self.filler = cloud.boot(admin, "t-filler", "vp.small", "work=compute", host=HOST)
        wait_until_homed(HOST, self.filler.id)
        self.own = {"tenant-a": boot("tenant-a", "a-victim", "chase:384")}
        work = f"compute@until={SWITCH_AT_UPTIME_S},stream:8192"
        self.own["tenant-b"] = boot("tenant-b", "b-neighbour", work)
        self.projects = {
            tenant: admin.identity.find_project(tenant).id for tenant in ("tenant-a", "tenant-b")
        }

    def mend(self):
        victim = self.own["tenant-a"]
        wait_until_measured(HOST, victim.id, state=0)
        wait_for_vp(HOST, victim.id, "the harm", is_degraded_at_cache)
        set_mode(HOST, "enforce")
        wait_for_vp(HOST, victim.id, "the cure", lambda seen: has_result(seen, "mended"))
        cloud.wait_for(self.told_to_operators, "the API to have the news", deadline_s=60)

    def told_to_operators(self):
        """The API's answer about the victim, once it has the end of the story."""
        text = openstack("vp", "show", self.own["tenant-a"].id, "-f", "json").stdout
        return text if has_result(json.loads(text), "mended") else None

    def betrays(self, tenant):
        """What would tell that tenant that there is anybody else, or where."""
        words = [self.filler.id, self.filler.name, *HOSTS]
        for other, server in self.own.items():
            if other != tenant:
                words += [server.id, server.name, self.projects[other], other]
        return re.compile(rf"\b({'|'.join(map(re.escape, words))})\b")


def boot(tenant, name, work):
    """Tenants cannot choose a host; one alone takes servers while they ask."""
    server = cloud.boot(cloud.connect(tenant), name, "vp.tiny", f"work={work}")
    wait_until_homed(HOST, server.id)
    return server


def has_result(seen, result):
    return any(action["result"] == result for action in seen["actions"])


@pytest.fixture(scope="module")
def tenancy(admin):
    set_mode(HOST, "advise")
    [service] = admin.compute.services(binary="nova-compute", host=OTHER)
    admin.compute.disable_service(service)
    try:
        tenancy = Tenancy(admin)
    finally:
        admin.compute.enable_service(service)
    tenancy.mend()
    return tenancy


@pytest.fixture(params=["tenant-a", "tenant-b"])
def tenant(request):
    return request.param


def said(tenancy, tenant, *argv):
    """The whole output of a command, which betrays nothing; its REST answers."""
    done = openstack("--debug", "vp", *argv, user=tenant)
    assert not (found := tenancy.betrays(tenant).search(done.stdout + done.stderr)), found
    assert not (found := OPERATORS_WORDS.search(done.stdout)), found
    bodies = re.findall(r"^RESP BODY: (\{\"vps?\":.*)$", done.stderr, re.MULTILINE)
    assert not any(OPERATORS_WORDS.search(body) for body in bodies)
    return done, [json.loads(body) for body in bodies]


def test_operators_are_told_what_tenants_must_not_learn(tenancy):
    told = tenancy.told_to_operators()
    betrayed = set(tenancy.betrays("tenant-a").findall(told))
    neighbour = tenancy.own["tenant-b"]
    assert betrayed == {neighbour.id, neighbour.name, HOST}
    assert {"cpus", "mpki", "misses", "memory_factor"} & set(OPERATORS_WORDS.findall(told))


def test_a_list_has_the_own_servers_only(tenancy, tenant):
    done, [body] = said(tenancy, tenant, "list", "-f", "json")
    own = tenancy.own[tenant]
    assert [row["Server ID"] for row in json.loads(done.stdout)] == [own.id]
    assert [vp["server_id"] for vp in body["vps"]] == [own.id]
    assert set(body["vps"][0]) == SUMMARY | {"group", "group_state"}


def test_an_own_server_is_shown_with_what_was_done_and_nothing_else(tenancy, tenant):
    done, [body] = said(tenancy, tenant, "show", tenancy.own[tenant].id, "-f", "json")
    told = json.loads(done.stdout)
    assert set(told) == set(body["vp"]) == SHOWN
    assert told["project_id"] == tenancy.projects[tenant]
    assert {key for action in body["vp"]["actions"] for key in action} == ACTION
    deeds = {(action["what"], action["result"]) for action in told["actions"]}
    place = ("this server was placed within its host", "applied")
    if tenant == "tenant-a":
        assert deeds == {place, ("a neighbour was moved away", "mended")}
        assert (told["state"], told["hurt_by_neighbour"]) == (0, False)
        assert told["sensitivity"] == ["cache"]
    else:
        assert deeds == {place, ("this server was moved within its host", "mended")}


def test_tables_for_people_tell_no_more(tenancy, tenant):
    done, _ = said(tenancy, tenant, "show", tenancy.own[tenant].name)
    assert tenancy.own[tenant].id in done.stdout
    done, _ = said(tenancy, tenant, "list")
    assert "Host" not in done.stdout


def test_a_foreign_server_is_answered_like_one_that_does_not_exist(tenancy):
    foreign = tenancy.own["tenant-b"].id
    answers = [openstack("vp", "show", server, user="tenant-a") for server in (foreign, NOBODY)]
    assert all(done.returncode != 0 and done.stdout == "" for done in answers)
    assert all("HTTP 404" in done.stderr for done in answers)
    words = [re.sub(r"req-[0-9a-f-]+", "", done.stderr) for done in answers]
    assert words[0].replace(foreign, NOBODY) == words[1]


@pytest.mark.parametrize(
    "argv",
    [
        ("host", "list"),
        ("host", "show", HOST),
        ("host", "set", HOST, "--mode", "observe"),
        ("list", "--host", HOST),
    ],
)
def test_hosts_are_not_for_tenants(tenancy, argv):
    done = openstack("vp", *argv, user="tenant-a")
    assert done.returncode != 0
    assert "HTTP 403" in done.stderr
    assert done.stdout == ""
