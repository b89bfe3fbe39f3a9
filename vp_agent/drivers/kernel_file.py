# SPDX-License-Identifier: Apache-2.0
"""A small file that the kernel makes anew for each look at it: one of /proc, or of a cgroup.

It is kept open, since opening costs several times as much as reading. A descriptor also stays with
its thread or cgroup: a later one of the same name is never read in its place.
"""

import os
import resource
from pathlib import Path

_MAX_BYTES = 4096
_PART_OF_LIMIT = 4
"""The rest of the descriptors is for counters, connections and whatever else is opened."""


class Room:
    """For so many files to be kept open; those beyond are opened for each look."""

    def __init__(self, files: int | None = None) -> None:
        """By default a part of what this process may open."""
        self.left = files or resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _PART_OF_LIMIT


class KernelFile:
    """Opened by the first look."""

    __slots__ = ("_fd", "_max_bytes", "_room", "path")

    def __init__(self, path: str | Path, room: Room, max_bytes: int = _MAX_BYTES) -> None:
        """What is longer is cut off."""
        self.path = str(path)
        self._max_bytes = max_bytes
        self._room = room
        self._fd: int | None = None

    def read(self) -> bytes:
        """Raises OSError (ENOENT, ESRCH, ENODEV: what it tells of is gone)."""
        if self._fd is not None:
            return os.pread(self._fd, self._max_bytes, 0)
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = os.pread(fd, self._max_bytes, 0)
            if self._room.left > 0 and not _is_copy(fd, self.path):
                self._room.left -= 1
                self._fd, fd = fd, -1
            return text
        finally:
            if fd >= 0:
                os.close(fd)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            self._room.left += 1


def _is_copy(fd: int, path: str) -> bool:
    """Of another file system than its folder: made for whoever opened it, as the shim of the lab
    does, and the same ever after."""
    return os.fstat(fd).st_dev != os.stat(os.path.dirname(path)).st_dev
