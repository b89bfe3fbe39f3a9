# SPDX-License-Identifier: Apache-2.0
"""A guests driver whose guests also know which VP of several servers they are part of.

A flavor says so with `vp:group`. Where it does not, Nova's server group counts, of the policies
that the operator names: what its owner wants close together works together.
"""

from collections.abc import Callable, Iterable, Mapping

from nova_vp.core.types.guest import Guest
from nova_vp.host_facts import HostFacts
from vp_agent.drivers.base import GuestsDriver
from vp_agent.drivers.wrapped_guests import WrappedGuests


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


class GroupedGuests(WrappedGuests):
    def __init__(self, guests: GuestsDriver, groups: ServerGroups) -> None:
        super().__init__(guests)
        self._groups = groups

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
