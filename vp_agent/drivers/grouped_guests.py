# SPDX-License-Identifier: Apache-2.0
"""A guests driver whose guests also know which VP of several servers they are part of.

A flavor says so with `vp:group`. Where it does not, Nova's server group counts, of the policies
that the operator names: what its owner wants close together works together.
"""

from collections.abc import Callable, Iterable, Mapping

from nova_vp.core.types.cpu_time import HostCpuTimes
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.topology import Topology
from nova_vp.host_facts import HostFacts
from vp_agent.drivers.base import GuestsDriver, VcpuThreads


class ServerGroups:
    """By server, the id of its server group; worked out once for all that was told at one time."""

    def __init__(self, facts: Callable[[], HostFacts], policies: Iterable[str]) -> None:
        self._facts = facts
        self._policies = frozenset(policies)
        self._known: HostFacts | None = None
        self._groups: Mapping[str, str] = {}

    def by_server(self) -> Mapping[str, str]:
        facts = self._facts()
        if facts is not self._known:
            self._known = facts
            self._groups = {
                uuid: group.id
                for group in facts.groups
                if group.policy in self._policies
                for uuid in group.members
            }
        return self._groups


class GroupedGuests:
    def __init__(self, guests: GuestsDriver, groups: ServerGroups) -> None:
        self._guests = guests
        self._groups = groups

    def topology(self) -> Topology:
        return self._guests.topology()

    def read(self) -> tuple[Guest, ...]:
        guests, groups = self._guests.read(), self._groups.by_server()
        if not groups:
            return guests
        return tuple(
            guest._replace(group=groups[guest.uuid])
            if not guest.group and guest.uuid in groups
            else guest
            for guest in guests
        )

    def stopped(self) -> frozenset[str]:
        return self._guests.stopped()

    def host_name(self) -> str:
        return self._guests.host_name()

    def threads(self) -> tuple[VcpuThreads, ...]:
        return self._guests.threads()

    def host_cpu(self) -> HostCpuTimes | None:
        return self._guests.host_cpu()

    def close(self) -> None:
        self._guests.close()
