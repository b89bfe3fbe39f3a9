# SPDX-License-Identifier: Apache-2.0
"""The lab for end-to-end tests: brought up once, left as it was found, cleared between modules."""

import gc
import subprocess
import warnings

import pytest

from testbed.lab import cloud, settings
from tests.lab.hosts import HOSTS, set_mode

LAB = str(settings.LAB / "lab")


@pytest.fixture(scope="session")
def lab_up():
    """Two hosts. Taken down at the end only if these tests brought it up."""
    was_up = bool(cloud.hosts())
    subprocess.run([LAB, "up"], check=True)
    yield
    if not was_up:
        subprocess.run([LAB, "down"], check=True)


@pytest.fixture(scope="session")
def admin(lab_up):
    connection = cloud.connect()
    yield connection
    connection.session.session.close()


@pytest.fixture(autouse=True, scope="module")
def cleared(admin):
    """No servers, every agent running in mode advise (it places newcomers), before each module."""
    cloud.delete(admin, *admin.compute.servers(all_projects=True))
    for host in HOSTS:
        set_mode(host, "advise")
    yield
    cloud.delete(admin, *admin.compute.servers(all_projects=True))


def pytest_collection_modifyitems(items):
    """openstacksdk warns about its own calls to itself."""
    for item in items:
        if "tests/lab/" in str(item.path):
            for kind in ("OpenStackDeprecationWarning", "_RemovedInSDKWarning"):
                ignored = f"ignore::openstack.warnings.{kind}"
                item.add_marker(pytest.mark.filterwarnings(ignored))


def pytest_unconfigure() -> None:
    """openstacksdk leaves its sockets to the garbage collector, which warns; here, where that is
    no error that ends a run in which everything passed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()
