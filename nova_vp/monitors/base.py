# SPDX-License-Identifier: Apache-2.0
"""What a monitor of an overlay decides: from what was seen to calls, and what the answers change.

Pure, as the core is: no I/O, clock or randomness, so that applications, hosts and the simulator run
the same decisions. Whoever runs one says what was seen and when, makes the calls, and tells it the
answers.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from nova_vp.core.types.overlay import CallResource, Direction, Nack, Verb


class Wanted(NamedTuple):
    """One call that a monitor wants made."""

    verb: Verb
    server: str
    direction: Direction = Direction.UP
    """Of TUNE."""
    cpus: int = 0
    """Of BORROW."""
    island: str = ""
    """From which BORROW takes; empty: any."""
    lease_s: float | None = None
    resource: CallResource = CallResource.CPU
    """Of TUNE."""


class Monitor(Protocol):
    """What it is told, `see`, differs from one to the other."""

    def wanted(self, now_s: float) -> Sequence[Wanted]:
        """Calls to make now, in this order."""

    def answered(self, call: Wanted, nack: Nack | None, now_s: float) -> None:
        """`nack`: None: it was granted."""


def make_in_order(
    monitor: Monitor,
    calls: Iterable[Wanted],
    make: Callable[[Wanted], Nack | None],
    clock: Callable[[], float],
) -> bool:
    """Each after the answer of the one before it; what was refused is not repeated now, such as the
    other steps of a `tune`. Returns whether one was granted."""
    refused: set[Wanted] = set()
    has_grants = False
    for wanted in calls:
        if wanted in refused:
            continue
        nack = make(wanted)
        monitor.answered(wanted, nack, clock())
        has_grants = has_grants or nack is None
        if nack is not None:
            refused.add(wanted)
    return has_grants
