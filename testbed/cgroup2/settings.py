# SPDX-License-Identifier: Apache-2.0
"""The hardware of the machine with systemd and unified cgroups, and what it is made by."""

from testbed.emulated.machine import ROOT, Machine

CPUS = 2
MEMORY_MIB = 2560

MACHINE = Machine(
    command="cgroup2-lab",
    about="An emulated machine with systemd, libvirt and unified cgroups (version 2).",
    cache=ROOT / ".cache" / "cgroup2",
    marker="CGROUP2_LAB",
    builds=((str(ROOT / "testbed" / "cgroup2" / "build"),),),
    hardware=(
        *("-machine", "pc,usb=off", "-cpu", "Nehalem,l3-cache=on", "-m", f"{MEMORY_MIB}M"),
        # Two sockets: each CPU has an L3 of its own, so that servers can be moved to another one.
        *("-smp", f"{CPUS},sockets={CPUS},cores=1,threads=1"),
    ),
    kernel_arguments=(
        "root=/dev/vda rw console=ttyS0 loglevel=4 panic=-1 mitigations=off tsc=reliable "
        "no_timer_check audit=0 systemd.unified_cgroup_hierarchy=1"
    ),
    boot_deadline_s=1800.0,
)
