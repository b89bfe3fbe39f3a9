# SPDX-License-Identifier: Apache-2.0
"""A resctrl file system for tests: a tree on disk that answers mkdir, rmdir and writes as the
kernel does, errors included. Written from the kernel's documentation, without our parsers.

Like the kernel it refuses what is wrong and changes what is not its caller's alone: a thread is in
one group at a time, and leaves a removed group for the root's.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

FLAT_OUT = "100"


def _error(code: int) -> OSError:
    return OSError(code, os.strerror(code))


class ResctrlTree:
    """Implements `vp_agent.drivers.resctrl_groups.Files` on `root`."""

    def __init__(
        self,
        root: Path,
        *,
        cbm_mask: str = "fffff",
        min_cbm_bits: int = 1,
        shareable_bits: str = "c0000",
        domain_ids: tuple[int, ...] = (0, 1),
        closids: int = 4,
        resources: tuple[str, ...] = ("L3",),
        has_bandwidth: bool = True,
    ) -> None:
        self.root = root
        self.limbo = 0
        """RMIDs that are not free yet; with any, and no other left, no group can be made."""
        self._mask, self._least = cbm_mask, min_cbm_bits
        self._ids, self._closids, self._resources = domain_ids, closids, resources
        self._has_bandwidth = has_bandwidth
        self._threads: set[int] = set()
        for resource in resources:
            self._info(resource, cbm_mask=cbm_mask, min_cbm_bits=min_cbm_bits)
            self._info(resource, shareable_bits=shareable_bits, num_closids=closids)
        if has_bandwidth:
            self._info("MB", bandwidth_gran=10, min_bandwidth=10, num_closids=closids)
        self._say("ok")
        self._make_group(root)

    def start(self, *tids: int) -> None:
        """New threads, in the root's group."""
        self._threads |= set(tids)
        self._move(self.root, tids)

    def end(self, *tids: int) -> None:
        self._threads -= set(tids)
        self._leave(tids)

    def group_of(self, tid: int) -> str:
        """Its name; empty for the root's."""
        [folder] = [f for f in self._groups() if tid in self._tasks(f)]
        return "" if folder == self.root else folder.name

    def group(self, name: str, *tids: int, cpus: str = "") -> Path:
        """One that somebody else made."""
        self.mkdir(self.root / name)
        self._move(self.root / name, tids)
        (self.root / name / "cpus_list").write_text(f"{cpus}\n")
        return self.root / name

    def snapshot(self) -> dict[str, str]:
        """Every file but the kernel's last words."""
        files = (path for path in self.root.rglob("*") if path.is_file())
        return {str(p): p.read_text() for p in files if p.name != "last_cmd_status"}

    def read(self, path: Path) -> str:
        return path.read_text()

    def folders(self, path: Path) -> tuple[str, ...]:
        return tuple(child.name for child in path.iterdir() if child.is_dir())

    def mkdir(self, path: Path) -> None:
        if path.parent != self.root:
            raise _error(errno.EPERM)
        if path.exists():
            raise _error(errno.EEXIST)
        if len(list(self._groups())) >= self._closids:
            self._say("Out of CLOSIDs")
            raise _error(errno.ENOSPC)
        if self.limbo:
            self._say("Out of RMIDs")
            raise _error(errno.EBUSY)
        path.mkdir()
        self._make_group(path)

    def rmdir(self, path: Path) -> None:
        if not path.exists():
            raise _error(errno.ENOENT)
        if path not in set(self._groups()) - {self.root}:
            raise _error(errno.EPERM)
        self._move(self.root, self._tasks(path))
        shutil.rmtree(path)

    def write(self, path: Path, text: str) -> None:
        if not path.exists():
            raise _error(errno.ENOENT)
        self._say("ok")
        if path.name == "tasks":
            self._write_task(path.parent, text)
        elif path.name == "schemata":
            self._write_schemata(path, text)
        else:
            raise _error(errno.EACCES)

    def _write_task(self, group: Path, text: str) -> None:
        tid = int(text)
        if tid not in self._threads:
            self._say(f"No task {tid}")
            raise _error(errno.ESRCH)
        self._move(group, (tid,))

    def _write_schemata(self, path: Path, text: str) -> None:
        if not text.endswith("\n"):
            raise _error(errno.EINVAL)
        now = dict(line.split(":") for line in path.read_text().split())
        for line in text.splitlines():
            resource, _, values = line.partition(":")
            if resource not in now:
                self._refuse(f"Unknown or unsupported resource name '{resource}'")
            held = dict(pair.split("=") for pair in now[resource].split(";"))
            for pair in values.split(";"):
                domain, _, value = pair.partition("=")
                if domain not in held:
                    self._refuse(f"Domain {domain} is not there")
                held[domain] = self._checked(resource, value)
            now[resource] = ";".join(f"{d}={v}" for d, v in held.items())
        path.write_text("".join(f"{'':4}{name}:{values}\n" for name, values in now.items()))

    def _checked(self, resource: str, value: str) -> str:
        if resource == "MB":
            percent = int(value)
            if not 10 <= percent <= 100:
                self._refuse(f"MB value {percent} out of range [10,100]")
            return str(-(-percent // 10) * 10)
        mask = int(value, 16)
        bits = f"{mask:b}".strip("0")
        if mask & ~int(self._mask, 16) or "0" in bits or len(bits) < self._least or not mask:
            self._refuse(f"The mask {value} has non-consecutive or too few 1-bits")
        return f"{mask:x}"

    def _refuse(self, words: str) -> None:
        self._say(words)
        raise _error(errno.EINVAL)

    def _info(self, resource: str, **files: object) -> None:
        folder = self.root / "info" / resource
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in files.items():
            (folder / name).write_text(f"{value}\n")

    def _say(self, words: str) -> None:
        (self.root / "info" / "last_cmd_status").write_text(f"{words}\n")

    def _make_group(self, folder: Path) -> None:
        lines = [(name, self._mask) for name in self._resources]
        lines += [("MB", FLAT_OUT)] * self._has_bandwidth
        text = (
            f"{'':4}{name}:" + ";".join(f"{d}={value}" for d in self._ids) + "\n"
            for name, value in lines
        )
        (folder / "schemata").write_text("".join(text))
        (folder / "mode").write_text("shareable\n")
        (folder / "cpus_list").write_text("\n")
        (folder / "tasks").write_text("")
        (folder / "mon_groups").mkdir()
        (folder / "mon_data").mkdir()

    def _groups(self) -> Iterator[Path]:
        yield self.root
        for child in self.root.iterdir():
            if child.is_dir() and child.name not in ("info", "mon_data", "mon_groups"):
                yield child

    def _tasks(self, group: Path) -> set[int]:
        return set(map(int, (group / "tasks").read_text().split()))

    def _move(self, group: Path, tids: "set[int] | tuple[int, ...]") -> None:
        self._leave(tids)
        self._set_tasks(group, self._tasks(group) | set(tids))

    def _leave(self, tids: "set[int] | tuple[int, ...]") -> None:
        for group in self._groups():
            self._set_tasks(group, self._tasks(group) - set(tids))

    def _set_tasks(self, group: Path, tids: set[int]) -> None:
        (group / "tasks").write_text("".join(f"{tid}\n" for tid in sorted(tids)))
