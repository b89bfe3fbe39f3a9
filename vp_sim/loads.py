# SPDX-License-Identifier: Apache-2.0
"""What the hardware has to carry, and which of it meets: guests' loads and memory on its way.

Loads that share no cache, controller or link are solved apart, and groups that differ only in
which of the equal nodes they are on have the same key: most groups were solved before.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from vp_sim.apps import App


class Load(NamedTuple):
    """One guest as the hardware sees it."""

    app: App
    traffic_factor: float
    cores: tuple[tuple[int, float], ...]
    """Busy cores by LLC domain."""
    memory: tuple[tuple[int, float], ...]
    """Share of its memory by node."""
    core_share: float = 1.0
    """Of what a core does for one thread alone, that its threads get beside busy siblings."""


class Copy(NamedTuple):
    """Memory on its way from one node to another."""

    source: int
    target: int
    gbps: float


class _Union:
    """Nodes that have something to do with one another."""

    def __init__(self) -> None:
        self._root: dict[int, int] = {}

    def find(self, node: int) -> int:
        while (above := self._root.get(node, node)) != node:
            node = above
        return node

    def join(self, nodes: Sequence[int]) -> None:
        first = self.find(nodes[0])
        for node in nodes[1:]:
            self._root[self.find(node)] = first


def groups(
    node_of: Mapping[int, int], loads: Sequence[Load], copies: Sequence[Copy]
) -> Iterator[tuple[list[int], tuple[Copy, ...]]]:
    """Loads that meet somewhere, by index; each group in an order that ignores ours."""
    nodes = _Union()
    for load in loads:
        if load.cores:
            nodes.join([node_of[d] for d, _ in load.cores] + [n for n, _ in load.memory])
    for copy in copies:
        nodes.join((copy.source, copy.target))
    found: dict[int, list[int]] = {}
    for index, load in enumerate(loads):
        if load.cores:
            found.setdefault(nodes.find(node_of[load.cores[0][0]]), []).append(index)
    for group, members in found.items():
        members.sort(key=lambda index: _order(loads[index]))
        yield members, tuple(c for c in copies if nodes.find(c.source) == group)


def _order(load: Load) -> tuple[float, ...]:
    """Neither by name nor by place: both may change without changing anything."""
    app = load.app
    busy = sum(cores for _, cores in load.cores)
    return (app.l2_mpki, app.base_cpi, load.traffic_factor, busy, load.core_share)


def alike(
    node_of: Mapping[int, int], loads: Sequence[Load], copies: Sequence[Copy]
) -> tuple[object, ...]:
    """The same for groups on other nodes and domains: they get names by first appearance."""
    nodes: dict[int, int] = {}
    domains: dict[int, int] = {}

    def node(number: int) -> int:
        return nodes.setdefault(number, len(nodes))

    def domain(number: int) -> tuple[int, int]:
        return node(node_of[number]), domains.setdefault(number, len(domains))

    return (
        tuple(
            (
                load.app,
                load.traffic_factor,
                tuple((domain(d), cores) for d, cores in load.cores),
                tuple((node(n), share) for n, share in load.memory),
                load.core_share,
            )
            for load in loads
        ),
        tuple((node(c.source), node(c.target), c.gbps) for c in copies),
    )
