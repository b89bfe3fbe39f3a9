# SPDX-License-Identifier: Apache-2.0
"""Several latency-critical servers: of the levels of those that do not rule.

The one that leaves least rules, so that nobody knows how the others would bear their own levels.
These do not go up meanwhile. When the one that ruled goes, the next begins with what best-effort
servers really had, and goes up from there.
"""

import math
from collections.abc import Iterable, Mapping

from nova_vp.core.controllers.latency.adaptive import STEP_RATIO
from nova_vp.core.controllers.latency.declaration import Loop, Watch
from nova_vp.core.controllers.latency.seen import OwnCores, Seen
from nova_vp.core.controllers.latency.source_loops import source_step_cores, whole

Left = Mapping[str, float]
"""By best-effort server: the CPU that a latency-critical one leaves it."""


def least_of(left: Iterable[Left]) -> Left:
    """What rules each best-effort server."""
    found: dict[str, float] = {}
    for shares in left:
        for other, share in shares.items():
            found[other] = min(share, found.get(other, math.inf))
    return found


def without_rise(watch: Watch, before: Watch) -> Watch:
    """Of a loop that just acted for a server that rules nobody."""
    return watch._replace(
        cores=min(watch.cores, before.cores),
        level=min(watch.level, before.level),
        is_unlimited=watch.is_unlimited and before.is_unlimited,
        left_over_more=min(watch.left_over_more, before.left_over_more),
    )


def within_a_step(watch: Watch, seen: Seen, shares: Left, given: Left, own: OwnCores) -> Watch:
    """Lowered, where those beside it would get more at once than one step of its loop."""
    each = STEP_RATIO * seen.most_cores
    if watch.loop is not Loop.ADAPTIVE:
        each = source_step_cores(watch.loop, seen)
    most_cores = watch.given_cores + each
    if total_of(shares, given, own) <= most_cores + 1e-9:
        return watch
    level = min(watch.level, whole(most_cores / each))
    return watch._replace(
        cores=min(watch.cores, most_cores),
        level=level,
        is_unlimited=watch.is_unlimited and level == watch.level,
    )


def with_given(watch: Watch, shares: Left, given: Left, own: OwnCores) -> Watch:
    """What the next tick goes by."""
    is_overruled = all(given[other] < share for other, share in shares.items())
    return watch._replace(
        given_cores=total_of(shares, given, own), is_overruled=is_overruled and bool(shares)
    )


def total_of(shares: Left, given: Left, own: OwnCores) -> float:
    """That those beside it can use of what they are given."""
    return sum(min(given[other], own[other]) for other in shares)
