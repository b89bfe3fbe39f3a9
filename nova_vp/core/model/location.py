# SPDX-License-Identifier: Apache-2.0
"""Where a guest lives, or would: shares of its vCPUs by cache, of its memory by node.

What candidates are made of and the what-if model is asked about. What it costs is not known here.
"""

from collections.abc import Mapping
from typing import NamedTuple

from nova_vp.core.model.host import DomainSet, Host
from nova_vp.core.types.topology import LlcDomain


class Location(NamedTuple):
    """Where one guest lives."""

    domains: Mapping[int, float]
    """Share of its vCPUs by LLC domain."""
    memory: Mapping[int, float]
    """Share of its memory by node."""
    speed: float = 1.0
    """CPU that it gets there, over what it uses now: below 1 under a cap, above 1 with more CPU."""
    cpus: frozenset[int] = frozenset()
    """Those that it may use, where that decides with whom it shares a core; empty: all there."""

    def cpus_in(self, domain: LlcDomain) -> frozenset[int]:
        return self.cpus & domain.cpus or domain.cpus


GONE = Location(domains={}, memory={}, speed=0.0)
"""Of who is not there."""


def location_of(host: Host, uuid: str) -> Location:
    """Where it lives now."""
    domains = {d.id: host.share(uuid, d) for d in host.domains_of[uuid]}
    cpus = pinned_to(host.domains_of[uuid], host.guests[uuid].placement)
    return Location(domains=domains, memory=host.memory_due(uuid), speed=1.0, cpus=cpus)


def spread_over(domain_set: DomainSet) -> dict[int, float]:
    """A guest spread evenly over a domain set, CPU by CPU."""
    cpus = sum(len(d.cpus) for d in domain_set)
    return {d.id: len(d.cpus) / cpus for d in domain_set}


def pinned_to(domain_set: DomainSet, cpus: frozenset[int]) -> frozenset[int]:
    """These CPUs as `Location.cpus` has them."""
    if any(domain.shared_cores and not domain.cpus <= cpus for domain in domain_set):
        return cpus
    return frozenset()
