# SPDX-License-Identifier: Apache-2.0
"""The mover `pages`: guests' RAM between NUMA nodes by move_pages(2), 1024 pages at a time.

Nothing of it stands in any XML, so nothing travels. One guest is moved at a time, by a thread that
lives for as long as there is something to move; between two chunks it waits as the pace says, and
it ends if its guest, or the room on the target node, is gone.
"""

import logging
import math
import threading
import time
from collections.abc import Mapping
from typing import cast

from nova_vp.core.types.guest import Guest, MemoryMove, Unmanaged
from nova_vp.core.types.knob import Held, Knob, Shares, Value
from vp_agent.drivers import guest_pages
from vp_agent.drivers.base import ApplyFailed, GuestGone, MemoryMover
from vp_agent.drivers.capabilities import CAP_SYS_PTRACE, has_capability
from vp_agent.drivers.domains import Domains
from vp_agent.drivers.guest_pages import CHUNK_PAGES, PAGE_KIB, Flow, Look, Moved
from vp_agent.drivers.numa_nodes import Nodes, is_kernel_balancing
from vp_agent.drivers.numa_residency import (
    FindRam,
    Ram,
    ResidencyReader,
    kib_by_node,
    obstacle_of,
    shares_of,
    translated,
)
from vp_agent.drivers.page_migration import Ended, Move, Pages, flows_between

LOG = logging.getLogger(__name__)
TELL_EVERY_S = 2.0
_CHUNK_KIB = CHUNK_PAGES * PAGE_KIB


def create(domains: Domains, reserve_ratio: float) -> MemoryMover:
    """The entry point `pages`. On a host with one node memory has nowhere to go."""
    nodes = Nodes(reserve_ratio=reserve_ratio)
    has_several = len(nodes.ids) > 1
    if has_several and is_kernel_balancing():
        LOG.warning(
            "the kernel's own NUMA balancing is on and undoes what is decided here: switch it off "
            "with `sysctl kernel.numa_balancing=0`"
        )
    return _create(domains, nodes, is_offered=has_several)


def create_undo_only(domains: Domains, reserve_ratio: float) -> MemoryMover:
    """The entry point `none`: nothing is looked at or moved, but for moving back what was."""
    return _create(domains, Nodes(reserve_ratio=reserve_ratio), is_offered=False)


def _create(domains: Domains, nodes: Nodes, *, is_offered: bool) -> MemoryMover:
    def find(uuid: str) -> Ram:
        domain = domains.find(uuid)
        about = domain.description
        return Ram(domain.process, about.memory_kib, about.memory_obstacle)

    pages: Pages = guest_pages if has_capability(CAP_SYS_PTRACE) else HelperPages()
    return Mover(find, nodes, pages, is_offered=is_offered)


class HelperPages:
    """`guest_pages` by the privileged helper. One that could not start is not tried again."""

    def __init__(self) -> None:
        self._refusal: PermissionError | None = None

    def look(self, pid: int, started: int, memory_kib: int) -> Look:
        # Imported late: most agents never need it, and it would double what they weigh.
        from vp_agent import privsep

        if self._refusal is not None:
            raise self._refusal
        try:
            return privsep.look(pid, started, memory_kib)
        except PermissionError as exc:
            self._refusal = exc
            raise

    def move_chunk(
        self, pid: int, started: int, address: int, count: int, flows: tuple[Flow, ...]
    ) -> Moved:
        from vp_agent import privsep

        return privsep.move_chunk(pid, started, address, count, flows)


class Mover:
    name = "pages"

    def __init__(
        self, find: FindRam, nodes: Nodes, pages: Pages, *, is_offered: bool = True
    ) -> None:
        self.knobs = frozenset({Knob.MEMORY}) if is_offered else frozenset()
        self._find = find
        self._nodes = nodes
        self._pages = pages
        self._looks = ResidencyReader(find, pages)
        # What follows belongs to whoever holds it; it is notified of every change.
        self._turn = threading.Condition()
        self._queue: list[Move] = []
        self._ended: list[Move] = []
        self._paces: dict[str, float] = {}
        self._thread: threading.Thread | None = None

    def survey(self, guests: tuple[Guest, ...], now_s: float) -> tuple[Guest, ...]:
        for guest in guests:
            if guest.unmanaged is Unmanaged.MIGRATING:
                self.abort(guest.uuid, "a migration or another libvirt job began")
        return self._looks.survey(guests, now_s) if self.knobs else guests

    def moves(self) -> Mapping[str, MemoryMove]:
        with self._turn:
            found = {move.guest_uuid: move.seen() for move in (*self._ended, *self._queue)}
            for move in self._ended:
                self._looks.forget(move.guest_uuid)
            self._ended.clear()
        return found

    def set_copy_rates(self, kib_per_s: Mapping[str, float]) -> None:
        with self._turn:
            self._paces = dict(kib_per_s)
            self._turn.notify_all()

    def abort(self, guest_uuid: str, why: str) -> None:
        with self._turn:
            for move in self._queue:
                if move.guest_uuid == guest_uuid:
                    move.stop = why
            self._turn.notify_all()

    def close(self) -> None:
        with self._turn:
            for move in self._queue:
                move.stop = "the agent stopped"
            self._turn.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def read(self, guest_uuid: str, knob: Knob) -> Value:
        return shares_of(self._looks.look(guest_uuid, self._find(guest_uuid)))

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        self._begin(guest_uuid, cast(Shares, value))

    def restore(self, guest_uuid: str, held: Held) -> None:
        """Moves back and waits, at full pace. No shares (of another host): it stays."""
        to = cast(Shares, held.original)
        if not to:
            return
        move = self._begin(guest_uuid, to)
        with self._turn:
            self._paces.pop(guest_uuid, None)
            self._turn.notify_all()
            while not self._turn.wait_for(lambda: move.is_over, TELL_EVERY_S):
                LOG.info("vp=%s its memory goes back: %s", guest_uuid, _told(move.seen()))
        if move.is_guest_gone:
            raise GuestGone(move.problem)
        if move.problem:
            raise ApplyFailed(f"the memory of server {guest_uuid} is not back: {move.problem}")

    def _begin(self, uuid: str, to: Shares) -> Move:
        """The move that is queued for this, or was already. Raises GuestGone, ApplyFailed."""
        with self._turn:
            last = next((move for move in reversed(self._queue) if move.guest_uuid == uuid), None)
        if last is not None and last.to == to and not last.stop:
            return last
        move = self._prepared(uuid, to)
        self.abort(uuid, "another move replaced it")
        with self._turn:
            self._queue.append(move)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="memory-moves", daemon=True)
                self._thread.start()
        return move

    def _prepared(self, uuid: str, to: Shares) -> Move:
        self._check_shares(uuid, to)
        ram = self._find(uuid)
        looked = self._looks.look(uuid, ram)
        obstacle = obstacle_of(ram, looked)
        if obstacle:
            raise ApplyFailed(f"the memory of server {uuid} cannot be moved: {obstacle}")
        by_node = dict(kib_by_node(looked))
        flows = flows_between(shares_of(looked), to, self._nodes.ids)
        whole_kib = 0.0
        for node in {flow.target for flow in flows}:
            arriving_kib = math.fsum(
                flow.ratio * by_node.get(flow.source, 0) for flow in flows if flow.target == node
            )
            self._check_room(node, arriving_kib)
            whole_kib += arriving_kib
        return Move(uuid, ram.process, to, looked.spans, flows, round(whole_kib))

    def _check_shares(self, uuid: str, to: Shares) -> None:
        total = math.fsum(share for _, share in to)
        is_known = all(node in self._nodes.ids and share > 0 for node, share in to)
        if not is_known or abs(total - 1) > 1e-6:
            raise ApplyFailed(
                f"{to} are not shares of the memory of server {uuid} over the nodes of this host "
                f"({', '.join(map(str, self._nodes.ids))}); nothing was moved"
            )

    def _check_room(self, node: int, kib: float) -> None:
        spare_kib = self._nodes.spare_kib(node)
        if kib > spare_kib:
            raise ApplyFailed(
                f"{kib / 1024:.0f} MiB do not fit onto node {node}: beside the reserve ([agent] "
                f"memory_reserve_ratio) {max(0, spare_kib) // 1024} MiB are free there"
            )

    def _work(self) -> None:
        while (move := self._next()) is not None:
            self._carry_out(move)
            with self._turn:
                move.is_over = True
                self._queue.remove(move)
                self._ended.append(move)
                self._turn.notify_all()
            LOG.info("vp=%s %s", move.guest_uuid, _told(move.seen()))

    def _next(self) -> Move | None:
        with self._turn:
            if self._queue:
                return self._queue[0]
            self._thread = None
            return None

    def _carry_out(self, move: Move) -> None:
        try:
            move.carry_out(self._pages, self)
        except Ended as exc:
            move.problem = str(exc)
        except OSError as exc:
            error = translated(move.guest_uuid, exc)
            move.is_guest_gone = isinstance(error, GuestGone)
            move.problem = str(error)
        except Exception as exc:  # Or whoever waits for its end would wait for ever.
            LOG.exception("vp=%s its memory stays as it is now", move.guest_uuid)
            move.problem = f"a fault of the agent: {exc!r}; see its log"

    def pass_chunk(self, move: Move) -> None:
        """On the thread, before each chunk: the stop, the pace, the room. Raises Ended."""
        with self._turn:
            while (wait_s := self._wait_s(move)) > 0:
                self._turn.wait(None if wait_s == math.inf else wait_s)
        for node in move.targets:
            if self._nodes.spare_kib(node) < _CHUNK_KIB:
                raise Ended(f"node {node} runs short of memory; the rest stays where it is")

    def rest(self, move: Move, span_s: float) -> None:
        """On the thread. Raises Ended."""
        with self._turn:
            if self._turn.wait_for(lambda: bool(move.stop), span_s):
                raise Ended(move.stop)

    def _wait_s(self, move: Move) -> float:
        if move.stop:
            raise Ended(move.stop)
        pace = self._paces.get(move.guest_uuid, math.inf)
        if pace <= 0:
            return math.inf
        return move.last_at_s + move.last_kib / pace - time.monotonic()


def _told(move: MemoryMove) -> str:
    told = f"{move.moved_kib} KiB moved to {_shares_told(move.to)}"
    if not move.is_over:
        return f"{told}, {move.left_kib} KiB are left"
    return f"{told}, then it ended: {move.problem}" if move.problem else told


def _shares_told(shares: Shares) -> str:
    return " and ".join(f"node {node} ({share:.0%})" for node, share in shares)
