# SPDX-License-Identifier: Apache-2.0
"""Who gets how much CPU where: the host's scheduler, as far as the model needs one.

Guests spread over the CPUs they may use until these are evenly loaded, and share those that are
overloaded by their threads. CPUs that the same guests may use are one cell.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nova_vp.core.types.topology import Topology

SPREAD_ROUNDS = 40
LEAST_CORES = 1e-3
ROUNDED = 3
"""Digits of a core kept: finer differences are none, and equal loads are solved once."""


class Wish(NamedTuple):
    cpus: frozenset[int]
    cores: float


Cell = tuple[int, frozenset[int]]
"""LLC domain, and the guests (by index) that may use these CPUs of it."""


class Scheduler:
    def __init__(self, topology: Topology) -> None:
        self._domain_of = {cpu: d.id for d in topology.domains for cpu in d.cpus}

    def grant(self, wishes: Sequence[Wish]) -> tuple[tuple[tuple[int, float], ...], ...]:
        """Busy cores by LLC domain, in the order of the wishes."""
        sizes = self._cells(wishes)
        spread = _spread(wishes, sizes)
        granted: list[dict[int, float]] = [{} for _ in wishes]
        for cell, size in sizes.items():
            for guest, cores in _share_out({g: spread[g][cell] for g in cell[1]}, size).items():
                by_domain = granted[guest]
                by_domain[cell[0]] = by_domain.get(cell[0], 0.0) + cores
        return tuple(
            tuple(
                (domain, round(cores, ROUNDED))
                for domain, cores in sorted(by_domain.items())
                if cores > LEAST_CORES
            )
            for by_domain in granted
        )

    def _cells(self, wishes: Sequence[Wish]) -> dict[Cell, int]:
        users: dict[int, list[int]] = {}
        for index, wish in enumerate(wishes):
            for cpu in wish.cpus:
                users.setdefault(cpu, []).append(index)
        sizes: dict[Cell, int] = {}
        for cpu in sorted(users):
            cell = (self._domain_of[cpu], frozenset(users[cpu]))
            sizes[cell] = sizes.get(cell, 0) + 1
        return sizes


def _spread(wishes: Sequence[Wish], sizes: Mapping[Cell, int]) -> list[dict[Cell, float]]:
    """Each wish over the cells open to it, away from the crowded ones."""
    open_to = [[cell for cell in sizes if guest in cell[1]] for guest in range(len(wishes))]
    spread = []
    for wish, cells in zip(wishes, open_to, strict=True):
        room = sum(sizes[cell] for cell in cells)
        spread.append({cell: wish.cores * sizes[cell] / room for cell in cells})
    if all(len(cells) == 1 for cells in open_to):
        return spread
    for _ in range(SPREAD_ROUNDS):
        crowds = {
            cell: max(sum(spread[g][cell] for g in cell[1]) / size, LEAST_CORES)
            for cell, size in sizes.items()
        }
        for guest, wish in enumerate(wishes):
            pulls = {c: spread[guest][c] / crowds[c] ** 0.5 for c in open_to[guest]}
            whole = sum(pulls.values())
            if whole:
                spread[guest] = {
                    c: min(wish.cores * pull / whole, sizes[c]) for c, pull in pulls.items()
                }
    return spread


def _share_out(wanted: Mapping[int, float], size: float) -> dict[int, float]:
    """By how many CPUs' worth of threads each has there: all slow down alike."""
    crowd = sum(wanted.values())
    part = min(1.0, size / crowd) if crowd else 1.0
    return {guest: cores * part for guest, cores in wanted.items()}
