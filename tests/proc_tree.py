# SPDX-License-Identifier: Apache-2.0
"""A folder that looks like /proc and the cgroups of a machine, as far as CPU times are read."""

from dataclasses import dataclass
from pathlib import Path

from vp_agent.drivers.base import VcpuThreads

PID = 700
LINES = {1: "33 31 0:30 / {} rw - cgroup cgroup rw,cpu\n", 2: "33 31 0:30 / {} rw - cgroup2 c rw\n"}
BELOW = {
    1: "machine/qemu-1.libvirt-qemu",
    2: r"machine.slice/machine-qemu\x2d1.scope/libvirt",
}


@dataclass(frozen=True)
class ProcTree:
    """One guest on a machine with cgroups of version 1 or 2."""

    folder: Path
    version: int

    @property
    def proc(self) -> Path:
        return self.folder / "proc"

    @property
    def scope(self) -> str:
        """The group of the guest as a whole."""
        return BELOW[self.version].removesuffix("/libvirt")

    def boot(self, vcpus: int = 2) -> VcpuThreads:
        (self.proc / "self").mkdir(parents=True)
        mount = LINES[self.version].format(self.folder / "cgroup")
        (self.proc / "self/mountinfo").write_text(mount)
        (self.proc / "stat").write_text("cpu  100 0 50 800 0 0 0 50 0 0\nintr 1 2 3\n")
        tids = tuple(range(PID + 1, PID + 1 + vcpus))
        for number, tid in enumerate(tids):
            group = f"{BELOW[self.version]}/vcpu{number}"
            self.move(tid, group)
            (self.proc / f"{PID}/task/{tid}").mkdir(parents=True)
            self.runs(tid, ran_ns=1, run_delay_ns=0)
        return VcpuThreads("u", "instance-1", PID, tids, "700-1-abc")

    def move(self, tid: int, group: str) -> None:
        """Into this group, which is made with all above it."""
        (self.proc / str(tid)).mkdir(parents=True, exist_ok=True)
        controllers = "4:cpu,cpuacct:" if self.version == 1 else "0::"
        (self.proc / f"{tid}/cgroup").write_text(f"{controllers}/{group}\n")
        folder = self.folder / "cgroup"
        for name in group.split("/"):
            folder /= name
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / "cpu.stat").exists():
                self.throttle(str(folder.relative_to(self.folder / "cgroup")), 0)

    def runs(self, tid: int, ran_ns: int, run_delay_ns: int, slices: int = 9) -> None:
        """In all until now."""
        path = self.proc / f"{PID}/task/{tid}/schedstat"
        path.write_text(f"{ran_ns} {run_delay_ns} {slices}\n")

    def throttle(self, group: str, throttled_ms: int) -> None:
        """In all until now."""
        name, number = (
            ("throttled_time", throttled_ms * 10**6)
            if self.version == 1
            else ("throttled_usec", throttled_ms * 10**3)
        )
        text = f"nr_periods 40\nnr_throttled 3\n{name} {number}\nnr_bursts 0\n"
        (self.folder / "cgroup" / group / "cpu.stat").write_text(text)

    def throttle_vcpu(self, number: int, throttled_ms: int) -> None:
        self.throttle(f"{BELOW[self.version]}/vcpu{number}", throttled_ms)
