# SPDX-License-Identifier: Apache-2.0
"""Limits in files that stay open: each look reads what the kernel says then."""

from pathlib import Path

import pytest

from vp_agent.drivers.cgroups import CpuGroup
from vp_agent.drivers.group_files import QuotaFiles, WeightFile
from vp_agent.drivers.kernel_file import Room


def a_group(path: Path, *, is_unified: bool) -> CpuGroup:
    path.mkdir()
    return CpuGroup(str(path), is_unified)


@pytest.mark.parametrize("room", [Room(10), Room(1)])
def test_quotas_are_those_of_now(tmp_path, room):
    first = a_group(tmp_path / "vcpu0", is_unified=False)
    second = a_group(tmp_path / "vcpu1", is_unified=True)
    (tmp_path / "vcpu0/cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "vcpu0/cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "vcpu1/cpu.max").write_text("max 100000\n")
    files = QuotaFiles([first, second], room)
    assert files.read() == ((-1, 100_000), (-1, 100_000))
    (tmp_path / "vcpu0/cpu.cfs_quota_us").write_text("5000\n")
    (tmp_path / "vcpu0/cpu.cfs_period_us").write_text("20000\n")
    (tmp_path / "vcpu1/cpu.max").write_text("7000 9000\n")
    assert files.read() == ((5000, 20_000), (7000, 9000))
    files.close()
    (tmp_path / "vcpu1/cpu.max").write_text("max 9000\n")
    assert files.read() == ((5000, 20_000), (-1, 9000))


@pytest.mark.parametrize(("is_unified", "name"), [(False, "cpu.shares"), (True, "cpu.weight")])
def test_a_weight_is_that_of_now(tmp_path, is_unified, name):
    file = WeightFile(a_group(tmp_path / "machine", is_unified=is_unified), Room(1))
    (tmp_path / "machine" / name).write_text("1024\n")
    assert file.read() == 1024
    (tmp_path / "machine" / name).write_text("200\n")
    assert file.read() == 200


def test_descriptors_are_given_back(tmp_path):
    room = Room(3)
    groups = [a_group(tmp_path / f"vcpu{n}", is_unified=True) for n in range(2)]
    for group in groups:
        Path(group.path, "cpu.max").write_text("max 100000\n")
    files = QuotaFiles(groups, room)
    files.read()
    assert room.left == 1
    files.close()
    assert room.left == 3


def test_where_nothing_is_limited_there_is_nothing_to_read():
    assert not QuotaFiles([], Room(1))


def test_a_group_that_went_tells_that_its_guest_has_ended(tmp_path):
    gone = a_group(tmp_path / "vcpu0", is_unified=True)
    for files in (QuotaFiles([gone], Room(1)), WeightFile(gone, Room(1))):
        with pytest.raises(ProcessLookupError, match="vcpu0"):
            files.read()
