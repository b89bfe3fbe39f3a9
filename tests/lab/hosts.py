# SPDX-License-Identifier: Apache-2.0
"""What lab tests say to hosts and look up there; no assertions."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nova_vp.core.types.detection import Kind
from testbed.lab import cloud
from testbed.lab.errors import LabError
from testbed.lab.monitor import agent_status, qemu_pid, vcpu_cpus, vcpu_threads, vp_of
from vp_agent.cli.status import render
from vp_agent.loop.control_socket import NoAgent, RunFolder, ask

HOSTS = ("vp1", "vp2")
BOTH_CPUS = frozenset({0, 1})


def run_folder(host: str) -> RunFolder:
    return RunFolder(f"/proc/{cloud.host_pid(host)}/root/run/nova-vp")


def order(host: str, do: str, value: str = "") -> Any:
    """To the agent of a host, as soon as it runs."""

    def answered() -> tuple[Any] | None:
        try:
            return (ask(run_folder(host), do, value),)
        except NoAgent:
            return None

    return cloud.wait_for(answered, f"the agent of {host} to answer", deadline_s=60)[0]


def set_mode(host: str, mode: str) -> None:
    order(host, "mode", mode)


def vp(host: str, server_id: str) -> Mapping[str, Any] | None:
    try:
        return vp_of(agent_status(host), server_id)
    except NoAgent:
        return None


def wait_for_vp(host: str, server_id: str, what: str, accept: Any, deadline_s: float = 120) -> Any:
    """Until the agent of the host sees the server as `accept` wants it; what it sees then."""

    def seen() -> Mapping[str, Any] | None:
        one = vp(host, server_id)
        return one if one is not None and accept(one) else None

    try:
        return cloud.wait_for(seen, what, deadline_s=deadline_s)
    except LabError as exc:
        # Of a server that is not as expected, its neighbours are the first suspects.
        raise LabError(f"{exc} of {server_id}; as {host} sees it:\n{table(host)}") from exc


def is_degraded_at_cache(one: Mapping[str, Any]) -> bool:
    """A guest that boots beside it may make it wait for CPU first: that is another harm, and over
    before the first one begins."""
    return bool(one["interference"]) and one["interference"]["kind"] == Kind.CACHE.value


def table(host: str) -> str:
    try:
        return render(agent_status(host))
    except NoAgent as exc:
        return str(exc)


def wait_until_homed(host: str, server_id: str) -> int:
    """The LLC domain that the agent chose."""
    seen = wait_for_vp(
        host, server_id, "the agent to home it", lambda one: len(one["domains"]) == 1
    )
    return int(seen["domains"][0])


def wait_until_measured(host: str, server_id: str, state: int | None = None) -> None:
    def is_measured(one: Mapping[str, Any]) -> bool:
        return one["state"] is not None and state in (None, one["state"])

    wait_for_vp(host, server_id, f"the agent to see state {state}", is_measured)


def affinities(server_id: str) -> dict[int, frozenset[int]]:
    """Allowed CPUs of each vCPU thread, from the kernel."""
    pid = qemu_pid(server_id)
    assert pid is not None
    return {n: frozenset(os.sched_getaffinity(tid)) for n, tid in vcpu_threads(pid).items()}


def placement(server_id: str) -> frozenset[int]:
    pid = qemu_pid(server_id)
    assert pid is not None
    return vcpu_cpus(pid)


def cgroup_values(host: str, instance_name: str) -> dict[str, str]:
    """The CPU limits of a server's cgroups, by file: what undo must leave as it found them."""
    names = ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares", "cpuset.cpus")
    found = {}
    root = Path(f"/proc/{cloud.host_pid(host)}/root/sys/fs/cgroup")
    for controller in ("cpu", "cpuset"):
        for path in sorted((root / controller).rglob("*")):
            if path.name in names and instance_name in str(path):
                found[str(path.relative_to(root))] = path.read_text().strip()
    return found


def domain_xml(host: str, instance_name: str, *options: str) -> str:
    return cloud.shell(host, "virsh", "dumpxml", instance_name, *options).stdout
