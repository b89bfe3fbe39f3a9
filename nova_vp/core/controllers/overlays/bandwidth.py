# SPDX-License-Identifier: Apache-2.0
"""Whether memory controllers can serve what lent CPUs would ask of them (thesis 2013, 4.3.3).

By LLC misses per second where the host is calibrated; else by the thesis's own measure, the sum of
LLC misses per 1000 instructions, and its limit.
"""

from collections.abc import Sequence

from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.sample import Sample

BUSY_RATIO = 0.9
"""Of what a memory controller serves, beyond which no CPU is lent that adds to it."""


def full_node(desk: Desk, guests: Sequence[Guest], cpus: int) -> int | None:
    """Whose memory controller cannot serve what these would add with so many CPUs more, in
    proportion to what they have now."""
    host = desk.view.host
    samples = {one.uuid: host.vps[one.uuid].sample for one in guests}
    known = {uuid: one for uuid, one in samples.items() if one is not None}
    if not known:
        return None
    times = cpus / max(sum(one.cpu_cores for one in known.values()), 1.0)
    for node in sorted({node for uuid in known for node in host.memory_of(uuid)}):
        loads = (_load(desk, s) * host.memory_of(u).get(node, 0.0) for u, s in known.items())
        more = times * sum(loads)
        if more > 0.0 and _served(desk, node) + more > BUSY_RATIO * _limit(desk):
            return node
    return None


def _served(desk: Desk, node: int) -> float:
    host = desk.view.host
    return sum(
        _load(desk, vp.sample) * host.memory_of(uuid).get(node, 0.0)
        for uuid, vp in host.vps.items()
        if vp.sample is not None
    )


def _load(desk: Desk, sample: Sample) -> float:
    return sample.mpki if _measured_limit(desk) is None else sample.misses_per_s


def _limit(desk: Desk) -> float:
    measured = _measured_limit(desk)
    return desk.view.policy.hot_node_mpki if measured is None else measured


def _measured_limit(desk: Desk) -> float | None:
    policy = desk.view.policy
    return None if policy.hot_node_by_mpki else desk.view.picture.limits.node_misses_per_s
