# SPDX-License-Identifier: Apache-2.0
"""Islands of kind `exclusive`: each vCPU has a CPU of its own.

Who is pinned stays so; a server for which CPUs are lacking shares the island until there are
enough.
"""

from collections.abc import Iterable

from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.island import Island
from nova_vp.core.types.knob import Cpus, all_cpus


def pins_of(desk: Desk, island: Island) -> dict[str, Cpus]:
    """By server that has its CPUs, or can have them."""
    inside = [one for one in desk.on(island.cpus) if desk.home(one) == island]
    pinned = {one.uuid: one.cpus for one in _in_order(inside) if _is_pinned(one, island)}
    free = sorted(island.cpus - frozenset().union(*map(all_cpus, pinned.values())))
    for guest in _in_order(inside):
        mine = [cpu for cpu in free if cpu in guest.allowed_cpus][: guest.vcpus]
        if guest.uuid not in pinned and len(mine) == guest.vcpus:
            pinned[guest.uuid] = tuple(frozenset({cpu}) for cpu in mine)
            free = [cpu for cpu in free if cpu not in mine]
    return pinned


def _in_order(guests: Iterable[Guest]) -> list[Guest]:
    return sorted(guests, key=lambda one: one.uuid)


def _is_pinned(guest: Guest, island: Island) -> bool:
    cpus = guest.cpus
    return (
        len(cpus) == guest.vcpus
        and all(len(one) == 1 for one in cpus)
        and len(all_cpus(cpus)) == guest.vcpus
        and all_cpus(cpus) <= island.cpus
    )
