# SPDX-License-Identifier: Apache-2.0
"""How far a CPU weight may be raised: the others on its CPUs keep their floors, and a
latency-critical server still comes first.

Weights are told as multiples of what Nova gave.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from nova_vp.core.controllers.overlays.declaration import NAME, TUNE
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.controllers.overlays.grant import Refused
from nova_vp.core.model.cpu_weight import times_given
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import NO_CPU_WEIGHT, CpuWeight, Knob
from nova_vp.core.types.overlay import Nack, Overlay

UNSET_FLOOR = 0.1
"""Of each vCPU: what a server without a floor keeps beside one whose weight is raised."""
LEAST_FLOOR = 0.01


def check_weight(desk: Desk, guest: Guest) -> None:
    """Raises Refused."""
    if Knob.CPU_WEIGHT not in desk.view.host.knobs or guest.cpu_weight == NO_CPU_WEIGHT:
        raise Refused(Nack.NO_ROOM, "this host cannot set its CPU weight")
    if not desk.view.may_claim(guest.uuid, Knob.CPU_WEIGHT, NAME, TUNE.rank):
        raise Refused(Nack.OUTRANKED, "another controller sets its CPU weight")


def raised(desk: Desk, guest: Guest, now: float, wanted: float, overlay: Overlay) -> float:
    """As far as others allow it. Raises Refused where that is no more than now."""
    check_weight(desk, guest)
    most = most_times(desk, (guest,), overlay)
    times = min(wanted, most)
    if weight_of(desk, guest, times).number <= weight_of(desk, guest, now).number:
        raise no_more_weight(guest if most < wanted else None)
    return times


def no_more_weight(lacking: Guest | None) -> Refused:
    detail = "more weight would take too much from others: borrow a CPU"
    return Refused(Nack.NO_ROOM, detail, lacking)


def weight_of(desk: Desk, guest: Guest, times: float) -> CpuWeight:
    return times_given(guest, desk.view.picture.applied.get(guest.uuid), times)


def times_of(desk: Desk, uuid: str) -> float:
    """All that its overlay was granted: who is tuned while it runs first gains nothing by it."""
    tuned, boost = desk.tuned.get(uuid), desk.boosts.get(uuid)
    times = tuned.weight_times if tuned else 1.0
    return max(times, boost.times) if boost else times


def most_times(desk: Desk, guests: Sequence[Guest], overlay: Overlay) -> float:
    """That all of these may have together, so that servers that are not of their overlay keep what
    they must, should all of them want all they can get."""
    most = math.inf
    for guest in guests:
        crowd = _crowd_on(desk, guest.placement)
        if guest.uuid not in crowd.numbers:
            continue  # It does not run: nobody has less by its weight.
        together = [one for one in guests if one.uuid in crowd.numbers]
        given = sum(weight_of(desk, one, 1.0).number for one in together)
        others = crowd.total - sum(crowd.numbers[one.uuid] for one in together)
        least = _first_but(crowd.by_floor, overlay.members)
        if least is not None:
            most = min(most, (len(guest.placement) * least - others) / given)
        first = _first_but(crowd.critical, {one.uuid for one in guests})
        if first is not None:
            most = min(most, first / weight_of(desk, guest, 1.0).number)
    return most


def _first_but(ranked: Sequence[tuple[float, str]], without: Collection[str]) -> float | None:
    return next((number for number, uuid in ranked if uuid not in without), None)


class Crowd(NamedTuple):
    """Those that may run on some CPUs, by their weights of now."""

    numbers: Mapping[str, int]
    total: int
    by_floor: tuple[tuple[float, str], ...]
    """Weight for each core of its floor, the least first."""
    critical: tuple[tuple[float, str], ...]
    """Weights of latency-critical servers, the least first."""


def _crowd_on(desk: Desk, cpus: frozenset[int]) -> Crowd:
    """Made once until a grant changes a weight: most servers are placed like others."""
    crowd: Crowd | None = desk.crowds.get(cpus)
    if crowd is None:
        on = [one for one in desk.on(cpus) if one.cpu_weight != NO_CPU_WEIGHT]
        numbers = {one.uuid: _number(desk, one) for one in on}
        crowd = desk.crowds[cpus] = Crowd(
            numbers,
            sum(numbers.values()),
            tuple(sorted((numbers[one.uuid] / _floor_cores(one), one.uuid) for one in on)),
            tuple(sorted((numbers[o.uuid], o.uuid) for o in on if o.is_latency_critical)),
        )
    return crowd


def _number(desk: Desk, guest: Guest) -> int:
    """The weight that it has, or will once this run is over."""
    if (guest.uuid, Knob.CPU_WEIGHT) in desk.standing or times_of(desk, guest.uuid) != 1.0:
        return weight_of(desk, guest, times_of(desk, guest.uuid)).number
    return guest.cpu_weight.number


def _floor_cores(guest: Guest) -> float:
    floor = UNSET_FLOOR if guest.cap_floor_ratio is None else guest.cap_floor_ratio
    return max(floor, LEAST_FLOOR) * guest.vcpus
