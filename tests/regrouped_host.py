# SPDX-License-Identifier: Apache-2.0
"""Real guests in groups as other hosts have them: a scope of systemd's, or cgroup version 2.

The machine that runs the tests has one version of cgroups and mostly no systemd. The guests' vCPU
threads are put into groups made here: real ones of version 1, or files on disk that the drivers see
in the place of version 2's. libvirt goes on with its own groups: only weights can be tried.
"""

import contextlib
import os
from pathlib import Path
from typing import Protocol

from nova_vp.core.types.knob import CpuWeight, WeightUnit
from tests import systemd_manager
from tests.host_subjects import LibvirtSubject
from tests.libvirt_host import LibvirtHost
from tests.systemd_manager import SystemdManager
from tests.waiting import wait_until

CPU_HIERARCHY = Path("/sys/fs/cgroup/cpu")
SCOPE = r"machine-qemu\x2d{number}\x2d{name}.scope"
OF_OTHER_THREADS = ("emulator", "iothread1")
PLAIN = "qemu-{number}-{name}.libvirt-qemu"


class Groups(systemd_manager.Groups, Protocol):
    unit: WeightUnit

    def make(self, machine: Path, tids: tuple[int, ...], weight: int | None) -> None:
        """`weight`: what libvirt was told; None: nothing."""

    def remove(self, machine: Path) -> None: ...
    def read(self, machine: Path) -> int: ...


class RealV1:
    """In the kernel's own hierarchy, beside those of the private libvirtd."""

    unit = WeightUnit.SHARES
    property_name = "CPUShares"

    def __init__(self, name: str) -> None:
        self._root = CPU_HIERARCHY / f"{name}-regrouped"
        self.slices = self._root / "machine.slice"

    def make(self, machine: Path, tids: tuple[int, ...], weight: int | None) -> None:
        for number, tid in enumerate(tids):
            group = machine / "libvirt" / f"vcpu{number}"
            group.mkdir(parents=True)
            (group / "tasks").write_text(str(tid))
        for name in OF_OTHER_THREADS:
            (machine / "libvirt" / name).mkdir()
        if weight:
            self.write(machine, weight)

    def remove(self, machine: Path) -> None:
        """Once its threads have ended."""
        for folder, _, _ in os.walk(machine, topdown=False):
            wait_until(lambda folder=folder: _is_removed(folder), "its threads are gone")
        for empty in (self.slices, self._root):
            _is_removed(empty)

    def read(self, machine: Path) -> int:
        return int((machine / "cpu.shares").read_text())

    def write(self, scope: Path, number: int) -> None:
        (scope / "cpu.shares").write_text(str(number))


def _is_removed(folder: str | Path) -> bool:
    with contextlib.suppress(OSError):
        os.rmdir(folder)
    return not os.path.exists(folder)


class V2Tree:
    """On disk: no kernel behind it, so a file holds whatever is written."""

    unit = WeightUnit.WEIGHT
    property_name = "CPUWeight"

    def __init__(self, folder: Path) -> None:
        self.proc = folder / "proc"
        self.mounts = self.proc / "mountinfo"
        self._root = folder / "cgroup"
        self.slices = self._root / "machine.slice"
        self.proc.mkdir(parents=True)
        self.mounts.write_text(f"41 31 0:38 / {self._root} rw - cgroup2 cgroup2 rw\n")

    def make(self, machine: Path, tids: tuple[int, ...], weight: int | None) -> None:
        for number, tid in enumerate(tids):
            group = machine / "libvirt" / f"vcpu{number}"
            group.mkdir(parents=True)
            (group / "cpu.max").write_text("max 100000\n")
            (self.proc / str(tid)).mkdir()
            (self.proc / str(tid) / "cgroup").write_text(f"0::/{group.relative_to(self._root)}\n")
        for name in OF_OTHER_THREADS:
            (machine / "libvirt" / name).mkdir()
            self.write(machine / "libvirt" / name, 100)
        self.write(machine, weight or 100)

    def remove(self, machine: Path) -> None:
        for folder, _, files in os.walk(machine, topdown=False):
            for name in files:
                os.unlink(f"{folder}/{name}")
            os.rmdir(folder)

    def read(self, machine: Path) -> int:
        return int((machine / "cpu.weight").read_text())

    def write(self, scope: Path, number: int) -> None:
        """Never half: a reader sees the old number or the new one, as the kernel has it. And in
        place: who keeps the kernel's file open sees what is written to it."""
        fd = os.open(scope / "cpu.weight", os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(fd, f"{number:<5}\n".encode(), 0)
        finally:
            os.close(fd)


class RegroupedSubject(LibvirtSubject):
    """`systemd` manages the machines' groups, or nobody does."""

    def __init__(self, host: LibvirtHost, groups: Groups, systemd: SystemdManager | None) -> None:
        self._groups = groups
        self.systemd = systemd
        self._machines: dict[str, Path] = {}
        self._starts = 0
        super().__init__(host, "kernel")

    def boot(self, *, shares: int | None = None, **about: object) -> str:  # type: ignore[override]
        uuid = super().boot(shares=shares, **about)  # type: ignore[arg-type]
        self._regroup(uuid, shares)
        return uuid

    def end(self, uuid: str) -> None:
        super().end(uuid)
        self._leave(uuid)

    def soft_reboot(self, uuid: str) -> None:
        told = self.domains.find(uuid).description.flavor_shares
        super().end(uuid)
        self._leave(uuid)
        self.domain(uuid).create()
        self._regroup(uuid, told)

    def weight(self, uuid: str) -> CpuWeight:
        return CpuWeight(self._groups.read(self._machines[uuid]), self._groups.unit)

    def weigh_by_hand(self, uuid: str, number: int) -> None:
        self._groups.write(self._machines[uuid], number)

    def reload_host(self) -> None:
        if self.systemd:
            self.systemd.daemon_reload()

    def clean_up(self) -> None:
        """Ends every guest and removes its groups."""
        self.close()
        self.host.destroy_all()
        for uuid in tuple(self._machines):
            self._leave(uuid)

    def _regroup(self, uuid: str, told: int | None) -> None:
        self._starts += 1
        shape = SCOPE if self.systemd else PLAIN
        machine = self._groups.slices / shape.format(number=self._starts, name=self._names[uuid])
        self._groups.make(machine, self.tids(uuid), told)
        self._machines[uuid] = machine
        if self.systemd:
            number = self.weight(uuid).number
            self.systemd.start_scope(machine.name, self._groups.property_name, number)

    def _leave(self, uuid: str) -> None:
        machine = self._machines.pop(uuid)
        self._groups.remove(machine)
        if self.systemd:
            self.systemd.stop_scope(machine.name)
