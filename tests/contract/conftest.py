# SPDX-License-Identifier: Apache-2.0
"""The private libvirtd that contract tests share (one per run, emptied after each test), and the
hosts that the suites of guests, journal and actuators run on."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import vp_agent
from tests.host_subjects import FakeSubject, LibvirtSubject, Subject
from tests.libvirt_host import LibvirtHost, missing_for_libvirt
from tests.perf_shim import PerfShim
from tests.regrouped_host import CPU_HIERARCHY, RealV1, RegroupedSubject, V2Tree
from tests.system_libvirt import IS_HERE, SystemLibvirt
from tests.systemd_manager import SystemdManager
from vp_agent.drivers import cgroups, systemd_scopes

HOOK = Path(vp_agent.__file__).parent / "hooks/qemu.d/nova-vp"


@pytest.fixture(scope="session")
def shared_libvirt_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibvirtHost]:
    missing = missing_for_libvirt()
    if missing:
        pytest.skip(missing)
    is_system = IS_HERE in os.environ
    host = SystemLibvirt() if is_system else LibvirtHost(tmp_path_factory.mktemp("libvirt"))
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


REGROUPED = ["scope, version 1", "plain, version 2", "scope, version 2"]


@pytest.fixture(params=["fake", "kernel", "libvirt", *REGROUPED])
def weighing(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Subject]:
    """One host whose weights can be turned: as `subject`, or in groups as other hosts have them."""
    if request.param == "fake":
        yield FakeSubject()
        return
    host = request.getfixturevalue("libvirt_host")
    if request.param not in REGROUPED:
        real = LibvirtSubject(host, request.param)
        yield real
        real.close()
        return
    kind, version = request.param.split(", ")
    with contextlib.ExitStack() as stack:
        groups: RealV1 | V2Tree
        if version == "version 1":
            if not (CPU_HIERARCHY / "tasks").exists():
                pytest.skip("this machine has cgroup version 2")
            groups = RealV1(host.name)
        else:
            groups = V2Tree(tmp_path)
            stack.callback(cgroups.mount.cache_clear)
            monkeypatch.setattr(cgroups, "PROC", groups.proc)
            monkeypatch.setattr(cgroups, "MOUNTS", groups.mounts)
            cgroups.mount.cache_clear()
        systemd = None
        if kind == "scope":
            systemd = stack.enter_context(SystemdManager(tmp_path, groups))
            monkeypatch.setattr(systemd_scopes, "BOOTED", systemd.booted)
            monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", systemd.address)
        regrouped = RegroupedSubject(host, groups, systemd)
        stack.callback(regrouped.clean_up)
        yield regrouped


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


@pytest.fixture(scope="session")
def second_host(
    shared_libvirt_host: LibvirtHost, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LibvirtHost]:
    host = LibvirtHost(tmp_path_factory.mktemp("destination"), migration_port=49300)
    try:
        yield host.start()
    finally:
        host.stop()


@pytest.fixture
def destination(second_host: LibvirtHost) -> Iterator[LibvirtHost]:
    yield second_host
    second_host.destroy_all()


@pytest.fixture(params=["with hook", "without hook"])
def has_hook(request, destination: LibvirtHost) -> Iterator[bool]:
    """libvirtd notices a hook that is added to an existing folder only when it starts."""
    installed = destination.folder / "etc/hooks/qemu.d/nova-vp"
    if request.param == "without hook":
        yield False
        return
    installed.parent.mkdir(exist_ok=True)
    shutil.copy(HOOK, installed)
    destination.stop_libvirtd()
    destination.start_libvirtd()
    yield True
    installed.unlink()
