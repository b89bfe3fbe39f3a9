# SPDX-License-Identifier: Apache-2.0
"""Whether a host has a last-level cache in which enough of the pollution permits is not sold.

Servers on their way are counted first, each where most is left. A server that is wider than an LLC
domain books its share in each of those that it needs. Where guests float, nobody knows which cache
a server will pollute: all of the host's are one.
"""

import math
from collections.abc import Iterable

from vp_scheduler.placement.host_digest import HostDigest
from vp_scheduler.placement.waiting import Waiting


def has_room(
    digest: HostDigest, newcomer: Waiting, waiting: Iterable[Waiting], most_per_domain: float
) -> bool:
    booked = [float(one) for one in digest.permits]
    if not digest.is_homing:
        booked, most_per_domain = [sum(booked)], most_per_domain * len(booked)
    for other in waiting:
        _book(digest, booked, other)
    taken = _book(digest, booked, newcomer)
    return bool(taken) and max(taken) <= most_per_domain


def _book(digest: HostDigest, booked: list[float], one: Waiting) -> list[float]:
    """What is booked then in those where most was left."""
    count = min(math.ceil(one.vcpus / digest.largest_cpus), len(booked)) if booked else 0
    chosen = sorted(range(len(booked)), key=booked.__getitem__)[:count]
    for number in chosen:
        booked[number] += one.llc_permit / count
    return [booked[number] for number in chosen]
