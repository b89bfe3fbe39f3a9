# SPDX-License-Identifier: Apache-2.0
"""One throw-away machine: systemd as pid 1 in namespaces of its own, on a layer above the root.

Its mounts lie in a mount namespace, its network is slirp4netns': nothing of this host is changed,
and when its processes have ended there is nothing left but a folder and cgroups.
"""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from testbed.lab.errors import LabError
from testbed.lab.waiting import wait_for
from testbed.machine import groups, root, settings
from testbed.machine.settings import Place

_RUNNING = {"running", "degraded"}
_COPIED = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
_DEVICES = ("/dev/net/tun", "/dev/fuse")
"""Of this host, where it has them: taps of guests, and whoever mounts by FUSE."""
_NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup")
_SCRIPT = """
set -e
for group in {groups}; do echo $$ >"$group/cgroup.procs"; done
mount -t overlay overlay -o lowerdir={base},upperdir={upper},workdir={work} {merged}
ip link set lo up
exec {nspawn}
"""
_WRITABLE_GROUPS = """
for group in /sys/fs/cgroup/*; do
    if mountpoint -q "$group"; then mount -o remount,bind,rw,nosuid,nodev,noexec "$group"; fi
done
systemctl daemon-reexec
"""
"""systemd-nspawn mounts controllers of version 1 read-only, although they show the machine's own
groups alone. systemd looks for those that it can write when it starts."""
_ENVIRONMENT = {
    # `yes` would let the machine's own sysctl units write to this host's kernel.
    "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network",
    "SYSTEMD_NSPAWN_LOCK": "0",
    "SYSTEMD_SECCOMP": "0",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}


def find_leader(place: Place) -> int | None:
    """Its systemd, as this host numbers it."""
    for pid in groups.members(place):
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            numbers = next(line for line in status.splitlines() if line.startswith("NSpid:"))
            _, *inner = numbers.split()
            if len(inner) > 1 and inner[-1] == "1" and "\nState:\tZ" not in status:
                return pid
    return None


def up(place: Place, release: str, neighbour: Place | None = None) -> bool:
    """Whether one was started; False: it is up. On the network of `neighbour`, which is up, or on
    one of its own. Raises LabError."""
    if os.geteuid() != 0:
        raise LabError("namespaces, mounts and cgroups are root's: run it as root")
    if find_leader(place) is not None:
        return False
    down(place)
    base = root.build(release)
    try:
        _start(place, base, neighbour)
    except BaseException:
        down(place)
        raise
    return True


def down(place: Place) -> bool:
    """Whether there was anything. Nothing is left but the root and the log of the console."""
    if not place.run.exists():
        return False
    if (leader := find_leader(place)) is not None:
        os.kill(leader, signal.SIGRTMIN + 4)  # systemd: power off.
        with contextlib.suppress(LabError):
            wait_for(
                lambda: find_leader(place) is None,
                "a power off",
                deadline_s=settings.END_DEADLINE_S,
            )
    groups.end_all(place)
    groups.remove(place)
    shutil.rmtree(place.run)
    return True


def enter(place: Place, argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` in the machine, as root. Raises LabError."""
    leader = _leader_of(place)
    environment = ["env", "-i", "HOME=/root", "LANG=C.UTF-8", f"PATH={_ENVIRONMENT['PATH']}"]
    terminal = [f"TERM={os.environ.get('TERM', 'dumb')}", "--chdir=/root"]
    return [
        "nsenter", f"--target={leader}", *_NAMESPACES, "--root", *environment, *terminal, *argv,
    ]  # fmt: skip


def _leader_of(place: Place) -> int:
    leader = find_leader(place)
    if leader is None:
        raise LabError(f"{place.name} is not up: `testbed/machine/machine up` first")
    return leader


def _state(place: Place) -> str:
    """As `systemctl is-system-running` says it."""
    asked = enter(place, ["systemctl", "is-system-running"])
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _start(place: Place, base: Path, neighbour: Place | None) -> None:
    units = place.upper / "etc/systemd/system"
    for folder in (place.upper / "etc/ssl/certs", units, place.work, place.merged):
        folder.mkdir(parents=True)
    for unit in settings.MASKED:
        (units / unit).symlink_to("/dev/null")
    for name in _COPIED:
        if os.path.exists(name):
            shutil.copyfile(name, place.upper / name.lstrip("/"))
    (place.upper / "etc/resolv.conf").write_text(f"nameserver {settings.NAMESERVER}\n")
    (place.upper / "etc/hostname").write_text(f"{place.name}\n")
    made = groups.make(place)
    script = _SCRIPT.format(
        groups=" ".join(map(str, made)),
        base=base,
        upper=place.upper,
        work=place.work,
        merged=place.merged,
        nspawn=" ".join(_nspawn(place)),
    )
    join = ["unshare", "--net"]
    if neighbour is not None:
        join = ["nsenter", f"--net=/proc/{_leader_of(neighbour)}/ns/net"]
    own = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
    holder = _launch([*join, *own], place.console_log)
    wait_for(
        lambda: find_leader(place) or holder.poll() is not None,
        "the machine's first process",
        deadline_s=settings.BOOT_DEADLINE_S,
    )
    if holder.poll() is not None:
        raise LabError("the machine ended at once", place.console_log)
    if neighbour is None:
        _connect(place, holder.pid, made)
    _wait_for_systemd(place)
    subprocess.run(enter(place, ["sh", "-ec", _WRITABLE_GROUPS]), check=True)
    _wait_for_systemd(place)


def _wait_for_systemd(place: Place) -> None:
    wait_for(lambda: _state(place) in _RUNNING, "systemd", deadline_s=settings.BOOT_DEADLINE_S)


def _nspawn(place: Place) -> list[str]:
    return [
        "systemd-nspawn",
        "--boot",
        f"--directory={place.merged}",
        f"--machine={place.name}",
        # Not what is mounted below it: the roots of machines are.
        f"--bind-ro={settings.ROOT}:{settings.ROOT}:norbind",
        *(f"--bind={name}" for name in _DEVICES if os.path.exists(name)),
        "--register=no",
        "--keep-unit",
        "--capability=all",
        "--system-call-filter=@known",
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
        "--console=read-only",
    ]


def _connect(place: Place, pid: int, made: list[Path]) -> None:
    """Outwards by a process of this host; nobody is reached in the machine, and not we from it."""
    join = " ".join(f"{group}/cgroup.procs" for group in made)
    slirp = ["slirp4netns", "--configure", "--disable-host-loopback", f"--cidr={settings.CIDR}"]
    line = f"for file in {join}; do echo $$ >$file; done; exec {' '.join(slirp)} {pid} tap0"
    _launch(["sh", "-c", line], place.run / "slirp4netns.log")


def _launch(argv: list[str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as file:
        return subprocess.Popen(
            argv,
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
