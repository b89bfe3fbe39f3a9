# SPDX-License-Identifier: Apache-2.0
"""The cgroups of a machine, of version 1 or 2: where they are, the CPU quota of each vCPU's, and
the CPU weights of those beside them and of the one above them all.

Standard library only: what sets them also runs in the privileged helper (`vp_agent.privsep`), which
is told a process, never a path. A mount may show a part of a hierarchy only (containers).
"""

import functools
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from vp_agent.drivers.vcpu_threads import read_process, read_tids

_MADE_BY_LIBVIRT = re.compile(r"vcpu\d+")
_OF_OTHER_THREADS = re.compile(r"emulator|iothread\d+")
_BETWEEN = "libvirt"
"""Under systemd libvirt puts one more group between a machine's and its vCPUs', since 7.1."""
_UNIFIED = "cpu.max"
_QUOTA, _PERIOD = "cpu.cfs_quota_us", "cpu.cfs_period_us"
_UNIFIED_WEIGHT, _SHARES = "cpu.weight", "cpu.shares"
_NO_LIMIT = b"max"
PROC = Path("/proc")
MOUNTS = PROC / "self/mountinfo"


class NoCpuGroup(OSError):
    """The vCPUs have no cgroup of their own."""


class CpuGroup(NamedTuple):
    path: str
    is_unified: bool


class Mount(NamedTuple):
    root: str
    target: str
    is_unified: bool


def cpu_group(tid: int) -> CpuGroup:
    """Raises ProcessLookupError, NoCpuGroup."""
    text = _cgroup_text(tid, PROC)
    where = mount()
    path = _path_in(text, is_unified=where.is_unified)
    group = CpuGroup(os.path.join(where.target, _inside(path, where)), where.is_unified)
    if not is_vcpus_own(group):
        raise NoCpuGroup(f"thread {tid} is in {path or 'no cgroup'}, which is not a vCPU's own")
    return group


def is_vcpus_own(group: CpuGroup) -> bool:
    """Made by libvirt for one vCPU alone."""
    return _MADE_BY_LIBVIRT.fullmatch(os.path.basename(group.path)) is not None


def groups_around(tid: int, proc: Path = PROC) -> tuple[CpuGroup, ...]:
    """Whose quotas hold for the thread: its own, and those above; not the root, which has none.
    Raises ProcessLookupError, NoCpuGroup."""
    text = _cgroup_text(tid, proc)
    where = mount(proc / "self/mountinfo")
    names = _inside(_path_in(text, is_unified=where.is_unified), where).split("/")
    lengths = range(len(names), 0, -1) if names != [""] else ()
    return tuple(
        CpuGroup(os.path.join(where.target, *names[:length]), where.is_unified)
        for length in lengths
    )


def _cgroup_text(tid: int, proc: Path) -> str:
    """Raises ProcessLookupError."""
    try:
        return (proc / str(tid) / "cgroup").read_text()
    except FileNotFoundError as exc:
        raise ProcessLookupError(f"no thread {tid}") from exc


def _inside(path: str, where: Mount) -> str:
    """Below what is mounted: a part of the hierarchy may be."""
    return path.removeprefix(where.root.rstrip("/")).lstrip("/")


def machine_group(vcpu: CpuGroup) -> CpuGroup:
    """Of the machine as a whole: under systemd its scope."""
    path = os.path.dirname(vcpu.path)
    return vcpu._replace(path=os.path.dirname(path) if os.path.basename(path) == _BETWEEN else path)


def emulator_groups(vcpu: CpuGroup) -> tuple[CpuGroup, ...]:
    """Beside that of a vCPU: of QEMU's other threads together, and of each I/O thread. Raises
    ProcessLookupError."""
    beside = os.path.dirname(vcpu.path)
    try:
        names = sorted(filter(_OF_OTHER_THREADS.fullmatch, os.listdir(beside)))
    except FileNotFoundError as exc:
        raise ProcessLookupError(f"{beside} is gone") from exc
    return tuple(vcpu._replace(path=f"{beside}/{name}") for name in names)


def machine_group_of(pid: int, started: int) -> CpuGroup:
    """Of this very process. Raises ProcessLookupError, NoCpuGroup."""
    return machine_group(cpu_group(_vcpus_of(pid, started)[0]))


def _vcpus_of(pid: int, started: int) -> tuple[int, ...]:
    """At least one. Raises ProcessLookupError."""
    tids = read_tids(pid) if read_process(pid).started == started else ()
    if not tids:
        raise ProcessLookupError(f"process {pid} is another one by now, or ending")
    return tids


def _path_in(text: str, *, is_unified: bool) -> str:
    """`4:cpu,cpuacct:/machine/...`, or `0::/machine.slice/...`."""
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        if (not controllers) if is_unified else ("cpu" in controllers.split(",")):
            return path
    return ""


@functools.cache
def mount(mounts: Path | None = None) -> Mount:
    """Version 1 goes first: where both are mounted, its `cpu` is not in the unified hierarchy."""
    unified = None
    for line in (mounts or MOUNTS).read_text().splitlines():
        before, after = line.split(" - ", 1)
        _, _, _, root, target, *_ = before.split()
        kind, _, options = after.split()
        if kind == "cgroup" and "cpu" in options.split(","):
            return Mount(root, target, is_unified=False)
        if kind == "cgroup2":
            unified = Mount(root, target, is_unified=True)
    if unified is None:
        raise NoCpuGroup("no cgroup hierarchy with the controller `cpu` is mounted")
    return unified


def read_quota(group: CpuGroup) -> tuple[int, int]:
    """Quota (-1: none) and period in microseconds. Raises ProcessLookupError."""
    try:
        return quota_in([_read(group, name) for name in quota_names(group)])
    except OSError as exc:
        # ENODEV: the group went between open and read.
        raise ProcessLookupError(f"{group.path} is gone") from exc


def quota_names(group: CpuGroup) -> tuple[str, ...]:
    """The files that tell the quota."""
    return (_UNIFIED,) if group.is_unified else (_QUOTA, _PERIOD)


def quota_in(texts: Iterable[bytes]) -> tuple[int, int]:
    """What those files hold: quota (-1: none) and period in microseconds."""
    quota, period = b" ".join(texts).split()
    return -1 if quota == _NO_LIMIT else int(quota), int(period)


def _read(group: CpuGroup, name: str) -> bytes:
    fd = os.open(f"{group.path}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 64)
    finally:
        os.close(fd)


def set_quota(pid: int, started: int, quota_us: int, period_us: int) -> None:
    """For every vCPU of this very process. Raises OSError (NoCpuGroup, ESRCH, EINVAL, EACCES)."""
    for group in sorted({cpu_group(tid) for tid in _vcpus_of(pid, started)}):
        _write_quota(group, quota_us, period_us)


def read_weight(group: CpuGroup) -> int:
    """0: idle, which only version 2 shows so. Raises ProcessLookupError."""
    try:
        return int(_read(group, weight_name(group)))
    except OSError as exc:
        raise ProcessLookupError(f"{group.path} is gone") from exc


def set_weight(pid: int, started: int, number: int) -> None:
    """Of the group of this very process's machine. Raises OSError (NoCpuGroup, ESRCH, EACCES)."""
    group = machine_group_of(pid, started)
    _write(group, weight_name(group), str(number))


def set_emulator_weight(pid: int, started: int, number: int) -> None:
    """Of the threads of this very process besides its vCPUs. Raises OSError (NoCpuGroup, ESRCH,
    EACCES)."""
    for group in emulator_groups(cpu_group(_vcpus_of(pid, started)[0])):
        _write(group, weight_name(group), str(number))


def weight_name(group: CpuGroup) -> str:
    """The file that tells the weight."""
    return _UNIFIED_WEIGHT if group.is_unified else _SHARES


def _write_quota(group: CpuGroup, quota_us: int, period_us: int) -> None:
    if group.is_unified:
        quota = _NO_LIMIT.decode() if quota_us < 0 else str(quota_us)
        _write(group, _UNIFIED, f"{quota} {period_us}")
        return
    before = read_quota(group)
    for name in writing_order(before, (quota_us, period_us)):
        value = quota_us if name == "quota" else period_us
        _write(group, _QUOTA if name == "quota" else _PERIOD, str(value))


def writing_order(before: tuple[int, int], after: tuple[int, int]) -> tuple[str, ...]:
    """Which of quota and period to write, and first: never looser in between than before or after.

    One of the two orders always is: the products of the two ways' ratios are equal.
    """
    changed = tuple(
        name for name, b, a in zip(("quota", "period"), before, after, strict=True) if b != a
    )
    if len(changed) < 2:
        return changed
    quota_first, period_first = _ratio(after[0], before[1]), _ratio(before[0], after[1])
    return ("quota", "period") if quota_first <= period_first else ("period", "quota")


def _ratio(quota_us: int, period_us: int) -> float:
    return float("inf") if quota_us < 0 else quota_us / period_us


def _write(group: CpuGroup, name: str, text: str) -> None:
    fd = os.open(f"{group.path}/{name}", os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
