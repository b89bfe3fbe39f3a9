# SPDX-License-Identifier: Apache-2.0
"""The private libvirtd that contract tests share (one per run, emptied after each test), and the
hosts that the suites of guests, journal and actuators run on."""

from collections.abc import Iterator

import pytest

from tests.host_subjects import FakeSubject, LibvirtSubject, Subject
from tests.libvirt_host import LibvirtHost, missing_for_libvirt
from tests.perf_shim import PerfShim


@pytest.fixture(scope="session")
def shared_libvirt_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibvirtHost]:
    missing = missing_for_libvirt()
    if missing:
        pytest.skip(missing)
    host = LibvirtHost(tmp_path_factory.mktemp("libvirt"))
    try:
        yield host.start()
    finally:
        host.stop()


@pytest.fixture
def libvirt_host(shared_libvirt_host: LibvirtHost) -> Iterator[LibvirtHost]:
    yield shared_libvirt_host
    if not shared_libvirt_host.is_answering():
        shared_libvirt_host.start_libvirtd()
    shared_libvirt_host.destroy_all()


@pytest.fixture(params=["fake", "kernel", "libvirt"])
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    """One host: in memory, or real with either actuator."""
    if request.param == "fake":
        yield FakeSubject()
        return
    real = LibvirtSubject(request.getfixturevalue("libvirt_host"), request.param)
    yield real
    real.close()


@pytest.fixture
def libvirt_subject(libvirt_host: LibvirtHost) -> Iterator[LibvirtSubject]:
    """A real host with the default actuator."""
    real = LibvirtSubject(libvirt_host)
    yield real
    real.close()


@pytest.fixture(scope="session")
def perf_shim(tmp_path_factory: pytest.TempPathFactory) -> PerfShim:
    return PerfShim(tmp_path_factory.mktemp("perf-shim"))


@pytest.fixture(scope="session")
def counting_libvirt_host(
    tmp_path_factory: pytest.TempPathFactory, perf_shim: PerfShim
) -> Iterator[LibvirtHost]:
    """A libvirtd that believes in the shim's PMU. Whoever boots guests destroys them."""
    missing = missing_for_libvirt()
    if missing:
        pytest.skip(missing)
    host = LibvirtHost(tmp_path_factory.mktemp("counting-libvirt"), env=perf_shim.env)
    try:
        yield host.start()
    finally:
        host.stop()
