# SPDX-License-Identifier: Apache-2.0
"""The host itself: libvirt and its servers, the caches, what cleans up after a dead agent."""

import ctypes
import filecmp
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from nova_vp.core.model.islands import faults, islands_of
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.island import Scheduler
from nova_vp.core.types.policy import Policy
from vp_agent.checks.finding import Finding, failure, ok, warning
from vp_agent.drivers.base import GuestsDriver
from vp_agent.drivers.connection import Connection

HOOK = Path("/etc/libvirt/hooks/qemu.d/nova-vp")
BALANCING = Path("/proc/sys/kernel/numa_balancing")
SYSTEMD = Path("/run/systemd/system")
TIMER = "vp-agent-release.timer"
_TIME_ERROR = 5
"""adjtimex(2): nobody keeps the clock."""


def libvirt(connection: Connection) -> Iterator[Finding]:
    number = connection.call(lambda opened: opened.getLibVersion())
    release = f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"
    yield ok("libvirt", f"{release} answers, with write access")


def servers(guests: GuestsDriver) -> Iterator[Finding]:
    """What Nova keeps for itself is no fault; it is told, since nobody is moved there."""
    found = guests.read()
    left = Counter(guest.unmanaged for guest in found if guest.unmanaged)
    why = ", ".join(f"{count} {reason.value}" for reason, count in sorted(left.items(), key=str))
    told = f"{len(found)} running" + (f"; unmanaged: {why}" if left else "")
    yield ok("servers", told)
    if left[Unmanaged.INVALID_SPEC]:
        told = f"{left[Unmanaged.INVALID_SPEC]} have an unknown vp: key or value"
        mend = "find it with `vp-agent status --json`, then correct the flavor"
        yield warning("servers", told, mend)


def caches(guests: GuestsDriver, balancing: Path = BALANCING) -> Iterator[Finding]:
    topology = guests.topology()
    count, nodes = len(topology.domains), len(topology.nodes)
    told = f"{count} last-level caches on {nodes} NUMA nodes, {len(topology.cpus)} CPUs"
    if count > 1:
        yield ok("caches", told)
    else:
        yield warning(
            "caches",
            f"{told}: a server cannot be moved to another cache",
            "no action is needed: aggressors can be capped, or limited to a share of the cache",
        )
    if nodes > 1 and _is_on(balancing):
        yield warning(
            "NUMA balancing",
            "the kernel moves memory between nodes by itself and overrides the agent",
            "set kernel.numa_balancing=0 with `sysctl -w` and in /etc/sysctl.d",
        )


def islands(guests: GuestsDriver, policy: Policy) -> Iterator[Finding]:
    """`[islands]` beside the CPUs that there are."""
    topology = guests.topology()
    found = islands_of(policy.islands, topology)
    kinds = Counter(island.scheduler.value for island in found)
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    yield ok("islands", counted if policy.islands else f"{counted}, one for each LLC")
    for name, told in faults(policy.islands, topology).items():
        yield failure("islands", f"island {name}: {told}", "correct [islands] layout")
    names = {one.controller.name for one in policy.controllers}
    needs = policy.host_cap_cores is not None or kinds.keys() - {Scheduler.FAIR.value}
    if needs and "overlays" not in names:
        told = "caps and exclusive CPUs do not hold without the controller overlays"
        yield warning("islands", told, "add overlays to [policy] controllers")


def _is_on(switch: Path) -> bool:
    try:
        return switch.read_text().strip() != "0"
    except OSError:
        return False


def migrate_hook(*, is_needed: bool, installed: Path = HOOK) -> Iterator[Finding]:
    """`is_needed`: what this agent applies travels with a migration."""
    name = "migrate hook"
    ours = resources.files("vp_agent") / "hooks/qemu.d/nova-vp"
    with resources.as_file(ours) as path:
        mend = f"install -D -m 755 {path} {installed}; systemctl restart libvirtd (or virtqemud)"
        if not installed.exists():
            told = (
                f"{installed} is missing: a migrated server arrives with settings of its old host"
            )
            yield (failure if is_needed else warning)(name, told, mend)
        elif not os.access(installed, os.X_OK):
            yield failure(name, f"{installed} is not executable", f"chmod 755 {installed}")
        elif not filecmp.cmp(path, installed, shallow=False):
            yield warning(name, f"{installed} is from another release", mend)
        else:
            yield ok(name, str(installed))


def release_timer(systemd: Path = SYSTEMD) -> Iterator[Finding]:
    name = "release timer"
    if not systemd.is_dir() or shutil.which("systemctl") is None:
        yield warning(
            name,
            "systemd is not running: no timer restores servers when the agent hangs",
            "run `vp-agent release --expired` every five seconds by other means",
        )
        return
    asked = ["systemctl", "is-active", "--quiet", TIMER]
    if subprocess.run(asked, stdin=subprocess.DEVNULL, check=False, timeout=10).returncode == 0:
        yield ok(name, f"{TIMER} is active")
    else:
        yield failure(
            name,
            f"{TIMER} is not active: the caps of a hung agent are never restored",
            f"systemctl enable --now {TIMER}",
        )


def clock() -> Iterator[Finding]:
    if ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512)) == _TIME_ERROR:
        told = "the clock is not synchronised: times of actions differ from those of other hosts"
        yield warning("clock", told, "install chrony, or enable systemd-timesyncd")
    else:
        yield ok("clock", "synchronised")
