# SPDX-License-Identifier: Apache-2.0
"""The machine is what other tests here take it for: systemd, unified cgroups, libvirt's scopes."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from nova_vp.core.types.knob import Quota
from tests.domain_xml import write_endless
from tests.host_subjects import LibvirtSubject
from tests.system_libvirt import FIRMWARE, SystemLibvirt
from tests.waiting import wait_until
from vp_agent.drivers.base import VcpuThreads
from vp_agent.drivers.cgroups import cpu_group, machine_group
from vp_agent.drivers.cpu_times import CpuTimesReader
from vp_agent.drivers.systemd_scopes import unit_of

TOP = Path("/sys/fs/cgroup")


def test_systemd_is_the_first_process_and_cgroups_are_unified():
    assert os.readlink("/proc/1/exe") == "/usr/lib/systemd/systemd"
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    assert [target for _, target, kind, *_ in mounts if kind == "cgroup2"] == [str(TOP)]
    assert not [kind for _, _, kind, *_ in mounts if kind == "cgroup"]


def test_no_unit_has_failed():
    failed = ["systemctl", "--failed", "--no-legend", "--plain"]
    assert subprocess.run(failed, check=True, capture_output=True, text=True).stdout == ""


def test_a_server_is_in_a_scope_of_machine_slice_with_a_group_for_each_vcpu(
    libvirt_host: SystemLibvirt,
):
    subject = LibvirtSubject(libvirt_host)
    uuid = subject.boot_xml(vcpus=2)
    groups = [Path(cpu_group(tid).path) for tid in subject.tids(uuid)]
    [scope] = {machine_group(cpu_group(tid)) for tid in subject.tids(uuid)}
    folder, name = os.path.split(scope.path)
    assert folder == f"{TOP}/machine.slice"
    assert re.fullmatch(r"machine-qemu\\x2d\d+\\x2dinstance\\x2d00000001\.scope", name)
    assert unit_of(scope) == name
    assert [str(group.relative_to(scope.path)) for group in groups] == [
        "libvirt/vcpu0", "libvirt/vcpu1",
    ]  # fmt: skip
    for file in ("cpu.max", "cpu.weight", "cpu.stat", "cpuset.cpus"):
        assert all((group / file).exists() for group in groups)
    subject.close()


def test_the_cpu_time_of_a_servers_threads_is_that_of_its_groups(libvirt_host: SystemLibvirt):
    """Two accounts of the kernel: schedstat of the threads, which is read, and cpu.stat."""
    subject = LibvirtSubject(libvirt_host)
    uuid = subject.boot_xml(vcpus=1, firmware=write_endless(FIRMWARE / "endless.bin"))
    subject.cap_by_hand(uuid, Quota(20_000, 100_000))
    pid, tids = subject.domains.find(uuid).process.pid, subject.tids(uuid)
    reader = CpuTimesReader()
    threads = VcpuThreads(uuid, "instance-00000001", pid, tids, "1")
    group = Path(cpu_group(tids[0]).path)
    first, first_stat = reader.of(threads, is_limited=True), stat_of(group)
    wait_until(lambda: stat_of(group)["nr_throttled"] > first_stat["nr_throttled"] + 50, "it", 120)
    last, last_stat = reader.of(threads, is_limited=True), stat_of(group)
    reader.close()
    subject.close()
    assert first is not None
    assert last is not None
    more_us = {name: last_stat[name] - first_stat[name] for name in last_stat}
    assert (last.ran_ns - first.ran_ns) / 1000 == pytest.approx(more_us["usage_usec"], rel=0.1)
    throttled_us = (last.throttled_ns - first.throttled_ns) / 1000
    assert throttled_us == pytest.approx(more_us["throttled_usec"], rel=0.1)
    assert last.run_delay_ns - first.run_delay_ns > 0.9 * (last.throttled_ns - first.throttled_ns)


def stat_of(group: Path) -> dict[str, int]:
    lines = (group / "cpu.stat").read_text().splitlines()
    return {name: int(number) for name, number in (line.split() for line in lines)}
