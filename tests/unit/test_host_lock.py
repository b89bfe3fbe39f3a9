# SPDX-License-Identifier: Apache-2.0
"""The lock of a host: nobody but the agent's user and root can hold it."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nova_vp.service.run_dir import LOCK, is_agent_running
from vp_agent.loop.control_socket import AlreadyRunning, RunFolder
from vp_agent.loop.host_lock import OWNER

NOBODY = 65534
HOLD = f"""
import fcntl, os, sys
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
held = []
for name in os.listdir(sys.argv[1]):
    try:
        held.append(open(os.path.join(sys.argv[1], name)))
        fcntl.flock(held[-1], fcntl.LOCK_EX)
    except OSError:
        pass
print(sorted(os.path.basename(one.name) for one in held), flush=True)
sys.stdin.read()
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user: needs root")


def locks_of_a_stranger(folder: Path) -> "subprocess.Popen[str]":
    for parent in (folder, *folder.parents):
        if parent.stat().st_uid == os.geteuid():
            parent.chmod(parent.stat().st_mode | 0o055)
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@needs_root
def test_a_stranger_who_locks_all_that_he_can_read_keeps_no_agent_from_running(
    tmp_path: Path,
) -> None:
    folder = RunFolder(str(tmp_path / "run"))
    with folder.locked():
        folder.beat()
    stranger = locks_of_a_stranger(folder.path)
    assert stranger.stdout is not None
    try:
        assert "agent.lock" in stranger.stdout.readline()
        with folder.locked(), pytest.raises(AlreadyRunning), RunFolder(str(folder.path)).locked():
            pass
    finally:
        stranger.communicate("")


def test_who_runs_is_shown_as_soon_as_nobody_looks(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    with folder.locked():
        pass
    with open(tmp_path / "agent.lock") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        with folder.locked():
            fcntl.flock(looking, fcntl.LOCK_UN)
            assert not is_agent_running(tmp_path)
            folder.beat()
            assert is_agent_running(tmp_path)
    assert not is_agent_running(tmp_path)


@pytest.mark.parametrize("umask", [0o077, 0])
def test_who_may_read_its_files_does_not_hang_on_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with RunFolder(str(tmp_path)).locked():
            modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in (OWNER, LOCK)}
    finally:
        os.umask(before)
    assert modes == {OWNER: 0o600, LOCK: 0o644}


def test_an_agent_of_an_earlier_release_is_respected(tmp_path: Path) -> None:
    """It knows one lock, which all can read."""
    with open(tmp_path / "agent.lock", "a") as earlier:
        fcntl.flock(earlier, fcntl.LOCK_EX)
        with pytest.raises(AlreadyRunning), RunFolder(str(tmp_path)).locked():
            pass
    with RunFolder(str(tmp_path)).locked():
        assert is_agent_running(tmp_path)


@needs_root
def test_what_root_made_first_is_the_agents(tmp_path: Path) -> None:
    """`vp-agent release` by root, before the agent ever ran."""
    os.chown(tmp_path, NOBODY, NOBODY)
    with RunFolder(str(tmp_path)).locked():
        pass
    found = {path.name: path.stat() for path in tmp_path.iterdir()}
    assert set(found) == {"agent.owner", "agent.lock"}
    assert {one.st_uid for one in found.values()} == {NOBODY}
    assert found["agent.owner"].st_mode & 0o777 == 0o600


def test_the_lock_follows_no_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    (tmp_path / "run").mkdir()
    (tmp_path / "run/agent.owner").symlink_to(target)
    with pytest.raises(OSError, match=r"agent\.owner"), RunFolder(str(tmp_path / "run")).locked():
        pass
    assert not target.exists()
