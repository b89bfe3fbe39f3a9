# SPDX-License-Identifier: Apache-2.0
"""An emulated machine: its QEMU, from start to end, and the folders that belong to it.

It writes to no disk (QEMU keeps changes in a temporary file), so that ending it is a kill, and what
it runs on is never damaged. Which process it is stands in `run`; a stale pid is recognised by its
working directory.
"""

import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from testbed.lab.errors import LabError

ROOT = Path(__file__).resolve().parents[2]
PATH = f"{ROOT}/.venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Of commands in the machine."""
BUILD_DEADLINE_S = 900.0
BOOT_DEADLINE_S = 240.0


@dataclass(frozen=True, slots=True)
class Machine:
    command: str
    """Its command's name, for messages."""
    about: str
    """One sentence, for `--help`."""
    cache: Path
    marker: str
    """The variable by which a program knows that it runs in there."""
    builds: tuple[tuple[str, ...], ...]
    """Commands that make what is missing or outdated, and are done at once where nothing is."""
    hardware: tuple[str, ...]
    """QEMU's arguments of CPUs and memory."""
    kernel_arguments: str
    boot_deadline_s: float = BOOT_DEADLINE_S

    @property
    def shared(self) -> Path:
        """The checkout's .cache as commands in the machine see it: what they leave there stays."""
        return self.cache / "shared"

    @property
    def run(self) -> Path:
        """What belongs to the machine that runs now; gone when it is down."""
        return self.cache / "run"

    @property
    def console_log(self) -> Path:
        return self.cache / "console.log"

    @property
    def qemu_log(self) -> Path:
        return self.cache / "qemu.log"

    @property
    def _pid_file(self) -> Path:
        return self.run / "pid"

    def environment(self) -> dict[str, str]:
        """Of commands in the machine: nothing of the caller's own."""
        return {
            "PATH": PATH,
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "TERM": os.environ.get("TERM", "dumb"),
            "PYTHONDONTWRITEBYTECODE": "1",
            # An emulated machine has the time of what it is emulated on, and little of its speed.
            "NOVA_VP_STRETCHED_DEADLINES": "10",
            self.marker: "1",
        }

    def build(self) -> None:
        self.shared.mkdir(parents=True, exist_ok=True)
        for command in self.builds:
            _make(*command)

    def start(self, *, dies_with_caller: bool) -> None:
        self.end()
        self.run.mkdir()
        last_words = _dying_with(os.getpid()) if dies_with_caller else []
        with self.qemu_log.open("w") as log:
            process = subprocess.Popen(
                [*last_words, *self._qemu_argv()],
                cwd=self.run,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._pid_file.write_text(str(process.pid))

    def find_pid(self) -> int | None:
        """Of the running machine."""
        try:
            pid = int(self._pid_file.read_text())
            cwd = os.readlink(f"/proc/{pid}/cwd")
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, ValueError):
            return None
        return pid if cwd == str(self.run) and state != "Z" else None

    def end(self) -> bool:
        """Whether there was a machine. Nothing of it is left but its console's log."""
        pid = self.find_pid()
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            self._wait_for_end()
        shutil.rmtree(self.run, ignore_errors=True)
        return pid is not None

    def _wait_for_end(self) -> None:
        deadline = time.monotonic() + 20
        while (pid := self.find_pid()) is not None:
            if time.monotonic() > deadline:
                raise LabError(f"QEMU (pid {pid}) survives SIGKILL: the machine is stuck in I/O")
            time.sleep(0.02)

    def _qemu_argv(self) -> list[str]:
        disk = f"file={self.cache / 'root.img'},format=raw,if=virtio,snapshot=on,cache=unsafe"
        return [
            *("qemu-system-x86_64", "-name", self.command, "-nodefaults", "-no-user-config"),
            *("-display", "none", "-no-reboot", "-accel", "tcg,thread=multi,tb-size=1024"),
            *self.hardware,
            *("-kernel", str(self.cache / "vmlinuz"), "-initrd", str(self.cache / "initrd")),
            *("-append", self.kernel_arguments),
            *("-drive", disk),
            *("-chardev", f"file,id=console,path={self.console_log}", "-serial", "chardev:console"),
            *_channel_argv(),
            *_share_argv("checkout", str(ROOT), ",readonly=on"),
            *_share_argv("cache", str(self.shared)),
        ]


def _make(*command: str) -> None:
    try:
        subprocess.run(command, check=True, timeout=BUILD_DEADLINE_S)
    except subprocess.CalledProcessError:
        raise LabError(f"`{' '.join(command)}` failed: see above") from None
    except subprocess.TimeoutExpired:
        raise LabError(
            f"`{' '.join(command)}` is not done after {BUILD_DEADLINE_S:.0f} s: "
            "run it by hand to see where it hangs"
        ) from None


def _dying_with(pid: int) -> list[str]:
    """Before a command: it ends once its parent does, and never begins if that is gone already."""
    still_there = f'[ "$PPID" = {pid} ] && exec "$@"'
    return ["setpriv", "--pdeathsig", "KILL", "sh", "-c", still_there, "sh"]


def _channel_argv() -> list[str]:
    """Sockets by names relative to `run`: their paths are short, the checkout's may be long."""
    return [
        *("-device", "virtio-serial-pci"),
        *("-chardev", "socket,id=commands,path=commands,server=on,wait=off"),
        *("-device", "virtserialport,chardev=commands,name=nova-vp.commands"),
        *("-chardev", "socket,id=shell,path=shell,server=on,wait=off"),
        *("-device", "virtconsole,chardev=shell"),
    ]


def _share_argv(tag: str, folder: str, more: str = "") -> list[str]:
    about = f"local,id={tag},path={folder},security_model=none,multidevs=remap{more}"
    return ["-fsdev", about, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
