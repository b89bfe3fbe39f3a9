# SPDX-License-Identifier: Apache-2.0
"""The groups below /sys/fs/resctrl: reading all of them, changing none but our own.

Standard library only: what changes something also runs in the privileged helper, which is why the
names are checked here. We never mount or unmount, and never write into another group nor the root:
a group that is removed gives its threads back to the root by itself.
"""

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from nova_vp.cpuset import parse_cpus
from vp_agent.drivers.vcpu_threads import Process, read_process, read_tids

RESCTRL = Path("/sys/fs/resctrl")
PREFIX = "nova-vp-"
_OURS = re.compile(PREFIX + r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NO_GROUPS = frozenset({"info", "mon_data", "mon_groups"})


class Files(Protocol):
    """The kernel's side. Each raises OSError."""

    def read(self, path: Path) -> str: ...
    def folders(self, path: Path) -> tuple[str, ...]: ...
    def mkdir(self, path: Path) -> None: ...
    def rmdir(self, path: Path) -> None: ...
    def write(self, path: Path, text: str) -> None:
        """In one call of write(2): that is what resctrl takes for one change."""


class KernelFiles:
    def read(self, path: Path) -> str:
        return path.read_text()

    def folders(self, path: Path) -> tuple[str, ...]:
        with os.scandir(path) as entries:
            return tuple(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))

    def mkdir(self, path: Path) -> None:
        os.mkdir(path, 0o755)

    def rmdir(self, path: Path) -> None:
        os.rmdir(path)

    def write(self, path: Path, text: str) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


KERNEL_FILES = KernelFiles()
TidsOf = Callable[[Process], tuple[int, ...]]


def read_vcpus(process: Process) -> tuple[int, ...]:
    """vCPU threads of this very process. Raises ProcessLookupError."""
    if read_process(process.pid).started != process.started:
        raise ProcessLookupError(f"process {process.pid} is another one by now")
    return read_tids(process.pid)


def name_of(guest_uuid: str) -> str:
    return f"{PREFIX}{guest_uuid}"


class Groups:
    """What stands below one root, and the four ways to change it. All raise OSError."""

    def __init__(
        self,
        root: Path = RESCTRL,
        files: Files = KERNEL_FILES,
        tids_of: TidsOf = read_vcpus,
    ) -> None:
        self.root = root
        self._files = files
        self._tids_of = tids_of

    def read(self, path: str) -> str:
        return self._files.read(self.root / path)

    def ours(self) -> frozenset[str]:
        """UUIDs of the guests that we made a group for; none where resctrl is not mounted."""
        try:
            names = self._files.folders(self.root)
        except FileNotFoundError:
            return frozenset()
        return frozenset(name.removeprefix(PREFIX) for name in names if _OURS.fullmatch(name))

    def foreign(self) -> tuple[str, ...]:
        """Groups of others that divide the cache."""
        names = self._files.folders(self.root)
        return tuple(n for n in names if n not in _NO_GROUPS and not n.startswith(PREFIX))

    def schemata(self, name: str) -> str:
        return self.read(f"{name}/schemata")

    def tasks(self, name: str) -> frozenset[int]:
        """Thread ids; none if the group is gone meanwhile."""
        with _gone_is_fine():
            return frozenset(map(int, self.read(f"{name}/tasks").split()))
        return frozenset()

    def cpus(self, name: str) -> frozenset[int]:
        """CPUs on which the group holds whoever is in no group of his own."""
        with _gone_is_fine():
            return parse_cpus(self.read(f"{name}/cpus_list").strip())
        return frozenset()

    def monitors(self) -> Iterator[str]:
        """Monitoring groups of the root: whoever moves a thread takes it away from them."""
        with _gone_is_fine():
            for name in self._files.folders(self.root / "mon_groups"):
                yield f"mon_groups/{name}"

    def last_status(self) -> str:
        """What the kernel said to the last command, for people."""
        with contextlib.suppress(OSError):
            return " ".join(self.read("info/last_cmd_status").split())
        return ""

    def make(self, name: str) -> None:
        self._files.mkdir(self._own(name))

    def limit(self, name: str, schemata: str) -> None:
        self._files.write(self._own(name) / "schemata", schemata)

    def assign(self, name: str, pid: int, started: int) -> None:
        """Every vCPU thread of that process. Raises ProcessLookupError if it is another one."""
        tasks = self._own(name) / "tasks"
        for tid in self._tids_of(Process(pid, started)):
            # A vCPU that was unplugged meanwhile; the caller reads back who is in.
            with contextlib.suppress(ProcessLookupError):
                self._files.write(tasks, f"{tid}\n")

    def remove(self, name: str) -> None:
        """Whoever is in it is back in the root's group. One that is gone is no error."""
        with _gone_is_fine():
            self._files.rmdir(self._own(name))

    def _own(self, name: str) -> Path:
        if not _OURS.fullmatch(name):
            raise PermissionError(errno.EPERM, f"{name!r} is no group of ours")
        return self.root / name


@contextlib.contextmanager
def _gone_is_fine() -> Iterator[None]:
    """kernfs says ENODEV to who holds a file of a group that was just removed."""
    try:
        yield
    except FileNotFoundError:
        return
    except OSError as exc:
        if exc.errno != errno.ENODEV:
            raise
