# SPDX-License-Identifier: Apache-2.0
"""The emulated machine: its QEMU, from start to end.

It writes to no disk (QEMU keeps changes in a temporary file), so that ending it is a kill, and what
it runs on is never damaged. Which process it is stands in RUN; a stale pid is recognised by its
working directory.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from testbed.lab.errors import LabError
from testbed.numa import settings

QEMU_LOG = settings.CACHE / "qemu.log"
PID = settings.RUN / "pid"
KERNEL_ARGUMENTS = (
    "console=ttyS0 loglevel=4 panic=-1 mitigations=off tsc=reliable no_timer_check audit=0 "
    # The kernel's own balancing would move pages that a test has just put somewhere.
    "apparmor=0 cgroup_no_v1=all numa_balancing=disable"
)


def build() -> None:
    """Makes what is missing or outdated; instant where nothing is."""
    settings.SHARED.mkdir(parents=True, exist_ok=True)
    _make(str(settings.NUMA / "build"))
    _make("make", "-s", "-C", str(settings.NUMA / "guest"), f"OUT={settings.WRITER}")


def _make(*command: str) -> None:
    try:
        subprocess.run(command, check=True, timeout=settings.BUILD_DEADLINE_S)
    except subprocess.CalledProcessError:
        raise LabError(f"`{' '.join(command)}` failed: see above") from None
    except subprocess.TimeoutExpired:
        raise LabError(
            f"`{' '.join(command)}` is not done after {settings.BUILD_DEADLINE_S:.0f} s: "
            "run it by hand to see where it hangs"
        ) from None


def start(*, dies_with_caller: bool) -> None:
    end()
    settings.RUN.mkdir()
    last_words = _dying_with(os.getpid()) if dies_with_caller else []
    with QEMU_LOG.open("w") as log:
        process = subprocess.Popen(
            [*last_words, *qemu_argv()],
            cwd=settings.RUN,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    PID.write_text(str(process.pid))


def _dying_with(pid: int) -> list[str]:
    """Before a command: it ends once its parent does, and never begins if that is gone already."""
    still_there = f'[ "$PPID" = {pid} ] && exec "$@"'
    return ["setpriv", "--pdeathsig", "KILL", "sh", "-c", still_there, "sh"]


def find_pid() -> int | None:
    """Of the running machine."""
    try:
        pid = int(PID.read_text())
        cwd = os.readlink(f"/proc/{pid}/cwd")
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, ValueError):
        return None
    return pid if cwd == str(settings.RUN) and state != "Z" else None


def end() -> bool:
    """Whether there was a machine. Nothing of it is left but its console's log."""
    pid = find_pid()
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
        _wait_for_end()
    shutil.rmtree(settings.RUN, ignore_errors=True)
    return pid is not None


def _wait_for_end() -> None:
    deadline = time.monotonic() + 20
    while find_pid() is not None:
        if time.monotonic() > deadline:
            raise LabError(f"QEMU (pid {find_pid()}) survives SIGKILL: the machine is stuck in I/O")
        time.sleep(0.02)


def qemu_argv() -> list[str]:
    """Eight CPUs in four sockets, each with an L3 and a node of its own, on a ring of nodes."""
    cpus = settings.NODES * settings.CPUS_PER_NODE
    return [
        *("qemu-system-x86_64", "-name", "numa-lab", "-nodefaults", "-no-user-config"),
        *("-display", "none", "-no-reboot", "-accel", "tcg,thread=multi,tb-size=1024"),
        *("-machine", "pc,usb=off", "-cpu", "Nehalem,l3-cache=on"),
        *("-m", f"{settings.NODES * settings.NODE_MEMORY_MIB}M"),
        *("-smp", f"{cpus},sockets={settings.NODES},cores={settings.CPUS_PER_NODE},threads=1"),
        *_numa_argv(),
        *("-kernel", str(settings.KERNEL), "-initrd", str(settings.INITRD)),
        *("-append", KERNEL_ARGUMENTS),
        *("-drive", f"file={settings.DISK},format=raw,if=virtio,snapshot=on,cache=unsafe"),
        *("-chardev", f"file,id=console,path={settings.CONSOLE_LOG}", "-serial", "chardev:console"),
        *_channel_argv(),
        *_share_argv("checkout", str(settings.ROOT), ",readonly=on"),
        *_share_argv("cache", str(settings.SHARED)),
    ]


def _numa_argv() -> list[str]:
    argv = []
    for node in range(settings.NODES):
        first = node * settings.CPUS_PER_NODE
        cpus = f"cpus={first}-{first + settings.CPUS_PER_NODE - 1}"
        memory = f"memory-backend-ram,id=m{node},size={settings.NODE_MEMORY_MIB}M"
        argv += ["-object", memory, "-numa", f"node,nodeid={node},memdev=m{node},{cpus}"]
    pairs = [(a, b) for a in range(settings.NODES) for b in range(a + 1, settings.NODES)]
    for one, other in pairs:
        value = settings.distance(one, other)
        argv += ["-numa", f"dist,src={one},dst={other},val={value}"]
    return argv


def _channel_argv() -> list[str]:
    """Sockets by names relative to RUN: their paths are short, the checkout's may be long."""
    return [
        *("-device", "virtio-serial-pci"),
        *("-chardev", "socket,id=commands,path=commands,server=on,wait=off"),
        *("-device", "virtserialport,chardev=commands,name=numa.commands"),
        *("-chardev", "socket,id=shell,path=shell,server=on,wait=off"),
        *("-device", "virtconsole,chardev=shell"),
    ]


def _share_argv(tag: str, folder: str, more: str = "") -> list[str]:
    about = f"local,id={tag},path={folder},security_model=none,multidevs=remap{more}"
    return ["-fsdev", about, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
