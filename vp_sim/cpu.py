# SPDX-License-Identifier: Apache-2.0
"""Who gets how much CPU where: the host's scheduler, as far as the model needs one.

Guests spread over the CPUs they may use until these are evenly loaded, and share those that are
overloaded by their threads. CPUs that the same guests may use are one cell. Of siblings, which
share a core, the second is used once every core of the cell is busy, and both are slower then.
"""

from collections.abc import Iterable, Mapping, Sequence
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
    def __init__(
        self,
        topology: Topology,
        core_of: Mapping[int, int] | None = None,
        sibling_ratio: float = 1.0,
    ) -> None:
        """`core_of`: core by CPU, where CPUs are siblings; `sibling_ratio`: of what a core does for
        one thread alone, that each of two gets."""
        self._domain_of = {cpu: d.id for d in topology.domains for cpu in d.cpus}
        self._core_of = core_of or {}
        self._sibling_ratio = sibling_ratio
        self._has_siblings = len(set(self._core_of.values())) < len(self._core_of)

    def grant(self, wishes: Sequence[Wish]) -> tuple[tuple[tuple[int, float], ...], ...]:
        """Busy cores by LLC domain, in the order of the wishes."""
        sizes = {cell: len(cpus) for cell, cpus in self._cells(wishes).items()}
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

    def core_shares(self, wishes: Sequence[Wish]) -> tuple[float, ...]:
        """Of what a core does for one thread alone, that each guest's threads get, in the order of
        the wishes."""
        if not self._has_siblings:
            return (1.0,) * len(wishes)
        cells = self._cells(wishes)
        sizes = {cell: len(cpus) for cell, cpus in cells.items()}
        spread = _spread(wishes, sizes)
        busy: dict[int, dict[Cell, list[float]]] = {}
        for cell, cpus in cells.items():
            used = min(sum(spread[guest][cell] for guest in cell[1]), len(cpus))
            for core, ratios in _levels([self._core_of[cpu] for cpu in cpus], used).items():
                busy.setdefault(core, {})[cell] = ratios
        shares = self._shares_by_cell(busy)
        return tuple(
            _weighted([(cores, shares.get(cell, 1.0)) for cell, cores in cells_of.items()])
            for cells_of in spread
        )

    def _shares_by_cell(self, busy: Mapping[int, Mapping[Cell, list[float]]]) -> dict[Cell, float]:
        """From how busy the threads of each core are, by the cell that keeps them so."""
        found: dict[Cell, list[tuple[float, float]]] = {}
        for threads in busy.values():
            whole = sum(map(sum, threads.values()))
            for cell, ratios in threads.items():
                for ratio in ratios:
                    share = _beside(whole - ratio, self._sibling_ratio)
                    found.setdefault(cell, []).append((ratio, share))
        return {cell: _weighted(pairs) for cell, pairs in found.items()}

    def _cells(self, wishes: Sequence[Wish]) -> dict[Cell, list[int]]:
        users: dict[int, list[int]] = {}
        for index, wish in enumerate(wishes):
            for cpu in wish.cpus:
                users.setdefault(cpu, []).append(index)
        cells: dict[Cell, list[int]] = {}
        for cpu in sorted(users):
            cells.setdefault((self._domain_of[cpu], frozenset(users[cpu])), []).append(cpu)
        return cells


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


def alone_share(busy: float, cores: int, sibling_ratio: float) -> float:
    """Of what a core does for one thread, for so many busy threads on cores of two CPUs each."""
    levels = _levels([*range(cores)] * 2, min(busy, 2.0 * cores))[0]
    whole = sum(levels)
    return _weighted((one, _beside(whole - one, sibling_ratio)) for one in levels)


def _beside(sibling_busy: float, sibling_ratio: float) -> float:
    return 1 - (1 - sibling_ratio) * sibling_busy


def _levels(cores: Sequence[int], used: float) -> dict[int, list[float]]:
    """How busy each thread is, by core, if the first one of every core is filled first."""
    threads = {core: cores.count(core) for core in cores}
    first = min(1.0, used / len(threads))
    seconds = len(cores) - len(threads)
    second = (used - first * len(threads)) / seconds if seconds else 0.0
    return {core: [first, second][:number] for core, number in threads.items()}


def _weighted(pairs: Iterable[tuple[float, float]]) -> float:
    """Mean of the second by the first; 1 where nothing is busy."""
    listed = list(pairs)
    whole = sum(weight for weight, _ in listed)
    mean = sum(weight * value for weight, value in listed) / whole if whole else 1.0
    return round(mean, ROUNDED)


def _share_out(wanted: Mapping[int, float], size: float) -> dict[int, float]:
    """By how many CPUs' worth of threads each has there: all slow down alike."""
    crowd = sum(wanted.values())
    part = min(1.0, size / crowd) if crowd else 1.0
    return {guest: cores * part for guest, cores in wanted.items()}
