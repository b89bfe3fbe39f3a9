# SPDX-License-Identifier: Apache-2.0
"""Whether a latency-critical server starves best-effort ones; what becomes of it then is in
`ruling.py`.

It does if it holds one back that has less than a quarter of what it could use. Who uses little of
what is left to it is not held back, and more vCPUs than there are CPUs are nobody's doing but of
those who have them.
"""

from collections.abc import Iterator, Mapping, Sequence

from nova_vp.core.controllers.base import View
from nova_vp.core.controllers.latency.seen import OwnCores, is_held_back
from nova_vp.core.controllers.latency.shares import divided
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.policy import Mode

STARVED_RATIO = 0.25
"""Of what it could use: who is left less is starved."""


def is_starving(view: View, own: OwnCores, guest: Guest, shares: Mapping[str, float]) -> bool:
    """Whether this latency-critical server starves one of another project. `shares`: by best-effort
    server what it leaves it."""
    guests = view.host.guests
    little = [
        (one, floor)
        for one, floor in _limited(view, guest, shares)
        if shares[one.uuid] < max(floor, STARVED_RATIO) * own[one.uuid]
    ]
    if not little:
        return False
    enough = unstarved_cores(own, [guests[uuid] for uuid in shares])
    return any(
        shares[one.uuid] < enough[one.uuid] and _is_held_back(view, one, shares[one.uuid])
        for one, _ in little
    )


def unstarved_cores(own: OwnCores, others: Sequence[Guest]) -> Mapping[str, float]:
    """With so much none of these best-effort servers is starved."""
    could_use = _could_use(own, others)
    return {
        one.uuid: max(
            (one.cap_floor_ratio or 0.0) * own[one.uuid], STARVED_RATIO * could_use[one.uuid]
        )
        for one in others
    }


def _limited(
    view: View, guest: Guest, shares: Mapping[str, float]
) -> Iterator[tuple[Guest, float]]:
    """Those of other projects that are really limited, each with the floor of its cap."""
    for uuid in shares:
        one = view.host.guests[uuid]
        if one.project_id == guest.project_id or one.cap_floor_ratio is None:
            continue
        if (one.mode or view.picture.mode) is Mode.ENFORCE:
            yield one, one.cap_floor_ratio


def _could_use(own: OwnCores, others: Sequence[Guest]) -> Mapping[str, float]:
    """If nobody else wanted their CPUs."""
    cpus = frozenset[int]().union(*{one.placement for one in others})
    return divided(own, float(len(cpus)), others)


def _is_held_back(view: View, guest: Guest, share: float) -> bool:
    """By no less than its cap, which is never below the least. Who cannot be measured may be."""
    said = is_held_back(view, guest, max(share / guest.vcpus, guest.quota.cores))
    return said is None or said
