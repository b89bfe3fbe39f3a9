# SPDX-License-Identifier: Apache-2.0
"""A machine to install on: this one, or a root of Debian packages, with a name and a network.

What is written below FOLDERS, or anywhere in such a root, is gone afterwards. Packages come over
this machine's network, all else happens in one that the machines share and nobody else sees.
"""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("/etc", "/opt", "/usr/local", "/var", "/root")
CLONE = "/root/nova-vp"
OURS = ("/etc/pip.conf", "/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt")
"""What a root needs of this machine to fetch packages as this one does."""
LOOPBACK = "ip link set lo up; exec sleep infinity"
SECURE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Network:
    """Of all machines; they are one address to each other."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(["unshare", "--net", "sh", "-c", LOOPBACK])

    @property
    def path(self) -> str:
        return f"/proc/{self._holder.pid}/ns/net"

    def close(self) -> None:
        self._holder.kill()
        self._holder.wait()


class Machine:
    def __init__(
        self, name: str, folder: Path, network: Network, packed: bytes, root: Path | None = None
    ) -> None:
        """`packed`: what lies in CLONE, as a tar file. `root`: in place of this machine's files."""
        self.name = name
        self._network = network
        inside = [
            "set -e",
            "mount -t tmpfs -o mode=755 tmpfs /run",
            f"mkdir -p {CLONE}",
            "echo '127.0.0.1 localhost controller compute-17' >/etc/hosts",
            "echo ready",
            "exec sleep infinity",
        ]
        enter = ["sh", "-c", "\n".join(inside)]
        script = ["set -e", f"hostname {name}"]
        if root is None:
            script += [_overlay(folder, path, path) for path in FOLDERS]
        else:
            top = tempfile.mkdtemp(dir=folder)
            script.append(_overlay(folder, str(root), top))
            script += [f"mount --rbind /{path} {top}/{path}" for path in ("dev", "proc", "sys")]
            script += [f"mkdir -p {top}{ROOT}", f"mount --bind -o ro {ROOT} {top}{ROOT}"]
            script += [f"test ! -e {file} || cp {file} {top}{file}" for file in OURS]
            enter = ["chroot", top, *enter]
        script.append(f"exec {shlex.join(enter)}")
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--uts", "sh", "-c", "\n".join(script)], stdout=subprocess.PIPE
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"ready\n"
        subprocess.run(self.enter(["tar", "x", "--no-same-owner"]), input=packed, check=True)

    def enter(
        self, argv: Sequence[str], *, folder: str = CLONE, needs_internet: bool = False
    ) -> list[str]:
        """The command line that runs `argv` here."""
        network = [] if needs_internet else [f"--net={self._network.path}"]
        holder = ["--target", str(self._holder.pid), "--mount", "--uts", "--root"]
        return ["nsenter", *network, *holder, "env", f"--chdir={folder}", *argv]

    def run(
        self, command: str, environment: Mapping[str, str], *, needs_internet: bool = False
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.enter(["bash", "-c", command], needs_internet=needs_internet),
            env={"PATH": SECURE_PATH, "HOME": "/root", "LANG": "C.UTF-8", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def write(self, path: str, text: str) -> None:
        """Over what is there, so that owner and mode stay."""
        command = f'mkdir -p "$(dirname {path})" && cat >{path}'
        subprocess.run(self.enter(["sh", "-c", command]), input=text, text=True, check=True)

    def copy(self, source: str, target: "Machine", path: str) -> None:
        """What is in a directory here, into one of that machine."""
        packed = subprocess.run(
            self.enter(["tar", "c", f"--directory={source}", "."]),
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
        unpack = ["tar", "x", "--no-same-owner", f"--directory={path}"]
        subprocess.run(target.enter(unpack), input=packed, check=True)

    def close(self) -> None:
        """With everything that runs here, daemons too that left who started them."""
        here = os.readlink(f"/proc/{self._holder.pid}/ns/mnt")
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(process / "ns/mnt") == here:
                    os.kill(int(process.name), signal.SIGKILL)
        self._holder.wait()


def _overlay(folder: Path, lower: str, target: str) -> str:
    """The command that has `target` show what is in `lower`, and keeps what is written there."""
    layers = Path(tempfile.mkdtemp(dir=folder))
    (layers / "upper").mkdir()
    (layers / "work").mkdir()
    upper = f"upperdir={layers}/upper,workdir={layers}/work"
    return f"mount -t overlay overlay -o lowerdir={lower},{upper} {target}"


def pack_clone() -> bytes:
    """What git would: tracked files, and those that are about to be."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    there = b"\0".join(n for n in names.split(b"\0") if n and os.path.exists(ROOT / n.decode()))
    return subprocess.run(
        ["tar", "c", "--null", "--files-from=-"],
        cwd=ROOT,
        input=there,
        check=True,
        stdout=subprocess.PIPE,
    ).stdout


def pack_sdist(sdist: Path) -> bytes:
    """What it has in its only folder."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.unpack_archive(sdist, folder, filter="data")
        [top] = Path(folder).iterdir()
        return _packed(top)


def pack_wheel(wheel: Path) -> bytes:
    """It and the constraints, and where a clone has it what the guide copies out of a wheel."""
    with tempfile.TemporaryDirectory() as name:
        folder, inside = Path(name) / "folder", Path(name) / "inside"
        folder.mkdir()
        shutil.unpack_archive(wheel, inside, format="zip")
        shutil.copy(wheel, folder)
        shutil.copy(ROOT / "constraints.txt", folder)
        [data] = inside.glob("*.data/data/share/nova-vp")
        shutil.copytree(data, folder / "etc/nova-vp")
        shutil.copytree(inside / "vp_agent/hooks", folder / "vp_agent/hooks")
        return _packed(folder)


def _packed(folder: Path) -> bytes:
    argv = ["tar", "c", f"--directory={folder}", "."]
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout
