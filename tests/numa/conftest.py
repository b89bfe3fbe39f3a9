# SPDX-License-Identifier: Apache-2.0
"""What runs inside the NUMA lab: `testbed/numa/numa-lab run -- python -m pytest tests/numa`.

Outside of it only the tests of `numa-lab` itself are collected: no other machine here has four
nodes and unified cgroups.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.libvirt_host import LibvirtHost
from tests.numa.writer import WriterGuest

OUTSIDE = "test_numa_lab.py"
is_inside = "NUMA_LAB" in os.environ
collect_ignore = [
    path.name
    for path in Path(__file__).parent.glob("test_*.py")
    if is_inside == (path.name == OUTSIDE)
]


@pytest.fixture(scope="session")
def numa_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibvirtHost]:
    """A libvirtd for all tests. Whoever boots guests destroys them."""
    host = LibvirtHost(tmp_path_factory.mktemp("libvirt"))
    try:
        yield host.start()
    finally:
        host.stop()


@pytest.fixture
def writer(numa_host: LibvirtHost) -> Iterator[WriterGuest]:
    """Not booted yet."""
    yield WriterGuest(numa_host)
    numa_host.destroy_all()
