# SPDX-License-Identifier: Apache-2.0
"""Whether Arm's LL_CACHE events count the system's last-level cache on this host.

CPUECTLR_EL1.EXTLLC, which firmware sets and nobody else can read, decides it. Where it is clear,
they duplicate the events of the last cache inside the cluster, the L2 on most servers, or stay at
zero. So our own thread reads more than any L2 holds, and then over and over what one holds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from vp_agent.drivers.hardware_events import CpuEvents, Event
from vp_agent.drivers.perf_event import ThreadGroup

_BEYOND_L2_BYTES = 16 << 20
_WITHIN_L2_BYTES = 256 << 10
_ROUNDS = 64
_DUPLICATE_RATIO = 0.5
"""What stays in the L2 asks the last level for next to nothing; a duplicate, as often as the L2."""


class Group(Protocol):
    def read(self) -> tuple[int, int]: ...
    @property
    def totals(self) -> Sequence[int]: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Trial:
    streamed_ll_reads: int
    """While more was read than any L2 holds."""
    resident_ll_reads: int
    """While what the L2 holds was read again and again."""
    resident_l2_reads: int


def why_not(
    events: CpuEvents, open_group: Callable[[int, Sequence[Event]], Group] = ThreadGroup
) -> str:
    """Empty where the events count what they are named for, or need no trial. Raises OSError."""
    if events.l2_reads is None:
        return ""
    return judge(_measure(open_group(0, (events.references, events.l2_reads))), events)


def judge(trial: Trial, events: CpuEvents) -> str:
    if not trial.streamed_ll_reads:
        fault = f"{events.references.name} counts nothing"
    elif trial.resident_ll_reads > _DUPLICATE_RATIO * trial.resident_l2_reads:
        fault = f"{events.references.name} duplicates the L2's events"
    else:
        return ""
    return (
        f"on this {events.name} {fault}: its firmware leaves CPUECTLR_EL1.EXTLLC clear, so nothing "
        "counts the last-level cache. Ask the vendor for firmware that sets it"
    )


def _measure(group: Group) -> Trial:
    try:
        streamed, _ = _counted(group, lambda: _read(_BEYOND_L2_BYTES, 1))
        resident = _counted(group, lambda: _read(_WITHIN_L2_BYTES, _ROUNDS))
    finally:
        group.close()
    return Trial(streamed, *resident)


def _counted(group: Group, work: Callable[[], None]) -> tuple[int, int]:
    group.read()
    ll_before, l2_before = group.totals
    work()
    group.read()
    ll_now, l2_now = group.totals
    return ll_now - ll_before, l2_now - l2_before


def _read(size_bytes: int, rounds: int) -> None:
    # Written first: pages that nobody wrote are all the same one. Nothing is found: all are read.
    pages = bytearray(b"\xff") * size_bytes
    for _ in range(rounds):
        pages.find(b"\x01")
