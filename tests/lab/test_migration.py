# SPDX-License-Identifier: Apache-2.0
"""An operator migrates a server live while its placement is applied: no orphan on the other side.

Every server is homed by the source's agent, which is a placement, journalled like any other. The
destination's agent homes nobody here, so that what it leaves is what arrived.
"""

import json
import re
from contextlib import ExitStack

import pytest

from testbed.lab import cloud, settings
from testbed.lab.errors import LabError
from tests.lab.hosts import (
    BOTH_CPUS,
    affinities,
    cgroup_values,
    domain_xml,
    placement,
    run_folder,
    wait_until_homed,
)
from tests.lab.operators import answering_calls, host_conf, openstack, reconfigured

SOURCE, DESTINATION = "vp1", "vp2"
AGENTS = [f"vp-agent@{SOURCE}", f"vp-agent@{DESTINATION}"]
JOURNAL = "urn:nova-vp:1"
HOOKS = settings.RUN / DESTINATION / "etc" / "libvirt" / "hooks"
SPECS = {"quota:cpu_period": "100000", "quota:cpu_quota": "80000"}
MEMORY_KIB = 128 << 10
NO_HOMING = "[controller_initial_placement]\nhome_on_arrival = never"


class Migrant:
    """A server that the source's agent places."""

    def __init__(self, admin, name):
        self.admin = admin
        self.server = cloud.boot(admin, f"t-{name}", "t.migrant", "work=idle", host=SOURCE)
        self.id = self.server.id
        self.instance = admin.compute.get_server(self.id).instance_name

    def migrate(self):
        wait_until_homed(SOURCE, self.id)
        assert JOURNAL in domain_xml(SOURCE, self.instance)
        assert placement(self.id) < BOTH_CPUS
        assert cloud.live_migrate(self.admin, self.server, DESTINATION) == DESTINATION

    def live_xml(self):
        return domain_xml(DESTINATION, self.instance)

    def persistent_xml(self):
        return domain_xml(DESTINATION, self.instance, "--inactive")

    def is_journalled(self):
        return JOURNAL in self.live_xml() or JOURNAL in self.persistent_xml()

    def assert_free(self):
        """By the kernel's word, the vCPU threads have Nova's bound and the flavor's quota."""
        assert set(affinities(self.id).values()) == {BOTH_CPUS}
        limits = cgroup_values(DESTINATION, self.instance)
        vcpus = {path: value for path, value in limits.items() if "/vcpu" in path}
        assert {v for path, v in vcpus.items() if path.endswith("cpuset.cpus")} == {"0-1"}
        assert {v for path, v in vcpus.items() if path.endswith("cfs_quota_us")} == {"80000"}

    def pins(self):
        return set(re.findall(r"<vcpupin [^>]*cpuset='([^']*)'", self.live_xml())), set(
            re.findall(r"<vcpupin [^>]*cpuset='([^']*)'", self.persistent_xml())
        )


@pytest.fixture(scope="module")
def migrant(admin):
    cloud.put_flavor(admin, "t.migrant", vcpus=2, specs=SPECS)
    with reconfigured(host_conf(DESTINATION), NO_HOMING, AGENTS[1]):
        yield lambda name: Migrant(admin, name)


@pytest.fixture
def without_hook():
    """libvirtd looks into the folder at every call."""
    hook, aside = HOOKS / "qemu.d" / "nova-vp", HOOKS / "nova-vp.aside"
    hook.rename(aside)
    yield
    aside.rename(hook)


@pytest.fixture
def without_agent():
    cloud.stop(AGENTS[1])
    yield
    cloud.start(AGENTS[1])


def wait_until_cleared(migrant):
    what = "the agent to remove what another host's agent wrote"
    cloud.wait_for(lambda: not migrant.is_journalled(), what, deadline_s=60)


def test_with_hook_and_agent(migrant):
    arrived = migrant("both")
    arrived.migrate()
    assert JOURNAL not in arrived.live_xml()
    wait_until_cleared(arrived)
    arrived.assert_free()
    assert arrived.pins() == (set(), set())


def test_with_the_agent_alone(migrant, without_hook):
    arrived = migrant("agent")
    arrived.migrate()
    wait_until_cleared(arrived)
    arrived.assert_free()
    assert arrived.pins() == (set(), set())


def test_with_the_hook_alone(migrant, without_agent):
    arrived = migrant("hook")
    arrived.migrate()
    assert JOURNAL not in arrived.live_xml()
    arrived.assert_free()
    assert arrived.pins() == (set(), set())


def test_with_neither_only_inert_metadata_arrives(migrant, without_hook, without_agent):
    """An agent that comes to this host one day finds and removes it."""
    arrived = migrant("neither")
    # Once it has looked after the agent's end, and found nothing, `vp-agent release` looks no more.
    folder = run_folder(DESTINATION)
    what = "the looks after the agent's end to be over"
    cloud.wait_for(lambda: folder.silent_for_s() is None, what, deadline_s=60)
    arrived.migrate()
    assert JOURNAL in arrived.live_xml()
    arrived.assert_free()
    assert arrived.pins() == (set(), set())
    cloud.start(AGENTS[1])
    wait_until_cleared(arrived)
    arrived.assert_free()


def test_the_libvirt_actuator_with_hook_and_agent(migrant):
    """Its pins are in the XML that travels; neutral ones may stay in the persistent XML."""
    actuator = "[agent]\nactuator = libvirt"
    with ExitStack() as stack:
        for host, agent in zip((SOURCE, DESTINATION), AGENTS, strict=True):
            stack.enter_context(reconfigured(host_conf(host), actuator, agent))
        arrived = migrant("libvirt")
        wait_until_homed(SOURCE, arrived.id)
        assert re.search(r"<vcpupin [^>]*cpuset='[01]'", domain_xml(SOURCE, arrived.instance))
        arrived.migrate()
        wait_until_cleared(arrived)
        cloud.wait_for(lambda: arrived.pins()[1] <= {"0-1"}, "neutral pins", deadline_s=60)
        arrived.assert_free()
        assert arrived.pins()[0] == set()


@pytest.fixture
def answers_calls():
    """The host that the server comes from."""
    with answering_calls(SOURCE):
        yield


def test_memory_that_an_overlay_gave_up_comes_back_where_its_server_arrives(admin, answers_calls):
    cloud.put_flavor(admin, "t.tuned", ram=MEMORY_KIB >> 10, specs={"vp:isolation": "soft"})
    server = cloud.boot(admin, "t-tuned", "t.tuned", "work=idle", host=SOURCE)
    instance = admin.compute.get_server(server.id).instance_name
    create = ("vp", "overlay", "create", "tuned", "--server", server.id)
    cloud.wait_for(
        lambda: openstack(*create).returncode == 0, "vp-api to know the server", deadline_s=60
    )
    tune = ("vp", "overlay", "call", "tuned", "tune", "--server", server.id, "-f", "json")
    down = ("--resource", "memory-size", "--direction", "down")
    answers = []

    def is_granted():
        answers.append(json.loads(openstack(*tune, *down).stdout))
        return answers[-1]["granted"]

    try:
        cloud.wait_for(is_granted, "its memory to be tuned", deadline_s=60, interval_s=1.0)
    except LabError as exc:
        raise LabError(f"{exc}: {answers[-1]}") from exc
    smaller = f"a guest of less than {MEMORY_KIB} KiB"
    cloud.wait_for(lambda: memory_kib(SOURCE, instance) < MEMORY_KIB, smaller, deadline_s=30)
    assert cloud.live_migrate(admin, server, DESTINATION) == DESTINATION
    all_of_it = "its new host to give it all of its memory"
    cloud.wait_for(
        lambda: memory_kib(DESTINATION, instance) == MEMORY_KIB, all_of_it, deadline_s=60
    )
    assert openstack("vp", "overlay", "delete", "tuned").returncode == 0


def memory_kib(host, instance):
    """By the hypervisor."""
    told = cloud.shell(host, "virsh", "dommemstat", instance).stdout
    return int(re.search(r"^actual (\d+)$", told, re.MULTILINE)[1])
