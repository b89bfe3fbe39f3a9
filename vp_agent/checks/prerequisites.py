# SPDX-License-Identifier: Apache-2.0
"""By which means the agent measures, acts and is heard: sources, rights, folders, the bus."""

import os
import resource
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from oslo_config import cfg

from nova_vp.service.run_dir import is_agent_running
from vp_agent.calibration.record import Calibration
from vp_agent.checks.finding import Finding, failure, ok, warning
from vp_agent.cli.release import LEASE_S
from vp_agent.drivers import cgroups
from vp_agent.drivers.base import CountersUnavailable, GuestsDriver
from vp_agent.drivers.capabilities import (
    CAP_DAC_OVERRIDE,
    CAP_NET_RAW,
    CAP_SYS_NICE,
    CAP_SYS_PTRACE,
    has_capability,
)
from vp_agent.drivers.counters import OpenedCounters
from vp_agent.drivers.numa_nodes import with_cpus_and_memory
from vp_agent.loop.control_socket import RunFolder
from vp_agent.loop.state import StateFolder
from vp_agent.monitors.runner import open_monitors

LEAST_FREE_BYTES = 16 << 20
PER_VCPU = 5
"""Descriptors of one vCPU's counters."""
VPMU = "vpmu"
CPUINFO = Path("/proc/cpuinfo")
UNIT = "give the unit AmbientCapabilities="
Holds = Callable[[int], bool]


def counters(open_them: Callable[[], OpenedCounters], guests: GuestsDriver) -> Iterator[Finding]:
    try:
        opened = open_them()
    except CountersUnavailable as exc:
        yield _no_source([line for line in str(exc).splitlines() if not line.endswith(":")])
        return
    opened.driver.close()
    yield ok("counters", opened.driver.name)
    for line in opened.passed_over:
        yield ok("counters", f"not used: {line}")
    if opened.driver.name == "perf":
        yield from _descriptors(sum(guest.vcpus for guest in guests.read()))


def _no_source(lines: Iterable[str]) -> Finding:
    """One failure, however many sources lack the same; test hosts' own comes last."""
    lacking: dict[str, list[str]] = {}
    for line in sorted(lines, key=lambda line: line.startswith(f"{VPMU}: ")):
        source, _, reason = line.partition(": ")
        lacking.setdefault(reason, []).append(source)
    told = [f"{', '.join(lacking[why])}: {why.partition('. ')[0]}" for why in lacking]
    mends = [mend for why in lacking if (mend := why.partition(". ")[2])]
    return failure("counters", "; ".join(told), mends[0] if mends else "see [agent] counters")


def _descriptors(vcpus: int) -> Iterator[Finding]:
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if vcpus * PER_VCPU > most // 2:
        told = f"{vcpus} vCPUs need up to {vcpus * PER_VCPU} file descriptors; {most} are allowed"
        yield warning("descriptors", told, f"set LimitNOFILE={4 * vcpus * PER_VCPU} in the unit")


def rights(
    conf: cfg.ConfigOpts, helpers: Mapping[int, str], holds: Holds = has_capability
) -> Iterator[Finding]:
    """`helpers`: by capability, the command that starts a privileged helper; empty: none."""
    if conf.agent.actuator != "kernel":
        yield ok("rights", f"actuator {conf.agent.actuator} needs access to libvirt only")
        return
    needed = {
        CAP_SYS_NICE: ("CAP_SYS_NICE", "vCPUs cannot be placed", "vp_agent_sys_nice"),
        CAP_DAC_OVERRIDE: ("CAP_DAC_OVERRIDE", "CPU cannot be capped", "vp_agent_dac_override"),
    }
    for number, (name, without, group) in needed.items():
        if holds(number):
            yield ok("rights", f"{name} is held")
        elif helpers.get(number):
            yield ok("rights", f"{name} by a helper: {helpers[number]}")
        else:
            mend = f"{UNIT}{name}, or set [{group}] helper_command"
            yield failure("rights", f"{name} is missing: {without}", mend)


def cgroup() -> Iterator[Finding]:
    try:
        found = cgroups.mount()
    except cgroups.NoCpuGroup as exc:
        yield failure(
            "cgroups", f"{exc}: CPU cannot be capped", "mount the cgroup controller `cpu`"
        )
        return
    version = "2 (unified)" if found.is_unified else "1"
    yield ok("cgroups", f"version {version} at {found.target}")


def partition(why_not: str, cpuinfo: Path = CPUINFO) -> Iterator[Finding]:
    name = "cache partitions"
    if not why_not:
        yield ok(name, "resctrl")
    elif {"cat_l3", "mba"} & set(cpuinfo.read_text().split()):
        told, _, mend = why_not.partition(". ")
        yield warning(name, told, mend or "see Cache partitions in the operator's guide")
    else:
        yield ok(name, "none: this CPU cannot partition its cache")


def memory(
    conf: cfg.ConfigOpts, nodes: int, helper: str, holds: Holds = has_capability
) -> Iterator[Finding]:
    name = "memory moves"
    if nodes < 2:
        yield ok(name, "none: the host has one NUMA node")
    elif conf.agent.memory == "none":
        yield ok(name, "none: [agent] memory = none")
    elif holds(CAP_SYS_PTRACE) or helper:
        yield ok(name, f"between {nodes} nodes")
    else:
        yield warning(
            name,
            "CAP_SYS_PTRACE is missing: memory cannot be moved",
            "install etc/nova-vp/numa.conf as a drop-in of the units, or set "
            "[vp_agent_sys_ptrace] helper_command, or [agent] memory = none",
        )


def monitors(conf: cfg.ConfigOpts, holds: Holds = has_capability) -> Iterator[Finding]:
    name = "monitors"
    try:
        opened = open_monitors(conf.agent.monitors)
    except cfg.Error:
        return  # Told with the rest of the configuration.
    for which, monitor in opened:
        monitor.close()
        if CAP_NET_RAW not in monitor.capabilities or holds(CAP_NET_RAW):
            yield ok(name, which)
        else:
            told = f"CAP_NET_RAW is missing: {which} sees no packets"
            mend = "install etc/nova-vp/network.conf as a drop-in of vp-agent.service"
            yield failure(name, told, mend)


def folders(conf: cfg.ConfigOpts) -> Iterator[Finding]:
    for option in ("state_directory", "run_directory"):
        yield _folder(f"[agent] {option}", Path(conf.agent[option]))


def _folder(option: str, folder: Path) -> Finding:
    there = folder
    while not there.exists():
        there = there.parent
    if not os.access(there, os.W_OK | os.X_OK):
        mend = f"chown it to the user of vp-agent, or set {option} to a directory of that user"
        return failure("folders", f"{there} is not writable", mend)
    free = shutil.disk_usage(there).free
    if free < LEAST_FREE_BYTES:
        return failure("folders", f"{there} has {free >> 10} KiB free", "free disk space there")
    return ok("folders", f"{folder} is writable" if folder == there else f"{folder} can be created")


def calibration(
    conf: cfg.ConfigOpts, nodes: Callable[[], tuple[int, ...]] = with_cpus_and_memory
) -> Iterator[Finding]:
    folder = Path(conf.agent.state_directory)
    state = StateFolder(str(folder)) if folder.is_dir() else None
    found = state.calibration() if state else None
    measured = _nodes_of(found)
    if state and found is None and state.has_calibration():
        told = "the stored calibration cannot be read, and is not used"
        yield warning("calibration", told, "run `vp-agent calibrate`, which replaces it")
    elif measured and (here := nodes()) and measured != here:
        told = (
            f"the calibration has curves of nodes {_listed(measured)}, and this host has CPUs and "
            f"memory on nodes {_listed(here)}"
        )
        yield warning("calibration", told, "run `vp-agent calibrate` again on this host")
    elif found and found.is_of_earlier_release:
        told = "the memory limits were measured by an earlier release, without latency curves"
        mend = "run `vp-agent calibrate` again: the next release does not read this file"
        yield warning("calibration", told, mend)
    elif found or conf.agent.node_limit_misses_per_s:
        yield ok("calibration", "the memory limits are known")
    else:
        told = (
            "memory limits are unknown: overloaded links are not detected, and memory controllers "
            "only by [policy] hot_node_mpki"
        )
        yield warning(
            "calibration", told, "run `vp-agent calibrate`, best before servers run on this host"
        )


def _nodes_of(found: Calibration | None) -> tuple[int, ...]:
    curves = found.limits.curves if found else ()
    return tuple(sorted({node for one in curves for node in (one.cpu_node, one.memory_node)}))


def _listed(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, nodes))


def running_agent(folder: RunFolder) -> Iterator[Finding]:
    """Whether one runs here now is no requirement, but one that hangs is a fault."""
    silent_s = folder.silent_for_s()
    if not is_agent_running(folder.path):
        yield ok("agent", "not running")
    elif silent_s is None or silent_s < LEASE_S:
        yield ok("agent", "running")
    else:
        told = f"running, but its last heartbeat is {silent_s:.0f} s old"
        yield failure("agent", told, "see its log, then `systemctl restart vp-agent`")


def keys(conf: cfg.ConfigOpts) -> Iterator[Finding]:
    """Only a warning, as of the bus."""
    from nova_vp.signing.keyring import BadKey
    from vp_agent import wiring

    identity = wiring.bus_identity(conf)
    try:
        identity.check()
    except cfg.Error as exc:
        bad = exc.__cause__ if isinstance(exc.__cause__, BadKey) else BadKey(str(exc))
        mend = bad.mend or "correct the option"
        yield warning("keys", bad.fault, f"{mend}; without keys this host works alone")
    else:
        yield ok("keys", f"signs as {identity.sender}")


def bus(conf: cfg.ConfigOpts) -> Iterator[Finding]:
    """Only a warning: a host looks after itself without."""
    # Late: it brings oslo.messaging.
    import oslo_messaging

    from nova_vp import rpctransport

    try:
        rpctransport.reach(conf)
    except oslo_messaging.MessagingException as exc:
        told = f"RabbitMQ does not answer or refuses the connection: {str(exc).splitlines()[0]}"
        mend = (
            "check [bus] transport_url (or [DEFAULT] transport_url) and the broker, and that "
            "rabbitmq.json was imported which came with this host's vp-agent.conf"
        )
        yield warning("bus", told, f"{mend}; without the bus this host works alone")
    else:
        yield ok("bus", "RabbitMQ accepts messages")
