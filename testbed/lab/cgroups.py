# SPDX-License-Identifier: Apache-2.0
"""The lab's cgroups: /nova-vp-lab/WHERE, in every hierarchy of version 1 or in the unified one.

They give each virtual host a root of its own and tell which processes are the lab's: a process
is in its group before it runs anything, so `lab down` finds all, whatever was killed in between.
In the unified hierarchy a group with processes cannot give controllers to groups below it: the
processes of a virtual host live in one below its root, where libvirt makes groups for guests.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

from nova_vp.cpuset import format_cpus
from testbed.lab import settings
from testbed.lab.errors import LabError
from testbed.lab.waiting import wait_for

NAME = "nova-vp-lab"
NEEDED = ("cpu", "cpuacct", "cpuset", "freezer", "memory", "devices", "blkio")
NEEDED_UNIFIED = ("cpu", "cpuset", "io", "memory")
"""The others of version 1 are the kernel's own in the unified hierarchy."""
TRACKER = "freezer"
UNIFIED = "unified"
"""In the place of a hierarchy's options."""
LEAF = "daemons"
"""Of a virtual host's own processes, in the unified hierarchy."""


def read_hierarchies() -> dict[str, str]:
    """Mount point of each hierarchy, and the options that mount it again: those of version 1, or
    `UNIFIED` where that has the controllers."""
    found = {}
    unified = None
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, target, kind, options, *_ = line.split()
        if kind == "cgroup":
            found[target] = ",".join(o for o in options.split(",") if o not in _FLAGS)
        if kind == "cgroup2":
            unified = target
    if unified and not _missing(NEEDED_UNIFIED, (Path(unified) / "cgroup.controllers").read_text()):
        return {unified: UNIFIED}
    if missing := _missing(NEEDED, " ".join(found.values()).replace(",", " ")):
        raise LabError(
            "the lab needs the unified cgroup hierarchy with "
            f"{', '.join(NEEDED_UNIFIED)}, or those of version 1; of these are not mounted: "
            f"{', '.join(missing)}. Mount them below /sys/fs/cgroup "
            "(mount -t cgroup -o NAME cgroup /sys/fs/cgroup/NAME)"
        )
    return found


_FLAGS = {"rw", "relatime", "nosuid", "nodev", "noexec"}


def _missing(needed: tuple[str, ...], available: str) -> list[str]:
    return sorted(set(needed) - set(available.split()))


def tracker(where: str) -> Path:
    hierarchies = read_hierarchies().items()
    target = next(t for t, o in hierarchies if o == UNIFIED or TRACKER in o.split(","))
    return Path(target) / NAME / where


def make_tracker(where: str) -> Path:
    group = tracker(where)
    group.mkdir(parents=True, exist_ok=True)
    return group


def make_host_groups(host: str) -> list[Path]:
    """The groups a virtual host has for its root, one per hierarchy."""
    groups = []
    for target, options in read_hierarchies().items():
        top = Path(target)
        group = top / NAME / host
        group.mkdir(parents=True, exist_ok=True)
        if options == UNIFIED:
            for above in (top, top / NAME):
                _pass_controllers_on(above)
            (group / LEAF).mkdir(exist_ok=True)
        elif "cpuset" in options.split(","):
            for one in (top / NAME, group):
                _open_cpuset(top, one)
        groups.append(group)
    return groups


def members(host_groups: list[Path]) -> list[Path]:
    """The groups that processes of a virtual host live in."""
    return [group / LEAF if (group / LEAF).is_dir() else group for group in host_groups]


def _pass_controllers_on(group: Path) -> None:
    wanted = " ".join(f"+{name}" for name in NEEDED_UNIFIED)
    (group / "cgroup.subtree_control").write_text(wanted)


def _open_cpuset(top: Path, group: Path) -> None:
    """A cpuset without CPUs and memory nodes takes no process; children shall inherit theirs."""
    (group / "cpuset.mems").write_text((top / "cpuset.mems").read_text())
    (group / "cpuset.cpus").write_text(format_cpus(tuple(range(settings.REAL_CPUS))))
    (group / "cgroup.clone_children").write_text("1")


def read_pids(where: str = "") -> list[int]:
    """Every process in the group and below; of the whole lab by default."""
    pids: list[int] = []
    for folder, _, _ in os.walk(tracker(where)):
        with suppress(OSError):
            pids += map(int, (Path(folder) / "cgroup.procs").read_text().split())
    return pids


def kill_all(where: str = "") -> None:
    """SIGKILL until the group is empty: a process may fork while we read."""

    def kill_once() -> bool:
        pids = [pid for pid in read_pids(where) if pid != os.getpid()]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not pids

    wait_for(kill_once, f"the processes of {where or 'the lab'} to end", deadline_s=20)


def remove(where: str = "") -> None:
    for target in read_hierarchies():
        top = Path(target) / NAME / where
        for folder, _, _ in os.walk(top, topdown=False):
            wait_for(lambda folder=folder: _is_removed(folder), f"{folder} to empty", deadline_s=10)


def _is_removed(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
