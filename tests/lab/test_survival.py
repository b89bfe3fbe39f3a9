# SPDX-License-Identifier: Apache-2.0
"""What happens to hosts and guests under a running agent, and what the agent makes of it."""

import pytest

from testbed.lab import cloud
from testbed.lab.monitor import qemu_pid, vcpu_threads
from tests.lab.compute_nodes import wait_until_up
from tests.lab.hosts import (
    BOTH_CPUS,
    placement,
    set_mode,
    vp,
    wait_for_vp,
    wait_until_homed,
    wait_until_measured,
)

HOST = "vp1"
AGENT = f"vp-agent@{HOST}"


@pytest.fixture(scope="module")
def server(admin):
    set_mode(HOST, "enforce")
    server = cloud.boot(admin, "t-lasting", "vp.tiny", "work=chase:384", host=HOST)
    wait_until_homed(HOST, server.id)
    wait_until_measured(HOST, server.id)
    return server


@pytest.fixture(autouse=True)
def same_agent():
    """Nothing here may cost the agent its life."""
    pid = cloud.service_pid(AGENT)
    yield
    assert cloud.service_pid(AGENT) == pid


def wait_until_well(server) -> None:
    """Homed on one domain by the kernel's word, and measured."""
    wait_until_homed(HOST, server.id)
    cloud.wait_for(lambda: len(placement(server.id)) == 1, "the kernel's affinity", deadline_s=60)
    wait_for_vp(HOST, server.id, "a complete sample", lambda seen: seen["incomplete"] is None, 90)


def wait_until_settled(admin, server) -> None:
    """Nova says ACTIVE before it has begun to reboot, too: what counts is that no task is left."""

    def is_settled() -> bool:
        now = admin.compute.get_server(server.id)
        return now.status == "ACTIVE" and now.task_state is None

    cloud.wait_for(is_settled, "Nova to be done with it", deadline_s=150)


def wait_for_another_qemu(admin, server, old_pid) -> None:
    try:
        cloud.wait_for(
            lambda: qemu_pid(server.id) not in (None, old_pid), "another QEMU", deadline_s=150
        )
    except cloud.LabError as exc:
        now = admin.compute.get_server(server.id)
        exc.add_note(f"Nova says {now.status}, {now.task_state}, {now.fault}; log: nova-compute")
        raise


def test_libvirtd_restarts(admin, server):
    before = placement(server.id)
    cloud.kill(f"libvirtd@{HOST}")
    wait_until_well(server)
    assert placement(server.id) == before
    wait_until_up(admin, HOST)  # Nova's next call fails on its broken connection.


def thread_ids(server) -> set[int]:
    """Of its vCPUs."""
    return set(vcpu_threads(qemu_pid(server.id)).values())


@pytest.mark.parametrize("kind", ["SOFT", "HARD"])
def test_reboots_bring_new_threads_which_are_homed_again(admin, server, kind):
    old = thread_ids(server)
    old_since, old_pid = vp(HOST, server.id)["since"], qemu_pid(server.id)
    admin.compute.reboot_server(server, kind)
    if kind == "HARD":  # a soft one may keep the process and begin it anew
        wait_for_another_qemu(admin, server, old_pid)
    wait_until_settled(admin, server)
    wait_until_well(server)
    if kind == "HARD":
        assert not thread_ids(server) & old
    assert len(thread_ids(server)) == len(old)
    wait_for_vp(HOST, server.id, "a new state", lambda seen: seen["since"] not in (None, old_since))


def test_suspend_and_resume(admin, server):
    admin.compute.suspend_server(server)
    admin.compute.wait_for_server(server, status="SUSPENDED", wait=60)
    cloud.wait_for(lambda: vp(HOST, server.id) is None, "the guest to be gone", deadline_s=60)
    admin.compute.resume_server(server)
    wait_until_settled(admin, server)
    wait_until_well(server)


def test_pause_and_unpause(admin, server):
    before = placement(server.id)
    admin.compute.pause_server(server)
    wait_for_vp(HOST, server.id, "it to stand", lambda seen: seen["incomplete"] == "not-running")
    admin.compute.unpause_server(server)
    wait_until_settled(admin, server)
    wait_until_well(server)
    assert placement(server.id) == before


def test_guests_come_and_go(admin, server):
    other = cloud.boot(admin, "t-passing", "vp.tiny", "work=compute", host=HOST)
    wait_until_well(other)
    assert placement(other.id) != placement(server.id)
    cloud.delete(admin, other)
    cloud.wait_for(lambda: vp(HOST, other.id) is None, "the agent to forget it", deadline_s=60)
    wait_until_well(server)


def test_a_vcpu_pinned_by_hand_is_left_as_it_is(admin, server):
    name = admin.compute.get_server(server.id).instance_name
    mine = placement(server.id)
    [theirs] = (f"{cpu}" for cpu in BOTH_CPUS - mine)
    cloud.shell(HOST, "virsh", "vcpupin", name, "0", theirs, "--live")
    seen = wait_for_vp(HOST, server.id, "the agent to see it", lambda seen: seen["unmanaged"])
    assert seen["unmanaged_detail"]
    assert placement(server.id) == {int(theirs)}
