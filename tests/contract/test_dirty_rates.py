# SPDX-License-Identifier: Apache-2.0
"""How fast guests write their memory, as real QEMU and libvirt tell it."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.domain_xml import a_domain, write_halting, write_scribbling
from tests.libvirt_host import LibvirtHost
from vp_agent.drivers import dirty_rates
from vp_agent.drivers.dirty_rates import LibvirtDirtyRates

MEMORY_MIB = 128
"""QEMU takes no samples of less."""


@pytest.fixture
def rates(libvirt_host: LibvirtHost) -> Iterator[LibvirtDirtyRates]:
    with closing(LibvirtDirtyRates(libvirt_host.uri)) as rates:
        yield rates


@pytest.fixture
def quiet(libvirt_host: LibvirtHost, tmp_path: Path) -> str:
    """It halts, and writes nothing."""
    firmware = write_halting(tmp_path / "halting.bin")
    xml = a_domain("instance-quiet", memory_mib=MEMORY_MIB, firmware=firmware)
    return libvirt_host.boot(xml).UUIDString()


def test_a_guest_that_halts_writes_nothing_and_one_that_is_gone_is_left_out(
    rates: LibvirtDirtyRates, quiet: str
) -> None:
    gone = "99999999-9999-4999-8999-999999999999"
    assert rates.measure([quiet, gone], threading.Event()) == {quiet: 0.0}
    assert rates.measure([quiet], threading.Event()) == {quiet: 0.0}, "and once more"


def test_a_guest_that_writes_all_its_memory_is_told_in_kib(
    rates: LibvirtDirtyRates, libvirt_host: LibvirtHost, tmp_path: Path
) -> None:
    firmware = write_scribbling(tmp_path / "scribbling.bin", MEMORY_MIB)
    xml = a_domain("instance-busy", vcpus=1, memory_mib=MEMORY_MIB, firmware=firmware)
    busy = libvirt_host.boot(xml).UUIDString()
    all_kib = MEMORY_MIB * 1024
    assert all_kib / 8 < rates.measure([busy], threading.Event())[busy] <= all_kib, "in a second"


def test_nobody_waits_for_it_when_the_agent_stops(rates: LibvirtDirtyRates, quiet: str) -> None:
    stop = threading.Event()
    stop.set()
    assert rates.measure([quiet], stop) == {}


def test_without_libvirt_nothing_is_known(tmp_path: Path) -> None:
    with closing(LibvirtDirtyRates(f"qemu+unix:///system?socket={tmp_path}/nobody")) as rates:
        assert rates.measure(["99999999-9999-4999-8999-999999999999"], threading.Event()) == {}


def test_what_qemu_never_finishes_is_left_out(
    rates: LibvirtDirtyRates,
    quiet: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dirty_rates, "WITHIN_S", 0.25)
    assert rates.measure([quiet], threading.Event()) == {}
