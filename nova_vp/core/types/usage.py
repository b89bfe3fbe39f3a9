# SPDX-License-Identifier: Apache-2.0
"""What a server used of what is sold, in one tick: amounts that are only ever added up."""

from typing import NamedTuple

UNMEASURED = "unmeasured"
"""Attribution of time in which the server did not run, or nobody could see what it did."""


class Usage(NamedTuple):
    attribution: str
    """How pollution was attributed to it, or `UNMEASURED`."""
    booked_s: float = 0.0
    """Seconds of wall time in which its permit was booked."""
    over_s: float = 0.0
    """Those of them in which it was over its permit."""
    permit_misses: float = 0.0
    """LLC misses that its permit allowed."""
    pollution_misses: float = 0.0
    """LLC misses that it was charged."""
    sure_misses: float = 0.0
    """Those of them that are no guess."""
    cpu_taken_core_s: float = 0.0
    """Core seconds that its cap for exceeding the permit denied it."""


AMOUNTS = Usage._fields[1:]


def total(one: Usage, other: Usage) -> Usage:
    """Both together; they were attributed alike."""
    return Usage(one.attribution, *map(sum, zip(one[1:], other[1:], strict=True)))
