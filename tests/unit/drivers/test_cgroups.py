# SPDX-License-Identifier: Apache-2.0
"""Where a vCPU's cgroup lies, on both versions and below any mount; the order of writing."""

import pytest

from vp_agent.drivers import cgroups
from vp_agent.drivers.cgroups import (
    CpuGroup,
    NoCpuGroup,
    machine_group,
    read_quota,
    read_weight,
    writing_order,
)

V1 = "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
UNIFIED = "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
HYBRID = UNIFIED.replace("/sys/fs/cgroup ", "/sys/fs/cgroup/unified ")
SCOPE = r"/machine.slice/machine-qemu\x2d1\x2dinstance.scope/libvirt/vcpu1"


@pytest.fixture
def seen(tmp_path, monkeypatch):
    """The machine as /proc would show it."""

    def show(mounts: str, groups: str) -> CpuGroup:
        proc = tmp_path / "proc"
        (proc / "7").mkdir(parents=True)
        (proc / "7/cgroup").write_text(groups)
        (proc / "mountinfo").write_text(mounts)
        monkeypatch.setattr(cgroups, "PROC", proc)
        monkeypatch.setattr(cgroups, "MOUNTS", proc / "mountinfo")
        cgroups.mount.cache_clear()
        try:
            return cgroups.cpu_group(7)
        finally:
            cgroups.mount.cache_clear()

    return show


@pytest.mark.parametrize(
    ("mounts", "groups", "path", "is_unified"),
    [
        (
            V1,
            "4:cpu,cpuacct:/machine/a/vcpu0\n",
            "/sys/fs/cgroup/cpu,cpuacct/machine/a/vcpu0",
            False,
        ),
        (
            HYBRID + V1,
            "4:cpuacct,cpu:/machine/a/vcpu0\n0::/\n",
            "/sys/fs/cgroup/cpu,cpuacct/machine/a/vcpu0",
            False,
        ),
        (UNIFIED, f"0::{SCOPE}\n", f"/sys/fs/cgroup{SCOPE}", True),
        # Only a part of the hierarchy is mounted: a container, or a virtual host.
        (
            V1.replace(" / ", " /host/1 "),
            "4:cpu:/host/1/a/vcpu0\n",
            "/sys/fs/cgroup/cpu,cpuacct/a/vcpu0",
            False,
        ),
        (UNIFIED.replace(" / ", " /.. "), "0::/../a/vcpu0\n", "/sys/fs/cgroup/a/vcpu0", True),
    ],
)
def test_the_path_of_a_vcpus_group(seen, mounts, groups, path, is_unified):
    assert seen(mounts, groups) == CpuGroup(path, is_unified)


@pytest.mark.parametrize(
    ("mounts", "groups", "why"),
    [
        # cgroup_controllers = []
        (UNIFIED, "0::/system.slice/libvirtd.service\n", "in /system.slice/libvirtd.service,"),
        (V1, "4:cpu:/\n", "in /,"),
        (V1, "5:memory:/machine/a/vcpu0\n", "in no cgroup,"),
        ("", "0::/a/vcpu0\n", "no cgroup hierarchy"),
    ],
)
def test_a_group_that_is_not_a_vcpus_own_is_none(seen, mounts, groups, why):
    with pytest.raises(NoCpuGroup, match=why):
        seen(mounts, groups)


def test_a_thread_that_ended(seen):
    with pytest.raises(NoCpuGroup, match="thread 7 is in no cgroup"):
        seen(UNIFIED, "")
    with pytest.raises(ProcessLookupError, match="no thread 8"):
        cgroups.cpu_group(8)


@pytest.mark.parametrize(
    ("vcpu", "machine"),
    [
        (SCOPE, SCOPE.removesuffix("/libvirt/vcpu1")),
        (SCOPE.replace("/libvirt/", "/"), SCOPE.removesuffix("/libvirt/vcpu1")),
        ("/machine/qemu-1-a.libvirt-qemu/vcpu0", "/machine/qemu-1-a.libvirt-qemu"),
        # A partition of the operator's (<resource>).
        ("/machine/libvirt.partition/qemu-1-a.libvirt-qemu/vcpu0",) * 2,
    ],
)
def test_the_group_of_the_whole_machine(vcpu, machine):
    expected = CpuGroup(machine.removesuffix("/vcpu0"), True)
    assert machine_group(CpuGroup(vcpu, True)) == expected


@pytest.mark.parametrize(("is_unified", "name"), [(True, "cpu.weight"), (False, "cpu.shares")])
def test_the_weight_has_a_file_for_each_version(tmp_path, is_unified, name):
    (tmp_path / name).write_text("300\n")
    assert read_weight(CpuGroup(str(tmp_path), is_unified)) == 300
    with pytest.raises(ProcessLookupError):
        read_weight(CpuGroup(str(tmp_path), not is_unified))


@pytest.mark.parametrize(
    ("text", "quota"), [("max 100000\n", (-1, 100_000)), ("20000 25000\n", (20_000, 25_000))]
)
def test_the_unified_file(tmp_path, text, quota):
    (tmp_path / "cpu.max").write_text(text)
    assert read_quota(CpuGroup(str(tmp_path), is_unified=True)) == quota
    with pytest.raises(ProcessLookupError):
        read_quota(CpuGroup(str(tmp_path / "gone"), is_unified=True))


QUOTAS = [(-1, 100_000), (-1, 50_000), (50_000, 100_000), (10_000, 30_000), (90_000, 90_000)]


@pytest.mark.parametrize("before", QUOTAS)
@pytest.mark.parametrize("after", QUOTAS)
def test_it_is_never_looser_in_between_than_before_or_after(before, after):
    def limit(quota_us, period_us):
        return float("inf") if quota_us < 0 else quota_us / period_us

    now = dict(zip(("quota", "period"), before, strict=True))
    for name in writing_order(before, after):
        now[name] = dict(zip(("quota", "period"), after, strict=True))[name]
        assert limit(**{f"{n}_us": v for n, v in now.items()}) <= max(limit(*before), limit(*after))
    assert tuple(now.values()) == after
