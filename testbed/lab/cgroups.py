# SPDX-License-Identifier: Apache-2.0
"""The lab's cgroups (version 1): /nova-vp-lab/WHERE in every hierarchy.

They give each virtual host a root of its own and tell which processes are the lab's: a process
is in its group before it runs anything, so `lab down` finds all, whatever was killed in between.
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
TRACKER = "freezer"


def read_hierarchies() -> dict[str, str]:
    """Mount point of each version 1 hierarchy, and the options that mount it again."""
    found = {}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, target, kind, options, *_ = line.split()
        if kind == "cgroup":
            found[target] = ",".join(o for o in options.split(",") if o not in _FLAGS)
    available = {word for options in found.values() for word in options.split(",")}
    if missing := sorted(set(NEEDED) - available):
        raise LabError(
            f"the lab needs cgroup version 1 hierarchies; not mounted: {', '.join(missing)}. "
            "Mount them below /sys/fs/cgroup (mount -t cgroup -o NAME cgroup /sys/fs/cgroup/NAME)"
        )
    return found


_FLAGS = {"rw", "relatime", "nosuid", "nodev", "noexec"}


def tracker(where: str) -> Path:
    target = next(t for t, o in read_hierarchies().items() if TRACKER in o.split(","))
    return Path(target) / NAME / where


def make_tracker(where: str) -> Path:
    group = tracker(where)
    group.mkdir(parents=True, exist_ok=True)
    return group


def make_host_groups(host: str) -> list[Path]:
    """The groups a virtual host lives in, one per hierarchy."""
    groups = []
    for target, options in read_hierarchies().items():
        top = Path(target)
        for group in (top / NAME, top / NAME / host):
            group.mkdir(exist_ok=True)
            if "cpuset" in options.split(","):
                _open_cpuset(top, group)
        groups.append(top / NAME / host)
    return groups


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
