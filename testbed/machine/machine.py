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
_ENVIRONMENT = {
    # `yes` would let the machine's own sysctl units write to this host's kernel.
    "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network",
    "SYSTEMD_NSPAWN_LOCK": "0",
    "SYSTEMD_SECCOMP": "0",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}


def find_leader() -> int | None:
    """Its systemd, as this host numbers it."""
    for pid in groups.members():
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            numbers = next(line for line in status.splitlines() if line.startswith("NSpid:"))
            _, *inner = numbers.split()
            if len(inner) > 1 and inner[-1] == "1" and "\nState:\tZ" not in status:
                return pid
    return None


def up(release: str) -> bool:
    """Whether one was started; False: it is up. Raises LabError."""
    if os.geteuid() != 0:
        raise LabError("namespaces, mounts and cgroups are root's: run it as root")
    if find_leader() is not None:
        return False
    down()
    base = root.build(release)
    try:
        _start(base)
    except BaseException:
        down()
        raise
    return True


def down() -> bool:
    """Whether there was anything. Nothing is left but the root and the log of the console."""
    if not settings.RUN.exists():
        return False
    if (leader := find_leader()) is not None:
        os.kill(leader, signal.SIGRTMIN + 4)  # systemd: power off.
        with contextlib.suppress(LabError):
            wait_for(
                lambda: find_leader() is None, "a power off", deadline_s=settings.END_DEADLINE_S
            )
    groups.end_all()
    groups.remove()
    shutil.rmtree(settings.RUN)
    return True


def enter(argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` in the machine, as root. Raises LabError."""
    leader = find_leader()
    if leader is None:
        raise LabError("there is no machine: `testbed/machine/machine up` first")
    environment = ["env", "-i", "HOME=/root", "LANG=C.UTF-8", f"PATH={_ENVIRONMENT['PATH']}"]
    terminal = [f"TERM={os.environ.get('TERM', 'dumb')}", "--chdir=/root"]
    return [
        "nsenter", f"--target={leader}", *_NAMESPACES, "--root", *environment, *terminal, *argv,
    ]  # fmt: skip


def state() -> str:
    """As `systemctl is-system-running` says it."""
    asked = enter(["systemctl", "is-system-running"])
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _start(base: Path) -> None:
    for folder in (settings.UPPER / "etc/ssl/certs", settings.WORK, settings.MERGED):
        folder.mkdir(parents=True)
    for name in _COPIED:
        if os.path.exists(name):
            shutil.copyfile(name, settings.UPPER / name.lstrip("/"))
    (settings.UPPER / "etc/resolv.conf").write_text(f"nameserver {settings.NAMESERVER}\n")
    made = groups.make()
    script = _SCRIPT.format(
        groups=" ".join(map(str, made)),
        base=base,
        upper=settings.UPPER,
        work=settings.WORK,
        merged=settings.MERGED,
        nspawn=" ".join(_nspawn()),
    )
    own = ["unshare", "--mount", "--net", "--propagation", "private", "sh", "-c", script]
    holder = _launch(own, settings.CONSOLE_LOG)
    wait_for(
        lambda: find_leader() or holder.poll() is not None,
        "the machine's first process",
        deadline_s=settings.BOOT_DEADLINE_S,
    )
    if holder.poll() is not None:
        raise LabError("the machine ended at once", settings.CONSOLE_LOG)
    _connect(holder.pid, made)
    wait_for(lambda: state() in _RUNNING, "systemd", deadline_s=settings.BOOT_DEADLINE_S)


def _nspawn() -> list[str]:
    return [
        "systemd-nspawn",
        "--boot",
        f"--directory={settings.MERGED}",
        f"--machine={settings.NAME}",
        f"--bind-ro={settings.ROOT}",
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


def _connect(pid: int, made: list[Path]) -> None:
    """Outwards by a process of this host; nobody is reached in the machine, and not we from it."""
    join = " ".join(f"{group}/cgroup.procs" for group in made)
    slirp = ["slirp4netns", "--configure", "--disable-host-loopback", f"--cidr={settings.CIDR}"]
    line = f"for file in {join}; do echo $$ >$file; done; exec {' '.join(slirp)} {pid} tap0"
    _launch(["sh", "-c", line], settings.RUN / "slirp4netns.log")


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
