# SPDX-License-Identifier: Apache-2.0
"""One guest's memory on its way between nodes: what goes where, chunk by chunk, and how far it is.

Runs on the mover's thread; it decides neither whether to move nor how fast: `Gate` is asked before
each chunk, and ends or holds up the move there.
"""

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from nova_vp.core.types.guest import MemoryMove
from nova_vp.core.types.knob import Shares
from vp_agent.drivers.guest_pages import CHUNK_PAGES, PAGE_BYTES, PAGE_KIB, Flow, Look, Moved
from vp_agent.drivers.vcpu_threads import Process

TOLERANCE = 0.02
"""Shares this near are alike: a look is a sample."""
PASSES = 4
"""Over the chunks in which pages were busy; what then still is stays where it is."""
_REST_S = 0.05
_CHUNK_BYTES = CHUNK_PAGES * PAGE_BYTES


class Ended(Exception):
    """The move ends before its time; the message says why."""


class Pages(Protocol):
    """`guest_pages`, in this process or in the privileged helper. All raise OSError."""

    def look(self, pid: int, started: int, memory_kib: int) -> Look: ...

    def move_chunk(
        self, pid: int, started: int, address: int, count: int, flows: tuple[Flow, ...]
    ) -> Moved: ...


class Gate(Protocol):
    def pass_chunk(self, move: "Move") -> None:
        """Waits until the next chunk may be moved. Raises Ended."""

    def rest(self, move: "Move", span_s: float) -> None:
        """Raises Ended."""


@dataclass(slots=True)
class Move:
    guest_uuid: str
    process: Process
    to: Shares
    spans: tuple[tuple[int, int], ...]
    flows: tuple[Flow, ...]
    whole_kib: int
    """What has to move, as far as the sample tells."""
    moved_kib: int = 0
    copying_s: float = 0.0
    last_kib: int = 0
    """Of the last chunk, which began at `last_at_s`: what the pace is kept by."""
    last_at_s: float = -math.inf
    stop: str = ""
    """Why it must end; set by whoever wants that."""
    is_over: bool = False
    is_guest_gone: bool = False
    problem: str = ""
    _owed: dict[tuple[int, int], float] = field(default_factory=dict)
    _busy: int = 0
    _shared: int = 0

    @property
    def targets(self) -> tuple[int, ...]:
        return tuple(sorted({flow.target for flow in self.flows}))

    def seen(self) -> MemoryMove:
        left_kib = max(0, self.whole_kib - self.moved_kib)
        if self.is_over and not self.problem:
            left_kib = self.left_behind_kib
        return MemoryMove(
            guest_uuid=self.guest_uuid,
            to=self.to,
            moved_kib=self.moved_kib,
            left_kib=left_kib,
            is_over=self.is_over,
            problem=self.problem,
            kib_per_s=self.moved_kib / self.copying_s if self.copying_s else 0.0,
        )

    @property
    def left_behind_kib(self) -> int:
        return (self._busy + self._shared) * PAGE_KIB

    def carry_out(self, pages: Pages, gate: Gate) -> None:
        """Raises Ended, OSError."""
        todo = list(chunks(self.spans))
        for number in range(PASSES):
            self._busy = 0
            todo = [chunk for chunk in todo if self._move_chunk(pages, gate, chunk, number > 0)]
            if not todo:
                break
            gate.rest(self, _REST_S * 2**number)
        if self.left_behind_kib > TOLERANCE * max(self.whole_kib, self.moved_kib):
            raise Ended(
                f"{self._busy * PAGE_KIB} KiB were in use by the kernel at every try and "
                f"{self._shared * PAGE_KIB} KiB are mapped by another process too; they stayed"
            )

    def _move_chunk(self, pages: Pages, gate: Gate, chunk: tuple[int, int], is_again: bool) -> bool:
        """Whether it holds pages that are worth another try."""
        gate.pass_chunk(self)
        self.last_at_s = time.monotonic()
        done = pages.move_chunk(
            self.process.pid, self.process.started, *chunk, self._flows_of_chunk(is_again)
        )
        self._note(done, time.monotonic() - self.last_at_s, is_again)
        if done.no_room:
            raise Ended(_no_room(self.targets))
        return done.busy > 0

    def _flows_of_chunk(self, is_again: bool) -> tuple[Flow, ...]:
        """A chunk has given its share the first time; later it makes up for what is owed."""
        return tuple(
            flow._replace(
                ratio=0.0 if is_again and not self._empties(flow.source) else flow.ratio,
                owed=self._owed.get((flow.source, flow.target), 0.0),
            )
            for flow in self.flows
        )

    def _empties(self, source: int) -> bool:
        return source not in dict(self.to)

    def _note(self, done: Moved, span_s: float, is_again: bool) -> None:
        was = dict(done.was)
        moved = {(source, target): pages for source, target, pages in done.moved}
        for flow in self.flows if not is_again else ():
            pair = flow.source, flow.target
            wanted = flow.ratio * was.get(flow.source, 0)
            self._owed[pair] = self._owed.get(pair, 0.0) + wanted - moved.get(pair, 0)
        self.last_kib = sum(moved.values()) * PAGE_KIB
        self.moved_kib += self.last_kib
        self._busy += done.busy
        if not is_again:
            self._shared += done.shared
        if self.last_kib:
            self.copying_s += span_s


def chunks(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """(address, pages), on borders that transparent huge pages keep too."""
    for start, size in spans:
        at, end = start, start + size
        while at < end:
            border = min(end, (at // _CHUNK_BYTES + 1) * _CHUNK_BYTES)
            yield at, (border - at) // PAGE_BYTES
            at = border


def flows_between(now: Shares, to: Shares, nodes: Iterable[int]) -> tuple[Flow, ...]:
    """The fewest pages that make `now` into `to`. A node that shall have none is emptied, whether
    or not the sample met a page there."""
    has, wanted = dict(now), dict(to)
    lacking = {n: s - has.get(n, 0.0) for n, s in to if s - has.get(n, 0.0) > TOLERANCE} or wanted
    whole = sum(lacking.values())
    found = []
    for source in nodes:
        leaving = _leaving(has.get(source, 0.0), wanted.get(source, 0.0))
        found += [
            Flow(source, target, leaving * share / whole)
            for target, share in lacking.items()
            if leaving and target != source
        ]
    return tuple(found)


def _leaving(has: float, wanted: float) -> float:
    if not wanted:
        return 1.0
    return (has - wanted) / has if has - wanted > TOLERANCE else 0.0


def _no_room(targets: Iterable[int]) -> str:
    nodes = " or ".join(map(str, targets))
    return f"node {nodes} had no free page left: the rest of the memory stays where it is"
