# SPDX-License-Identifier: Apache-2.0
"""What is wrong on hosts of the lab after a storm, by witnesses that are not ours: the kernel,
libvirt's XML (live and persistent) and Nova.

Whoever asks has everything run again, and has the agents give everything back.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from xml.etree import ElementTree

from testbed.lab import cloud
from testbed.lab.errors import LabError
from tests.lab.held import Given, Held, orphans
from tests.lab.hosts import HOSTS, cgroup_values, domain_xml

SHARES_OF_VCPU = 1024
"""That Nova's domains have without an extra spec, and libvirt's groups of their threads."""
_WEIGHT = re.compile(r"/[^/]*instance-[^/]*/cpu\.shares$")
_WEIGHT_OF_THREADS = re.compile(r"/(emulator|(iothread|vcpu)\d+)/cpu\.shares$")


class Verdict(NamedTuple):
    orphans: tuple[str, ...]
    """What of ours stands on a server."""
    lost: tuple[str, ...]
    """Servers that are not where Nova says, or that Nova does not have any more."""
    doubled: tuple[str, ...]
    """Servers that two hosts have."""

    @property
    def is_well(self) -> bool:
        return not (self.orphans or self.lost or self.doubled)


def judge(admin: Any, made: Iterable[str]) -> Verdict:
    """`made`: ids of all servers that were created and that nobody deleted."""
    servers = {one.id: one for one in admin.compute.servers(all_projects=True)}
    domains = {host: domains_of(host) for host in HOSTS}
    hosts_of: dict[str, list[str]] = defaultdict(list)
    for host, found in domains.items():
        for uuid in found:
            hosts_of[uuid].append(host)
    lost = [f"{uuid}: Nova does not have it" for uuid in made if uuid not in servers]
    lost += [
        f"{uuid}: Nova says {one.status} on {one.compute_host}, domains are on {hosts_of[uuid]}"
        for uuid, one in servers.items()
        if one.status == "ERROR" or one.compute_host not in hosts_of[uuid]
    ]
    doubled = [f"{uuid}: on {', '.join(on)}" for uuid, on in hosts_of.items() if len(on) > 1]
    left = [
        f"{uuid}: a domain of {host} that Nova does not have"
        for uuid, on in hosts_of.items()
        for host in on
        if uuid not in servers
    ]
    for host, found in domains.items():
        for uuid, name in found.items():
            if uuid in servers:
                left += [f"{uuid} on {host}: {what}" for what in of_ours(host, uuid, name)]
    return Verdict(tuple(left), tuple(lost), tuple(doubled))


def domains_of(host: str) -> Mapping[str, str]:
    """Names by UUID, of all that libvirt has there."""
    listed = cloud.shell(host, "virsh", "list", "--all", "--uuid", "--name").stdout
    pairs = (line.split() for line in listed.splitlines() if line.strip())
    return {uuid: name for uuid, name in pairs}


def of_ours(host: str, uuid: str, name: str) -> list[str]:
    try:
        found = orphans(host, Held(uuid, name, ""), Given())
        tree = ElementTree.fromstring(domain_xml(host, name))
    except (LabError, OSError) as exc:
        return [f"cannot be looked at: {exc}"]
    vcpus = int(tree.findtext("vcpu", "1"))
    values = cgroup_values(host, name)
    for kind, right in ((_WEIGHT, SHARES_OF_VCPU * vcpus), (_WEIGHT_OF_THREADS, SHARES_OF_VCPU)):
        weights = {int(value) for path, value in values.items() if kind.search(path)}
        if wrong := weights - {right}:
            found.append(f"CPU weights {sorted(wrong)} instead of {right}")
    given, now = tree.findtext("memory"), tree.findtext("currentMemory")
    if given != now:
        found.append(f"{now} of {given} KiB of its memory")
    return found
