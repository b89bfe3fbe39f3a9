# SPDX-License-Identifier: Apache-2.0
"""The private libvirtd that contract tests share: one per run, emptied after each test."""

from collections.abc import Iterator

import pytest

from tests.libvirt_host import LibvirtHost, missing_for_libvirt


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
    shared_libvirt_host.destroy_all()
