# SPDX-License-Identifier: Apache-2.0
"""A machine to install on: one of `testbed/machine`, with real systemd, and nothing of this one.

All machines of a run are one address to each other, and reach the internet through the first.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.machine.machine import enter
from testbed.machine.settings import Place

ROOT = Path(__file__).parents[2]
COMMAND = ROOT / "testbed/machine/machine"
CLONE = "/root/nova-vp"
JOURNAL_LINES = 80
HOSTS = "127.0.0.1 localhost controller compute-17\n"


class Machine:
    def __init__(self, name: str, debian: str, packed: bytes, *, beside: str | None = None) -> None:
        """`packed`: what lies in CLONE, as a tar file. `beside`: whose network it is on."""
        self.name = name
        self._place = Place(name)
        self.close()
        neighbour = ["--beside", beside] if beside else []
        subprocess.run([COMMAND, "--name", name, "up", "--debian", debian, *neighbour], check=True)
        self.write("/etc/hosts", HOSTS)
        subprocess.run(self._enter(["mkdir", CLONE], folder="/root"), check=True)
        subprocess.run(self._enter(["tar", "x", "--no-same-owner"]), input=packed, check=True)

    def run(
        self, command: str, environment: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self._enter(["bash", "-c", command], environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def write(self, path: str, text: str) -> None:
        """Over what is there, so that owner and mode stay."""
        command = f'mkdir -p "$(dirname {path})" && cat >{path}'
        argv = self._enter(["sh", "-c", command], folder="/root")
        subprocess.run(argv, input=text, text=True, check=True)

    def copy(self, source: str, target: "Machine", path: str) -> None:
        """What is in a directory here, into one of that machine."""
        packed = subprocess.run(
            self._enter(["tar", "c", f"--directory={source}", "."]),
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
        unpack = ["tar", "x", "--no-same-owner", f"--directory={path}"]
        subprocess.run(target._enter(unpack), input=packed, check=True)

    def last_words(self) -> str:
        """Of its services."""
        return self.run(f"journalctl --no-pager --boot --lines {JOURNAL_LINES}").stdout

    def close(self) -> None:
        subprocess.run([COMMAND, "--name", self.name, "down"], check=True)

    def _enter(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        folder: str = CLONE,
    ) -> list[str]:
        """The command line that runs `argv` here."""
        variables = [f"{name}={value}" for name, value in (environment or {}).items()]
        return enter(self._place, ["env", f"--chdir={folder}", *variables, *argv])


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
