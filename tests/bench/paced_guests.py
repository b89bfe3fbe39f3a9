# SPDX-License-Identifier: Apache-2.0
"""Real guests under the software PMU on a private libvirtd: dealt to caches, paused and measured.

Each boots once. A boot order is then the order in which paused guests go on, one after another,
each with its vCPUs on the CPUs it was dealt: as after a reboot of the host, for a tenth of the
time. What they run is the work of the lab's guest.
"""

import json
import os
import subprocess
import time
import uuid as uuids
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import libvirt

from testbed.lab import settings
from testbed.lab.errors import LabError
from testbed.lab.monitor import Console, vcpu_threads
from testbed.lab.waiting import wait_for
from tests.domain_xml import a_domain, nova_metadata
from tests.libvirt_host import LibvirtHost

VPMU = settings.ROOT / "testbed" / "vpmu"
GUEST_BUILD = settings.LAB / "guest" / "build"
SHIM = settings.CACHE / "numa_shim.so"
KERNEL, INITRD = settings.CACHE / "guest-vmlinuz", settings.CACHE / "guest-initrd"
COMMAND_LINE = "console=ttyS0 quiet panic=1 tsc=reliable mitigations=off nokaslr ipv6.disable=1"
MEMORY_MIB = 96
BOOT_DEADLINE_S = 120.0
LOOK_EVERY_S = 0.02
CPU_SHARES = 20480
"""Twenty times those of one ordinary process."""
BOOT_ATTEMPTS = 4
CLOCK_LINES = 4
CLOCK_ERROR_RATIO = 0.35
"""A smaller error is in all of a guest's rates alike."""
PLUGIN_XML = """\
<qemu:commandline xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0">
  <qemu:arg value="-plugin"/><qemu:arg value="{plugin},{options}"/>
</qemu:commandline>"""
SEVERAL_VCPUS_XML = "<features><acpi/><apic/></features>"
"""Without ACPI a guest finds one."""
JOBS_XML = '<serial type="unix"><source mode="bind" path="{path}"/><target port="1"/></serial>'
"""Where who plays the client of a guest hands out its jobs."""
BOOT_XML = "<kernel>{kernel}</kernel><initrd>{initrd}</initrd><cmdline>{command_line}</cmdline>"
INTERFACE_XML = """\
<interface type="bridge"><mac address="{mac}"/><source bridge="{bridge}"/>
  <target dev="{tap}"/><model type="virtio"/><rom enabled="no"/></interface>"""
CONSOLE_XML = '<serial type="file"><source path="{path}"/><target port="0"/></serial>'


@dataclass(frozen=True, slots=True)
class Measured:
    """One guest over one window."""

    rate: float
    """Operations per second, from what it printed."""
    mips: float
    mpki: float
    l2_mpki: float
    cpi: float
    debt_ratio: float
    write_mpki: float
    """Lines written back."""

    @property
    def read_lines_per_s(self) -> float:
        return self.mips * self.mpki * 1000

    @property
    def written_lines_per_s(self) -> float:
        return self.mips * self.write_mpki * 1000


@dataclass(frozen=True, slots=True)
class Interface:
    """Of a guest, on a bridge that is there."""

    bridge: str
    tap: str
    mac: str
    address: str
    """With the length of its network's prefix."""

    @property
    def xml(self) -> str:
        return INTERFACE_XML.format(mac=self.mac, bridge=self.bridge, tap=self.tap)


def build() -> None:
    """What the guests are made of, the first time from Debian's archive."""
    subprocess.run(["make", "-s", "-C", str(VPMU)], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([GUEST_BUILD], check=True, stdout=subprocess.DEVNULL)
    build_shim = ["make", "-s", "-C", str(settings.LAB / "shim"), f"OUT={SHIM}"]
    subprocess.run(build_shim, check=True)


class PacedGuest:
    def __init__(self, name: str, work: str, domain: libvirt.virDomain, console: Path) -> None:
        self.name = name
        self.jobs = _jobs_path(console)
        self.work = work
        self.domain = domain
        self.console = Console(console)
        self.tids: tuple[int, ...] = ()
        self.vcpus = 1 + work.count("+")
        """Each prints rates of its own."""

    def lines(self) -> int:
        """How many rates it has printed."""
        self.console.read()
        return len(self.console.rates)

    def mean_rate(self, first: int) -> float:
        """From that line on, by our clock: on a busy machine the guest's may lose some of its."""
        lines = self.console.rates[first:]
        done = sum(line.ops * (line.uptime_s - before.uptime_s) for before, line in pairwise(lines))
        return done / (lines[-1].at - lines[0].at)

    def clock_speed(self) -> float:
        """Seconds that it counts in one of ours, from its first lines on."""
        wait_for(self.lines, f"{self.name} to print rates", deadline_s=BOOT_DEADLINE_S)
        first, began_s = self.lines(), time.monotonic()
        wait_for(
            lambda: self.lines() >= first + CLOCK_LINES * self.vcpus,
            f"{self.name} to print rates",
            deadline_s=BOOT_DEADLINE_S,
        )
        return (self.lines() - first) / self.vcpus / (time.monotonic() - began_s)

    def place(self, cpus: Iterable[int]) -> None:
        for tid in self.tids:
            os.sched_setaffinity(tid, cpus)


def _jobs_path(console: Path) -> Path:
    return console.with_suffix(".jobs")


class PacedHost:
    """One modelled host with its guests; `cells` as the lab has them (`0+1`: one, two caches).
    `extra_specs`: of the flavor of each guest, by its name. `busy`: those whose stalls use CPU
    time, so that a cap is felt; a paced guest otherwise sleeps less and does as much.
    `modelled_cpus`: so many are shared out by the software PMU in place of the machine's; who asks
    for CPUs or sets them runs under `shimmed`."""

    def __init__(
        self,
        folder: Path,
        cells: str,
        pmu_options: Mapping[str, str],
        extra_specs: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        busy: Collection[str] = (),
        modelled_cpus: int = 0,
    ) -> None:
        self.folder = folder
        self._extra_specs = extra_specs
        self._busy = busy
        self.counters = folder / "vpmu"
        options = {**pmu_options, "cpus": str(modelled_cpus)}
        self._options = ",".join(f"{k}={v}" for k, v in options.items())
        self._cpuset = f"0-{modelled_cpus - 1}" if modelled_cpus else "0-1"
        (folder / "libvirt").mkdir()
        self._modelled_env = (
            {"NUMA_SHIM_VPMU": str(self.counters), "NUMA_SHIM_MODELLED_CPUS": str(modelled_cpus)}
            if modelled_cpus
            else {}
        )
        self.libvirt = LibvirtHost(
            folder / "libvirt",
            env=self._modelled_env,
            cells=cells,
            preload=SHIM if modelled_cpus else None,
        )
        self.guests: dict[str, PacedGuest] = {}
        self._interfaces: Mapping[str, Interface] = {}

    @property
    def models_cpus(self) -> bool:
        return bool(self._modelled_env)

    def start(
        self,
        works: Mapping[str, str],
        interfaces: Mapping[str, Interface] = MappingProxyType({}),
    ) -> None:
        """All guests booted and paused. One after another: a kernel that boots on a busy machine
        may take its clock for many times faster than it is."""
        self._interfaces = interfaces
        build()
        if self._modelled_env:
            self.counters.mkdir(mode=0o1777)
        self.libvirt.start()
        # Before whatever else this machine does: a guest that waits for a CPU falls into debt.
        shares = Path("/sys/fs/cgroup/cpu") / self.libvirt.name / "cpu.shares"
        shares.write_text(str(CPU_SHARES))
        for number, (name, work) in enumerate(works.items(), 1):
            self._boot_until_its_clock_is_right(number, name, work)
            self.guests[name].domain.suspend()

    def stop(self) -> None:
        self.libvirt.stop()

    def _boot_until_its_clock_is_right(self, number: int, name: str, work: str) -> None:
        for _ in range(BOOT_ATTEMPTS):
            guest = self.guests[name] = self._boot(number, name, work)
            speed = guest.clock_speed()
            if abs(speed - 1) <= CLOCK_ERROR_RATIO:
                guest.tids = tuple(vcpu_threads(self.libvirt.pid_of(guest.domain)).values())
                return
            guest.domain.destroy()
        raise LabError(
            f"{name}'s clock went {speed:.2f} times too fast in {BOOT_ATTEMPTS} boots: "
            "the machine is too busy, end other work"
        )

    def _boot(self, number: int, name: str, work: str) -> PacedGuest:
        console = self.folder / f"{name}.console"
        console.unlink(missing_ok=True)
        interface = self._interfaces.get(name)
        words = f"{COMMAND_LINE} work={work}"
        if interface:
            words += f" address={interface.address}"
        xml = a_domain(
            f"instance-{number:08x}",
            uuid=str(uuids.uuid5(uuids.NAMESPACE_DNS, name)),
            vcpus=work.count("+") + 1,
            cpuset=self._cpuset,
            metadata=nova_metadata(name, extra_specs=self._extra_specs.get(name)),
            memory_mib=MEMORY_MIB,
            boot=BOOT_XML.format(kernel=KERNEL, initrd=INITRD, command_line=words),
            devices=CONSOLE_XML.format(path=console)
            + (interface.xml if interface else "")
            + (JOBS_XML.format(path=_jobs_path(console)) if "jobs" in work else ""),
            body=(SEVERAL_VCPUS_XML if "+" in work else "")
            + PLUGIN_XML.format(
                plugin=VPMU / "vpmu.so",
                options=f"dir={self.counters},{self._options},busy={int(name in self._busy)}",
            ),
        )
        return PacedGuest(name, work, self.libvirt.boot(xml), console)

    def set_mhz(self, name: str, mhz: int) -> None:
        """How fast its modelled clock goes from now on."""
        argv = [str(VPMU / "vpmu"), "--dir", str(self.counters), "set"]
        subprocess.run([*argv, self.guests[name].domain.name(), "mhz", str(mhz)], check=True)

    @property
    def env(self) -> dict[str, str]:
        """Of a process that sees the modelled CPUs, where there are some."""
        shim = {**self._modelled_env, "LD_PRELOAD": str(SHIM)} if self.models_cpus else {}
        return {**os.environ, **shim}

    def shimmed(self, *argv: str) -> str:
        """What a command prints that sees the modelled CPUs."""
        return subprocess.run(argv, env=self.env, check=True, capture_output=True, text=True).stdout

    def pause(self) -> None:
        for guest in self.guests.values():
            guest.domain.suspend()

    def measure(
        self, names: Iterable[str], span_s: float, meanwhile: Callable[[], None] = lambda: None
    ) -> dict[str, Measured]:
        """The next seconds of these guests. `meanwhile` is called many times."""
        guests = {self.guests[name].domain.name(): self.guests[name] for name in names}
        printed = {name: guest.lines() for name, guest in guests.items()}

        def look() -> None:
            meanwhile()
            for guest in guests.values():
                guest.lines()

        rows = self.watch(guests.keys(), span_s, look)
        found = {}
        for row in rows:
            guest = guests[row["vm"]]
            found[guest.name] = Measured(
                rate=guest.mean_rate(printed[row["vm"]]),
                mips=row["mips"],
                mpki=row["llc_mpki"],
                l2_mpki=row["l2_mpki"],
                cpi=1 / row["ipc"],
                debt_ratio=row["debt_ratio"] or 0.0,
                write_mpki=row["write_mpki"] or 0.0,
            )
        return found

    def watch(
        self, domains: Iterable[str], span_s: float, meanwhile: Callable[[], object]
    ) -> list[dict[str, Any]]:
        argv = [str(VPMU / "vpmu"), "--dir", str(self.counters), "watch", *domains, "--json"]
        argv += ["--count", "1", "--interval-ms", str(int(span_s * 1000))]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as watch:
            while watch.poll() is None:
                meanwhile()
                time.sleep(LOOK_EVERY_S)
            assert watch.stdout is not None
            return [json.loads(line) for line in watch.stdout]
