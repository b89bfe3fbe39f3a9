# SPDX-License-Identifier: Apache-2.0
"""A machine to install on: this one with a name, folders and a network of its own.

What is written below FOLDERS is gone afterwards. Packages come over this machine's network, all
else happens in one that the machines share and nobody else sees.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("/etc", "/opt", "/usr/local", "/var", "/root")
CLONE = "/root/nova-vp"
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
        self, name: str, folder: Path, network: Network, sdist: Path | None = None
    ) -> None:
        """`sdist`: the source distribution that is unpacked in place of a clone."""
        self.name = name
        self._network = network
        script = ["set -e", f"hostname {name}"]
        for path in FOLDERS:
            layers = Path(tempfile.mkdtemp(dir=folder))
            (layers / "upper").mkdir()
            (layers / "work").mkdir()
            upper = f"upperdir={layers}/upper,workdir={layers}/work"
            script.append(f"mount -t overlay overlay -o lowerdir={path},{upper} {path}")
        script += ["mount -t tmpfs -o mode=755 tmpfs /run", f"mkdir -p {CLONE}"]
        script += ["echo '127.0.0.1 localhost controller compute-17' >/etc/hosts"]
        script += ["echo ready", "exec sleep infinity"]
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--uts", "sh", "-c", "\n".join(script)], stdout=subprocess.PIPE
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"ready\n"
        if sdist is None:
            self._clone()
        else:
            self._unpack(sdist)

    def enter(self, argv: Sequence[str], *, needs_internet: bool = False) -> list[str]:
        """The command line that runs `argv` here."""
        network = [] if needs_internet else [f"--net={self._network.path}"]
        holder = ["--target", str(self._holder.pid), "--mount", "--uts"]
        return ["nsenter", *network, *holder, "env", f"--chdir={CLONE}", *argv]

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

    def _clone(self) -> None:
        """What git would: tracked files, and those that are about to be."""
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
        there = b"\0".join(n for n in names.split(b"\0") if n and os.path.exists(ROOT / n.decode()))
        packed = subprocess.run(
            ["tar", "c", "--null", "--files-from=-"],
            cwd=ROOT,
            input=there,
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
        subprocess.run(self.enter(["tar", "x", "--no-same-owner"]), input=packed, check=True)

    def _unpack(self, sdist: Path) -> None:
        unpack = ["tar", "xz", "--no-same-owner", "--strip-components=1"]
        subprocess.run(self.enter(unpack), input=sdist.read_bytes(), check=True)
