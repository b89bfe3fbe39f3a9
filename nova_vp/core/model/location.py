# SPDX-License-Identifier: Apache-2.0
"""Where a guest lives, or would: shares of its vCPUs by cache, of its memory by node.

What candidates are made of and the what-if model is asked about. What it costs is not known here.
"""

from collections.abc import Mapping
from typing import NamedTuple

from nova_vp.core.model.host import DomainSet, Host


class Location(NamedTuple):
    """Where one guest lives."""

    domains: Mapping[int, float]
    """Share of its vCPUs by LLC domain."""
    memory: Mapping[int, float]
    """Share of its memory by node."""
    speed: float = 1.0
    """CPU that it gets there, over what it uses now: below 1 under a cap, above 1 with more CPU."""


GONE = Location(domains={}, memory={}, speed=0.0)
"""Of who is not there."""


def location_of(host: Host, uuid: str) -> Location:
    """Where it lives now."""
    domains = {d.id: host.share(uuid, d) for d in host.domains_of[uuid]}
    return Location(domains=domains, memory=host.memory_due(uuid), speed=1.0)


def spread_over(domain_set: DomainSet) -> dict[int, float]:
    """A guest spread evenly over a domain set, CPU by CPU."""
    cpus = sum(len(d.cpus) for d in domain_set)
    return {d.id: len(d.cpus) / cpus for d in domain_set}
