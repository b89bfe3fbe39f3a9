# SPDX-License-Identifier: Apache-2.0
"""Equation 1 (thesis 3.2): how unequal the weighted degradations of a set of VPs are.

For each VP what it receives of what it needs, of CPU, memory and memory bandwidth, weighed by its
sensitivity to each. Nothing here chooses.
"""

from collections.abc import Mapping, Sequence

from nova_vp.core.controllers.merlin.rungs import DecisionContext
from nova_vp.core.controllers.merlin.shortage import cpu_sensitivity
from nova_vp.core.model.candidate import needs_local_memory
from nova_vp.core.model.host import Host, allotted_cores
from nova_vp.core.model.location import Location
from nova_vp.core.types.guest import Guest


def memory_sensitivity(host: Host, guest: Guest) -> float:
    """Thesis 3.2.1: pages in use over pages allocated, of who minds where they lie."""
    resident_kib = sum(kib for _, kib in guest.memory_by_node)
    if not guest.memory_kib or not needs_local_memory(host, (guest,)):
        return 0.0
    return min(1.0, resident_kib / guest.memory_kib)


def local_share(host: Host, location: Location) -> float:
    """Share of its memory accesses that stay on the node of its vCPUs."""
    nodes = {d.id: d.node for d in host.topology.domains}
    return sum(
        part * location.memory.get(nodes[domain], 0.0) for domain, part in location.domains.items()
    )


def unfairness(
    context: DecisionContext,
    members: Sequence[Guest],
    asker: Guest,
    locations: Mapping[str, Location],
    losses: Mapping[str, float],
    granted_cpus: float,
) -> float:
    """Equation 1: the largest difference of weighted degradations `w (1 - u)` over all pairs.

    u = sum of beta * s over sum of beta, s = received / needed (in [0, 1]) of CPU, memory and
    memory bandwidth, beta = the sensitivity to each.
    """
    weighted = []
    for guest in members:
        vp = context.host.vps[guest.uuid]
        allotted = allotted_cores(guest)
        needs = allotted
        if guest.uuid == asker.uuid:
            needs = min(guest.vcpus, allotted + 1)
            allotted = min(needs, allotted + granted_cpus)
        profile = context.host.undisturbed.get(guest.uuid)
        is_sensitive = profile is not None and (
            profile.sensitivity.memory or profile.sensitivity.cache
        )
        location = locations.get(guest.uuid, context.what_if.locations[guest.uuid])
        loss = max(0.0, losses.get(guest.uuid, context.what_if.loss(guest.uuid)))
        shares = (
            (cpu_sensitivity(vp, guest, context.policy), allotted / needs),
            (memory_sensitivity(context.host, guest), local_share(context.host, location)),
            (1.0 if is_sensitive else 0.2, 1.0 - loss),
        )
        total = sum(beta for beta, _ in shares)
        utility = sum(beta * share for beta, share in shares) / total
        weighted.append(guest.priority * (1 - utility))
    return max(weighted) - min(weighted) if len(weighted) > 1 else max(weighted)
