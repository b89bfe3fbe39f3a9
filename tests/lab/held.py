# SPDX-License-Identifier: Apache-2.0
"""A pin and a cap of ours on servers, and what a host keeps of such: the search for orphans.

Three witnesses, none of whom is ours: libvirt's XML (live and persistent), the kernel's affinity of
every thread, and the cgroups' quotas. The journal is the fourth; it must not stay either.
"""

import os
import re
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from testbed.lab import cgroups, cloud, settings
from testbed.lab.monitor import qemu_pid
from tests.lab.hosts import affinities, cgroup_values

JOURNAL = "urn:nova-vp:1"
BOTH = "0-1"
_VCPU_QUOTA = re.compile(r"/vcpu\d+/cpu.cfs_quota_us$")


class Given(NamedTuple):
    """What Nova gave a server: the values that must be there without us."""

    quota_us: int = -1


class Held(NamedTuple):
    """A server that we hold, through one of the two actuators."""

    server_id: str
    instance: str
    actuator: str


def hold(host: str, servers: Iterable[Held]) -> None:
    """Pin and cap these on the host, as its agent would: it stands still meanwhile, since it never
    meets an entry of its own of which half is done.
    """
    words = [f"{one.server_id}={one.actuator}" for one in servers]
    with _standing_still(f"vp-agent@{host}"):
        done = cloud.shell(host, str(settings.PYTHON), "-m", "tests.lab.hold", *words)
    lines = done.stdout.splitlines()
    assert len(lines) == len(words), done
    for line in lines:
        assert line.split()[2] == "applied", line


@contextmanager
def _standing_still(service: str) -> Iterator[None]:
    pid = cloud.service_pid(service)
    if pid is None:
        yield
        return
    os.killpg(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(pid, signal.SIGCONT)


def missing(host: str, one: Held) -> list[str]:
    """What does not stand as `hold` left it, by the kernel's word and the journal's."""
    found = [] if JOURNAL in _xml(host, one.instance) else ["journal"]
    if (allowed := set(affinities(one.server_id).values())) != {frozenset({0})}:
        found.append(f"vCPUs on {sorted(map(sorted, allowed))}")
    if (quotas := _quotas(host, one.instance)) != {50_000}:
        found.append(f"cgroup quotas {sorted(quotas)}")
    return found


def orphans(host: str, one: Held, given: Given) -> list[str]:
    """What of ours stands on a server that nobody should hold any more; empty: nothing."""
    live = _xml(host, one.instance)
    found = [f"live XML: {what}" for what in _in_xml(live, given)]
    persistent = _xml(host, one.instance, "--inactive")
    found += [f"persistent XML: {what}" for what in _in_xml(persistent, given)]
    bound, quotas = _affinities(host, one.server_id), _quotas(host, one.instance)
    if _runs(live) and not (bound and quotas):
        found.append(f"it runs, and was not seen: {len(bound)} affinities, quotas {sorted(quotas)}")
    if narrow := bound - {frozenset({0, 1})}:
        found.append(f"threads bound to {sorted(map(sorted, narrow))}")
    if wrong := quotas - {given.quota_us}:
        found.append(f"cgroup quotas {sorted(wrong)} instead of {given.quota_us}")
    return found


def _runs(live: str) -> bool:
    """libvirt numbers those that run."""
    return "id" in ElementTree.fromstring(live).attrib


def leftovers(host: str, one: Held) -> list[str]:
    """What a host that the server left knows of it."""
    found = [f"domain {one.instance}" for name in _domains(host) if name == one.instance]
    found += [f"cgroup {path}" for path in cgroup_values(host, one.instance)]
    return found


def _in_xml(text: str, given: Given) -> list[str]:
    """Pins to the whole bound are what an undone pin leaves; libvirt can take none out again."""
    domain = ElementTree.fromstring(text)
    found = ["journal"] if JOURNAL in text else []
    for kind in ("vcpupin", "emulatorpin", "iothreadpin"):
        pins = domain.iterfind(f"cputune/{kind}")
        found += [f"{kind} {p.get('cpuset')}" for p in pins if p.get("cpuset") != BOTH]
    quota = int(domain.findtext("cputune/quota", "-1"))
    if quota != given.quota_us:
        found.append(f"quota {quota} instead of {given.quota_us}")
    return found


def _xml(host: str, instance: str, *options: str) -> str:
    return cloud.shell(host, "virsh", "dumpxml", instance, *options).stdout


def _domains(host: str) -> list[str]:
    return cloud.shell(host, "virsh", "list", "--all", "--name").stdout.split()


def _affinities(host: str, server_id: str) -> set[frozenset[int]]:
    """Of every thread of its emulator on that host; while it migrates there is another elsewhere,
    and none where it is shelved.
    """
    found: set[frozenset[int]] = set()
    pid = qemu_pid(server_id, cgroups.read_pids(host))
    if pid is None:
        return found
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found.add(frozenset(os.sched_getaffinity(int(task.name))))
        except ProcessLookupError:
            continue
    return found


def _quotas(host: str, instance: str) -> set[int]:
    found = cgroup_values(host, instance)
    return {int(value) for path, value in found.items() if _VCPU_QUOTA.search(path)}
