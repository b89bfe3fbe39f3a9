# SPDX-License-Identifier: Apache-2.0
"""The heat map: hosts x NUMA nodes x LLC domains as rows for a page. Pure.

vp-api says of an LLC domain how many of its servers are degraded, not by how much. The colour
follows the share of its servers that are.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Told = Mapping[str, Any]

FEW_RATIO = 0.25
MANY_RATIO = 0.5
"""Of the servers of an LLC domain: from here on its colour is the next one."""


class Level(enum.Enum):
    """Each value is a class of the style sheet."""

    EMPTY = "empty"
    CALM = "calm"
    FEW = "few"
    SOME = "some"
    MANY = "many"


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
    servers, degraded = domain["servers_count"], domain["hurt_count"]
    if not servers:
        return Level.EMPTY
    if not degraded:
        return Level.CALM
    ratio = degraded / servers
    return Level.MANY if ratio >= MANY_RATIO else Level.SOME if ratio >= FEW_RATIO else Level.FEW


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
