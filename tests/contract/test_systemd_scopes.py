# SPDX-License-Identifier: Apache-2.0
"""Asking systemd for the weight of a scope: what it refuses, and a bus that does not answer.

That it sets weights is part of the contract of actuators (`test_actuator.py`).
"""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.host_subjects import weigh
from tests.regrouped_host import V2Tree
from tests.systemd_manager import SystemdManager
from vp_agent.drivers import cgroups, systemd_scopes, vcpu_threads
from vp_agent.drivers.base import ApplyFailed
from vp_agent.drivers.cgroups import CpuGroup
from vp_agent.drivers.systemd_scopes import set_weight, unit_of

UNIT = r"machine-qemu\x2d1\x2da.scope"


class Machine:
    """This very process, as if it were QEMU with one vCPU in a scope."""

    def __init__(self, folder: Path) -> None:
        self.tree = V2Tree(folder)
        self.process = vcpu_threads.read_process(os.getpid())
        self.tree.make(self.tree.slices / UNIT, (self.process.pid,), 100)

    def ask(self, number: int = 200, started: int | None = None) -> None:
        set_weight(self.process.pid, started or self.process.started, number)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    made = Machine(tmp_path)
    monkeypatch.setattr(cgroups, "PROC", made.tree.proc)
    monkeypatch.setattr(cgroups, "MOUNTS", made.tree.mounts)
    monkeypatch.setattr(cgroups, "read_tids", lambda pid: (pid,))
    monkeypatch.setattr(systemd_scopes, "BOOTED", tmp_path)
    cgroups.mount.cache_clear()
    yield made
    cgroups.mount.cache_clear()


@pytest.fixture
def systemd(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SystemdManager]:
    with SystemdManager(tmp_path, machine.tree) as manager:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", manager.address)
        yield manager


def test_a_scope_that_systemd_does_not_know_has_ended(machine, systemd):
    with pytest.raises(ProcessLookupError, match="not found"):
        machine.ask()


def test_another_process_by_now_is_not_touched(machine, systemd):
    systemd.start_scope(UNIT, "CPUWeight", 100)
    with pytest.raises(ProcessLookupError):
        machine.ask(started=1)


def test_who_may_not_is_told_in_systemds_words(machine, systemd):
    systemd.start_scope(UNIT, "CPUWeight", 100)
    systemd.master_uid = 12345
    with pytest.raises(PermissionError, match="Access denied"):
        machine.ask()


def test_what_systemd_refuses_is_told_in_its_words(machine, systemd):
    systemd.start_scope(UNIT, "CPUWeight", 100)
    with pytest.raises(OSError, match="CPUWeight=0") as refused:
        machine.ask(0)
    assert not isinstance(refused.value, PermissionError | ProcessLookupError)


@pytest.mark.parametrize("weighing", ["scope, version 2"], indirect=True)
def test_a_refusal_changes_nothing_and_says_what_helps(weighing):
    uuid = weighing.boot()
    before = weighing.weight(uuid)
    weighing.systemd.master_uid = 12345
    with pytest.raises(ApplyFailed, match=r"machine-qemu.*polkit rule"):
        weigh(weighing.actuator, uuid, before._replace(number=200))
    assert weighing.weight(uuid) == before


@pytest.mark.parametrize("weighing", ["scope, version 2"], indirect=True)
def test_a_bus_that_is_not_there_is_no_matter_of_rights(weighing, tmp_path, monkeypatch):
    uuid = weighing.boot()
    before = weighing.weight(uuid)
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path}/nowhere")
    with pytest.raises(ApplyFailed, match="system bus does not answer") as refused:
        weigh(weighing.actuator, uuid, before._replace(number=200))
    assert "polkit" not in str(refused.value)
    assert weighing.weight(uuid) == before


def test_a_bus_that_is_not_there(machine, tmp_path, monkeypatch):
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path}/nowhere")
    with pytest.raises(OSError, match="the system bus does not answer"):
        machine.ask()


def silent_after(greeting: bool, path: Path) -> socket.socket:
    """A bus that hangs at once, or once it has let the caller in."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def serve() -> None:
        try:
            accepted, _ = listening.accept()
        except OSError:
            return
        with accepted:
            while said := accepted.recv(4096):
                if greeting and b"AUTH" in said:
                    accepted.sendall(b"OK 1234deadbeef\r\n")

    threading.Thread(target=serve).start()
    return listening


@pytest.mark.parametrize("greeting", [True, False])
def test_a_bus_that_hangs_does_not_hold_up_the_agent(machine, tmp_path, monkeypatch, greeting):
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path}/hung")
    monkeypatch.setattr(systemd_scopes, "DEADLINE_S", 0.05)
    silent = pytest.raises(TimeoutError, match=r"the system bus does not answer: .+")
    with silent_after(greeting, tmp_path / "hung"), silent:
        machine.ask()


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        (f"/sys/fs/cgroup/machine.slice/{UNIT}", UNIT),
        ("/sys/fs/cgroup/machine/qemu-1-a.libvirt-qemu", None),
        ("/sys/fs/cgroup/system.slice/libvirtd.service", None),
    ],
)
def test_the_scope_is_systemds_where_systemd_runs(path, unit, tmp_path, monkeypatch):
    monkeypatch.setattr(systemd_scopes, "BOOTED", tmp_path)
    assert unit_of(CpuGroup(path, is_unified=True)) == unit
    monkeypatch.setattr(systemd_scopes, "BOOTED", tmp_path / "nowhere")
    assert unit_of(CpuGroup(path, is_unified=True)) is None
