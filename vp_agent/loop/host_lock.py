# SPDX-License-Identifier: Apache-2.0
"""The locks of the one agent of a host: one that keeps others off, and one that others look at.

Whoever can open a file can lock it. So what decides is a file that only the agent's user and root
can open. The other is readable by all: nova-compute looks at it to see whether an agent runs. Who
locks that one keeps no agent from running, only nova-compute from starting one; it is taken again
with every heartbeat.
"""

import contextlib
import fcntl
import os
from pathlib import Path

from nova_vp.service.run_dir import LOCK, is_agent_running

OWNER = "agent.owner"


class HostLock:
    def __init__(self, folder: Path) -> None:
        self.path = folder / OWNER
        self._folder = folder
        self._shown = folder / LOCK
        self._owner_fd = -1
        self._shown_fd = -1
        self._is_shown = False

    def take(self) -> bool:
        """Whether nobody else had it. Raises OSError."""
        if not self.path.exists() and is_agent_running(self._folder):
            return False  # An agent of an earlier release, which knows one lock only.
        fd = self._opened(self.path, 0o600)
        if not _locked(fd):
            os.close(fd)
            return False
        self._owner_fd = fd
        self.show()
        return True

    def show(self) -> None:
        """Others see that an agent runs here; not while one of them holds that lock itself."""
        if self._is_shown or self._owner_fd < 0:
            return
        with contextlib.suppress(OSError):
            if self._shown_fd < 0:
                self._shown_fd = self._opened(self._shown, 0o644)
            self._is_shown = _locked(self._shown_fd)

    def release(self) -> None:
        for fd in (self._shown_fd, self._owner_fd):
            if fd >= 0:
                os.close(fd)
        self._owner_fd = self._shown_fd = -1
        self._is_shown = False

    def _opened(self, path: Path, mode: int) -> int:
        """What root makes belongs to the agent's user, who could not open it otherwise."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
        try:
            with contextlib.suppress(PermissionError):  # Another user's, of an earlier agent.
                os.fchmod(fd, mode)  # Whatever the umask.
            if os.geteuid() == 0:
                owner = self._folder.stat()
                os.fchown(fd, owner.st_uid, owner.st_gid)
        except BaseException:
            os.close(fd)
            raise
        return fd


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
