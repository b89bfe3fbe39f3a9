# SPDX-License-Identifier: Apache-2.0
"""The machine's cgroups: one of its own in every hierarchy, below the one that we are in.

Its systemd would otherwise take over those of this host. They also tell which processes are the
machine's, whatever was killed in between.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from testbed.lab.waiting import wait_for
from testbed.machine import settings
from testbed.machine.settings import Place

_KINDS = {"cgroup", "cgroup2"}
_COPIED = ("cpuset.cpus", "cpuset.mems")
"""What a new group of version 1 lacks, and cannot run anything without."""


def make(place: Place) -> list[Path]:
    """Noted before they are made: `remove` finds them all."""
    groups = [parent / place.group_name for parent in _ours()]
    place.run.mkdir(parents=True, exist_ok=True)
    place.groups.write_text("".join(f"{group}\n" for group in groups))
    for group in groups:
        group.mkdir(exist_ok=True)
        for name in _COPIED:
            if (group / name).exists() and not (group / name).read_text().strip():
                (group / name).write_text((group.parent / name).read_text())
    return groups


def noted(place: Place) -> list[Path]:
    try:
        return [Path(line) for line in place.groups.read_text().splitlines()]
    except FileNotFoundError:
        return []


def members(place: Place) -> set[int]:
    """Of all hierarchies, below its groups too."""
    return {pid for group in noted(place) for pid in _members(group)}


def end_all(place: Place) -> None:
    def is_over() -> bool:
        left = members(place)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    wait_for(is_over, "the machine's processes to end", deadline_s=settings.END_DEADLINE_S)


def remove(place: Place) -> None:
    def is_gone() -> bool:
        for group in noted(place):
            for folder, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
        return not any(group.exists() for group in noted(place))

    wait_for(is_gone, "the machine's cgroups to go", deadline_s=settings.END_DEADLINE_S)


def _members(group: Path) -> Iterator[int]:
    for folder, _, _ in os.walk(group):
        with contextlib.suppress(OSError):
            yield from map(int, (Path(folder) / "cgroup.procs").read_text().split())


def _ours() -> Iterator[Path]:
    """The directory of our own group in every hierarchy that is mounted."""
    paths = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        paths[frozenset(controllers.split(",")) - {""}] = path.lstrip("/")
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, target, kind, options, *_ = line.split()
        if kind not in _KINDS:
            continue
        flags = frozenset(options.split(",")) if kind == "cgroup" else frozenset()
        for controllers, path in paths.items():
            is_this = controllers <= flags if controllers else kind == "cgroup2"
            if is_this:
                yield Path(target) / path
