# SPDX-License-Identifier: Apache-2.0
"""The lab's cgroups on the machine at hand, of version 1 or 2: under another name than a lab's."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.lab import cgroups, processes
from testbed.lab.cgroups import UNIFIED
from tests.waiting import wait_until

HOST = "vp1"


@pytest.fixture(autouse=True)
def _another_name(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if os.geteuid() != 0:
        pytest.skip("cgroups are root's")
    monkeypatch.setattr(cgroups, "NAME", f"nova-vp-test-{os.getpid()}")
    yield
    cgroups.kill_all()
    cgroups.remove()


def is_unified() -> bool:
    return UNIFIED in cgroups.read_hierarchies().values()


def paths_of(pid: int) -> dict[str, str]:
    """By hierarchy, as a process outside of the lab sees them."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return {names: path for _, names, path in (line.split(":", 2) for line in lines)}


def begin(groups: list[Path], *wrapped: str) -> "subprocess.Popen[bytes]":
    """A process of the host; the groups that it is started in are its root if `wrapped` says so."""
    argv = processes.entering(groups, [*wrapped, "sleep", "1000"])
    begun = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    name = Path(f"/proc/{begun.pid}/comm")
    wait_until(lambda: name.read_text() == "sleep\n", "it has entered its groups")
    return begun


def test_a_process_of_a_host_is_in_its_groups_and_found():
    groups = cgroups.make_host_groups(HOST)
    begun = begin(cgroups.members(groups))
    inside = [path for path in paths_of(begun.pid).values() if cgroups.NAME in path]
    assert len(inside) == len(groups)
    assert {path.startswith(f"/{cgroups.NAME}/{HOST}") for path in inside} == {True}
    assert cgroups.read_pids(HOST) == cgroups.read_pids() == [begun.pid]
    cgroups.kill_all(HOST)
    assert begun.wait(timeout=10) == -9
    cgroups.remove(HOST)
    assert not any(group.exists() for group in groups)


def test_the_hosts_groups_are_the_root_that_its_processes_see():
    """libvirt makes its groups for machines there."""
    groups = cgroups.make_host_groups(HOST)
    into_members = processes.entering(cgroups.members(groups), [])
    begun = begin(groups, "unshare", "--cgroup", *into_members)
    seen = subprocess.run(
        ["nsenter", f"--target={begun.pid}", "--cgroup", "cat", f"/proc/{begun.pid}/cgroup"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    roots = {line.split(":", 2)[2] for line in seen.splitlines()}
    assert roots & {"/", f"/{cgroups.LEAF}"}
    assert not any(cgroups.NAME in root for root in roots)
    begun.kill()
    begun.wait()


def test_guests_beside_a_hosts_own_processes_have_quota_weight_and_cpus():
    """What libvirt does in there: a group for a guest, with the controllers that it wants."""
    groups = cgroups.make_host_groups(HOST)
    begun = begin(cgroups.members(groups))
    hierarchies = dict(zip(cgroups.read_hierarchies().values(), groups, strict=True))
    if is_unified():
        [root] = groups
        (root / "cgroup.subtree_control").write_text("+cpu +cpuset +memory +io")
        wanted = {root: ("cpu.max", "cpu.weight", "cpuset.cpus", "memory.max")}
    else:
        [cpu] = [group for options, group in hierarchies.items() if "cpu" in options.split(",")]
        [cpuset] = [g for options, g in hierarchies.items() if "cpuset" in options.split(",")]
        wanted = {cpu: ("cpu.cfs_quota_us", "cpu.shares"), cpuset: ("cpuset.cpus",)}
    for root, names in wanted.items():
        guest = root / "machine"
        guest.mkdir()
        assert set(names) <= set(os.listdir(guest))
        (guest / "cgroup.procs").write_text(str(begun.pid))
    cgroups.kill_all(HOST)
    assert begun.wait(timeout=10) == -9


def test_a_host_that_starts_anew_finds_its_groups():
    first = cgroups.make_host_groups(HOST)
    begun = begin(cgroups.members(first))
    assert cgroups.make_host_groups(HOST) == first
    assert cgroups.read_pids(HOST) == [begun.pid]
    begun.kill()
    begun.wait()
