# SPDX-License-Identifier: Apache-2.0
"""What runs inside the machine with systemd and unified cgroups: `make cgroup2-test`.

Outside of it nothing here is collected: it changes users, units and libvirt of the machine.
"""

import os
from collections.abc import Iterator

import pytest

from tests.system_libvirt import IS_HERE, SystemLibvirt

collect_ignore_glob = [] if IS_HERE in os.environ else ["test_*.py"]


@pytest.fixture(scope="session")
def machine_libvirt() -> SystemLibvirt:
    return SystemLibvirt().start()


@pytest.fixture
def libvirt_host(machine_libvirt: SystemLibvirt) -> Iterator[SystemLibvirt]:
    """Its guests end with the test."""
    yield machine_libvirt
    machine_libvirt.destroy_all()
