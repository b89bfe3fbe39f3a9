# SPDX-License-Identifier: Apache-2.0
"""The heat map: hosts x NUMA nodes x LLC domains as rows for a page. Pure.

The colour of an LLC domain follows what the server loses that loses most there.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Told = Mapping[str, Any]


class Level(enum.Enum):
    """Each value is a class of the style sheet."""

    EMPTY = "empty"
    UNKNOWN = "unknown"
    CALM = "calm"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


LEAST_RATIOS = {0.25: Level.HIGH, 0.1: Level.MEDIUM, 0.02: Level.LOW}
"""Of the performance of a server."""


@dataclass(frozen=True, slots=True)
class Domain:
    told: Told
    level: Level


@dataclass(frozen=True, slots=True)
class Node:
    number: int
    is_hot: bool
    """Its memory controller serves more than it was calibrated for."""
    domains: tuple[Domain, ...]


@dataclass(frozen=True, slots=True)
class Row:
    host: Told
    nodes: tuple[Node, ...]
    missing: range
    """Nodes that other hosts of the page have."""


def level_of(domain: Told) -> Level:
    """An agent of the release before says that a server is degraded, and not how much."""
    worst = domain["worst_ratio"]
    if not domain["servers_count"]:
        return Level.EMPTY
    if worst is None:
        return Level.UNKNOWN
    reached = (level for least, level in LEAST_RATIOS.items() if worst >= least)
    return next(reached, Level.CALM)


def columns(hosts: Iterable[Told]) -> range:
    """Numbers of the NUMA nodes that a page has."""
    nodes = [domain["node"] for host in hosts for domain in host["domains"]]
    return range(max(nodes, default=-1) + 1)


def rows(hosts: Iterable[Told]) -> list[Row]:
    hosts = list(hosts)
    width = columns(hosts)
    return [_row(host, width) for host in hosts]


def _row(host: Told, width: range) -> Row:
    hot = {node["node"] for node in host["nodes"] if node["is_hot"]}
    by_node: dict[int, list[Domain]] = {}
    for one in host["domains"]:
        by_node.setdefault(one["node"], []).append(Domain(one, level_of(one)))
    if not by_node:
        return Row(host, (), width)
    nodes = tuple(Node(n, n in hot, tuple(by_node.get(n, ()))) for n in range(max(by_node) + 1))
    return Row(host, nodes, range(len(nodes), width.stop))
