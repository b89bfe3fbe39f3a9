# SPDX-License-Identifier: Apache-2.0
"""Guests that are Nova's or opted out are watched and never touched, and `vp show` says why.

The hosts are in `enforce` and home every guest that they may: a server without any wish is homed
beside these, so that being left alone is no accident.
"""

import json
import subprocess

import pytest

from testbed.lab import cloud, processes, settings
from tests.lab.hosts import (
    BOTH_CPUS,
    affinities,
    domain_xml,
    placement,
    set_mode,
    wait_until_homed,
)
from tests.lab.operators import openstack

LAB = str(settings.LAB / "lab")
STANDARD, WITH_FAKE_CPUS = "vp1", "vp3"
JOURNAL = "urn:nova-vp:1"
MISTYPED = {"vp:isolation": "strickt"}
ALLOWED = "none, soft, strict"


@pytest.fixture(scope="module")
def servers(admin):
    """One of each kind. The last is homed like any other: then the agent has seen them all."""
    set_mode(STANDARD, "enforce")
    flavors = {
        "numa": cloud.put_flavor(admin, "t.numa", specs={"hw:numa_nodes": "1"}),
        "out": cloud.put_flavor(admin, "t.out", specs={"vp:manage": "no"}),
        "older": older_flavor(admin),
        "homed": "vp.tiny",
    }
    booted = {name: boot(admin, name, flavor) for name, flavor in flavors.items()}
    wait_until_homed(STANDARD, booted["homed"].id)
    return booted


def older_flavor(admin):
    """Before 2.86 Nova took whatever it was given."""
    flavor = cloud.put_flavor(admin, "t.older")
    url = f"/flavors/{flavor}/os-extra_specs"
    taken = admin.compute.post(url, json={"extra_specs": MISTYPED}, microversion="2.85")
    assert taken.status_code == 200
    return flavor


def boot(admin, name, flavor, host=STANDARD):
    return cloud.boot(admin, f"t-{name}", flavor, "work=idle", host=host)


def told(server):
    """What the API tells the operator, once the host has published it."""

    def known():
        done = openstack("vp", "show", server.id, "-f", "json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    return cloud.wait_for(known, "the API to know it", deadline_s=60, interval_s=0.5)


def assert_untouched(admin, server, answer, host=STANDARD):
    assert answer["actions"] == answer["proposals"] == []
    assert JOURNAL not in domain_xml(host, admin.compute.get_server(server.id).instance_name)


def test_a_server_without_wishes_is_homed(servers):
    answer = told(servers["homed"])
    assert answer["unmanaged"] is None
    assert [action["reason"] for action in answer["actions"]] == ["home-on-arrival"]
    assert placement(servers["homed"].id) < BOTH_CPUS


def test_a_numa_topology_is_novas(admin, servers):
    answer = told(servers["numa"])
    assert answer["unmanaged"]["reason"] == "numa-topology"
    assert "Nova gave it a NUMA topology" in answer["unmanaged"]["detail"]
    assert_untouched(admin, servers["numa"], answer)


def test_an_opted_out_server_floats(admin, servers):
    answer = told(servers["out"])
    assert answer["unmanaged"]["reason"] == "vp:manage=no"
    assert set(affinities(servers["out"].id).values()) == {BOTH_CPUS}
    assert_untouched(admin, servers["out"], answer)


@pytest.mark.parametrize(
    ("specs", "named"),
    [
        (MISTYPED, ["none", "soft", "strict"]),
        ({"vp:manage": "maybe"}, ["yes", "no"]),
        ({"vp:isolaton": "strict"}, ["vp:isolation", "vp:manage"]),
    ],
)
def test_novas_api_refuses_a_mistyped_spec_and_names_what_is_allowed(admin, specs, named):
    with pytest.raises(cloud.LabError, match="400") as refusal:
        cloud.put_flavor(admin, "t.mistyped", specs=specs)
    for word in named:
        assert word in str(refusal.value)
    assert not admin.compute.find_flavor("t.mistyped", get_extra_specs=True).extra_specs


def test_on_an_older_flavor_agent_and_filter_report_it_and_leave_the_server_alone(admin, servers):
    answer = told(servers["older"])
    assert answer["unmanaged"]["reason"] == "invalid-vp-spec"
    assert ALLOWED in answer["unmanaged"]["detail"]
    assert answer["isolation"] == "none"
    assert set(affinities(servers["older"].id).values()) == {BOTH_CPUS}
    assert_untouched(admin, servers["older"], answer)
    log = processes.log_path(processes.CONTROLLER, "nova-scheduler").read_text()
    said = [line for line in log.splitlines() if "flavor t.older: " in line]
    assert said
    assert ALLOWED in said[-1]


@pytest.fixture
def host_with_fake_cpus(admin):
    subprocess.run([LAB, "up", "--host", f"{WITH_FAKE_CPUS}=0-3/4-7"], check=True)
    set_mode(WITH_FAKE_CPUS, "enforce")
    yield WITH_FAKE_CPUS
    cloud.delete(admin, *(s for s in admin.compute.servers() if s.compute_host == WITH_FAKE_CPUS))
    subprocess.run([LAB, "remove", WITH_FAKE_CPUS], check=True)


def test_dedicated_cpus_are_novas(admin, host_with_fake_cpus):
    flavor = cloud.put_flavor(admin, "t.dedicated", specs={"hw:cpu_policy": "dedicated"})
    server = boot(admin, "dedicated", flavor, host_with_fake_cpus)
    answer = told(server)
    assert answer["unmanaged"]["reason"] == "dedicated-cpus"
    assert "Nova dedicated CPUs to it: vCPU 0 on CPU" in answer["unmanaged"]["detail"]
    assert_untouched(admin, server, answer, host_with_fake_cpus)
