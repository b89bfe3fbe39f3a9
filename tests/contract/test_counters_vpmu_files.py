# SPDX-License-Identifier: Apache-2.0
"""What the vpmu source makes of files that are not what they should be, and of the layout."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.counter_subjects import new_threads
from tests.descriptors import own_fds
from tests.vpmu_file import (
    CONTROLLER_MAGIC,
    CONTROLLER_OFFSETS,
    HEADER_BYTES,
    HEADER_OFFSETS,
    MAGIC,
    SLOT_BYTES,
    SLOT_OFFSETS,
    VpmuFile,
)
from vp_agent.drivers.base import CountersUnavailable
from vp_agent.drivers.counters import CounterSettings
from vp_agent.drivers.counters_fake import VcpuCounts
from vp_agent.drivers.counters_vpmu import VpmuCounters

VPMU = Path(__file__).parents[2] / "testbed/vpmu"


Make = Callable[..., VpmuFile]


@pytest.fixture
def qemu() -> Iterator[Make]:
    """Makes counter files whose QEMU lives until the end of the test."""
    made: list[VpmuFile] = []

    def make(*args: Any, **header: int) -> VpmuFile:
        made.append(VpmuFile(*args, **header))
        return made[-1]

    yield make
    for file in made:
        file.die()


def open_vpmu(folder: Path) -> VpmuCounters:
    return VpmuCounters(CounterSettings(connect=lambda: None, vpmu_directory=folder))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda path, _: None, "No such file", id="none"),
        pytest.param(lambda path, _: path.touch(), "no complete header", id="empty"),
        pytest.param(lambda path, _: path.write_bytes(b"VPMU"), "no complete header", id="short"),
        pytest.param(lambda path, _: path.write_text("x" * 9999), "not a vpmu file", id="foreign"),
        pytest.param(lambda path, _: path.mkdir(), "not a regular file", id="folder"),
        pytest.param(lambda path, _: os.mkfifo(path), "not a regular file", id="fifo"),
        pytest.param(lambda path, _: path.symlink_to("/etc/passwd"), "cannot open", id="link"),
        pytest.param(lambda path, qemu: qemu(path, 2, magic=0), "half-made", id="half-made"),
        pytest.param(lambda path, qemu: qemu(path, 2, version=2), "version 2", id="newer"),
        pytest.param(lambda path, qemu: qemu(path, 2, slot_bytes=64), "layout", id="other-slots"),
        pytest.param(lambda path, qemu: qemu(path, 2, vcpu_count=0), "damaged", id="no-vcpus"),
        pytest.param(lambda path, qemu: qemu(path, 2, vcpu_count=2**31), "damaged", id="too-many"),
        pytest.param(lambda path, qemu: qemu(path, 2, vcpu_count=3), "truncated", id="slot-lacks"),
        pytest.param(
            lambda path, qemu: qemu(path, 2, header_bytes=2**32 - 1), "truncated", id="far-slots"
        ),
    ],
)
def test_a_bad_file_costs_only_its_own_guest(
    tmp_path: Path, qemu: Make, make: Callable[[Path, Make], object], words: str
) -> None:
    bad, good = new_threads(2), new_threads(2)
    make(tmp_path / f"vm.{bad.domain_name}", qemu)
    qemu(tmp_path / f"vm.{good.domain_name}", 2)
    counters = open_vpmu(tmp_path)
    at_rest = own_fds(tmp_path)
    assert set(counters.read([bad, good])) == {good.guest_uuid}
    assert words in counters.problems()[bad.guest_uuid]
    counters.close()
    assert own_fds(tmp_path) == at_rest


def test_a_file_truncated_under_us_is_told_and_read_again_when_whole(
    tmp_path: Path, qemu: Make
) -> None:
    guest = new_threads(1)
    path = tmp_path / f"vm.{guest.domain_name}"
    qemu(path, 1, started_ns=1)
    counters = open_vpmu(tmp_path)
    first = counters.read([guest])[guest.guest_uuid]
    os.truncate(path, HEADER_BYTES)
    assert counters.read([guest]) == {}
    assert "truncated" in counters.problems()[guest.guest_uuid]
    qemu(path, 1, started_ns=2)
    assert counters.read([guest])[guest.guest_uuid].generation != first.generation
    assert counters.problems() == {}
    counters.close()


def test_what_a_killed_qemu_left_is_not_taken_for_an_idle_guest(tmp_path: Path, qemu: Make) -> None:
    guest = new_threads(1)
    path = tmp_path / f"vm.{guest.domain_name}"
    life = qemu(path, 1)
    life.add(0, VcpuCounts(instructions=7))
    counters = open_vpmu(tmp_path)
    for _ in range(3):
        assert counters.read([guest])[guest.guest_uuid].instructions == 7, "idle, but alive"
    life.die()
    for source in (counters, open_vpmu(tmp_path)):
        assert source.read([guest]) == {}
        assert "from an earlier start" in source.problems()[guest.guest_uuid]
    (tmp_path / f"error.{guest.domain_name}").write_text("bad option in this life")
    assert counters.read([guest]) == {}
    assert "bad option in this life" in counters.problems()[guest.guest_uuid]


def test_a_new_start_is_read_once_the_file_of_the_earlier_one_stands_still(
    tmp_path: Path, qemu: Make
) -> None:
    """Whose file still counts is not looked for anew."""
    guest = new_threads(1)
    path = tmp_path / f"vm.{guest.domain_name}"
    earlier = qemu(path, 1, started_ns=1)
    counters = open_vpmu(tmp_path)
    first = counters.read([guest])[guest.guest_uuid]
    earlier.add(0, VcpuCounts(instructions=7))
    earlier.die()
    path.unlink()
    qemu(path, 1, started_ns=2).add(0, VcpuCounts(instructions=3))
    last = counters.read([guest])[guest.guest_uuid]
    assert (last.generation, last.instructions) == (first.generation, 7)
    now = counters.read([guest])[guest.guest_uuid]
    assert (now.generation != first.generation, now.instructions) == (True, 3)
    counters.close()


def test_the_plugins_own_reason_is_passed_on(tmp_path: Path) -> None:
    guest = new_threads(1)
    (tmp_path / f"error.{guest.domain_name}").write_text("llc_kib=7\nis no power of two\n" * 100)
    counters = open_vpmu(tmp_path)
    assert counters.read([guest]) == {}
    text = counters.problems()[guest.guest_uuid]
    assert "the plugin refused this server: llc_kib=7 is no power of two" in text
    assert len(text) < 600


def test_without_the_folder_there_is_no_source(tmp_path: Path) -> None:
    with pytest.raises(CountersUnavailable, match="only on test hosts"):
        open_vpmu(tmp_path / "none")


def test_the_layout_our_files_are_written_in_is_the_compilers() -> None:
    subprocess.run(["make", "-s", "-C", VPMU, "vpmu"], check=True, stdout=subprocess.PIPE)
    printed = subprocess.run(
        [VPMU / "vpmu", "layout", "--json"], check=True, capture_output=True, text=True
    )
    layout = json.loads(printed.stdout)
    header, slot = layout["vm"]["fields"], layout["slot"]["fields"]
    assert (layout["version"], layout["magic"]["vm"], layout["max_vcpus"]) == (1, MAGIC, 64)
    assert (layout["vm"]["bytes"], layout["slot"]["bytes"]) == (HEADER_BYTES, SLOT_BYTES)
    assert {name: header[name]["offset"] for name in HEADER_OFFSETS} == HEADER_OFFSETS
    assert {name: slot[name]["offset"] for name in SLOT_OFFSETS} == SLOT_OFFSETS
    assert {slot[name]["bytes"] for name in SLOT_OFFSETS} == {8}
    controller = layout["mc"]["fields"]
    assert layout["magic"]["mc"] == CONTROLLER_MAGIC
    assert {name: controller[name]["offset"] for name in CONTROLLER_OFFSETS} == CONTROLLER_OFFSETS
