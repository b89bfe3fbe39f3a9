# SPDX-License-Identifier: Apache-2.0
"""What a server of either class would find on this host: what schedulers place by.

A latency-critical server may have all CPU that only best-effort servers use. Those may have as much
together, or what latency-critical servers leave to them, if they use that up.
"""

import math
from collections.abc import Iterable, Mapping

from nova_vp.core.controllers.base import View
from nova_vp.core.controllers.latency.seen import OwnCores, used_cores
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.service_level import ClassRoom, ServiceClass

USED_UP_RATIO = 0.8
"""Of what is left to them: whoever uses less is not held back by it."""


def room_of(
    view: View,
    own: OwnCores,
    left: Mapping[str, Mapping[str, float]],
    starving: frozenset[str],
) -> ClassRoom:
    """`left`: by latency-critical and best-effort server, the CPU that the one leaves the other."""
    running = [guest for guest in view.host.guests.values() if guest.is_running]
    best_effort = [one for one in running if one.service_class is ServiceClass.BEST_EFFORT]
    others = [one for one in running if one.service_class is not ServiceClass.BEST_EFFORT]
    used = sum(_wanted_cores(view, one) for one in others)
    open_cores = max(len(view.host.topology.cpus) - used, 0.0)
    return ClassRoom(
        best_effort_cores=min(open_cores, _left_cores(view, own, best_effort, left)),
        best_effort_vcpus=sum(one.vcpus for one in best_effort),
        latency_critical_cores=open_cores,
        starved=starving,
    )


def _wanted_cores(view: View, guest: Guest) -> float:
    """The most that it used lately: a quiet minute says nothing of the next."""
    return max(view.host.demanded_cores(guest.uuid), view.host.vps[guest.uuid].peak_cores)


def _left_cores(
    view: View,
    own: OwnCores,
    best_effort: Iterable[Guest],
    left: Mapping[str, Mapping[str, float]],
) -> float:
    """To all of them; infinite where they are not held back, as in a mode that limits nobody."""
    if view.picture.mode is not Mode.ENFORCE:
        return math.inf
    limited: list[Guest] = []
    left_cores = free_cores = 0.0
    for one in best_effort:
        most = own[one.uuid]
        share = min((by[one.uuid] for by in left.values() if one.uuid in by), default=math.inf)
        if share < most:
            limited.append(one)
            left_cores += share
        else:
            free_cores += most
    used = used_cores(view, limited)
    is_used_up = used is None or used >= USED_UP_RATIO * left_cores
    return left_cores + free_cores if limited and is_used_up else math.inf
