# SPDX-License-Identifier: Apache-2.0
"""Which islands use their caps together: those that a server joins by running in several of them.

The cap of the host bounds the sum over its islands, and no more than that. An island that is capped
itself is alone: of a server that also runs elsewhere it has the part on its CPUs.
"""

from typing import NamedTuple

from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.controllers.overlays.lending import cap_of
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.island import Island, Scheduler


class Pool(NamedTuple):
    islands: tuple[Island, ...]
    cap_cores: float

    @property
    def cpus(self) -> frozenset[int]:
        return frozenset().union(*(one.cpus for one in self.islands))


def pools_of(desk: Desk, joining: list[Guest]) -> list[Pool]:
    """Of all islands that have a cap now. `joining` are servers that can be limited."""
    pools: list[Pool] = []
    for island in desk.view.islands:
        cap = cap_of(desk, island)
        if cap is None:
            continue
        new = Pool((island,), cap)
        joined = [one for one in pools if _is_joined(one, island, joining)]
        for one in joined:
            new = Pool(one.islands + new.islands, one.cap_cores + new.cap_cores)
        pools = [*(one for one in pools if one not in joined), new]
    return pools


def _is_joined(pool: Pool, island: Island, joining: list[Guest]) -> bool:
    if Scheduler.CAPPED in {one.scheduler for one in (*pool.islands, island)}:
        return False
    return any(one.placement & pool.cpus and one.placement & island.cpus for one in joining)


def part_of(desk: Desk, guest: Guest, pool: Pool) -> float:
    """Share of what the server uses that counts for the pool: by its CPUs there."""
    home = desk.home(guest)
    if home is not None:
        return 1.0 if home in pool.islands else 0.0
    return len(guest.placement & pool.cpus) / len(guest.placement)
