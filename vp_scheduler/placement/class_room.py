# SPDX-License-Identifier: Apache-2.0
"""How well a host would serve a newcomer with `vp:class`; pure.

A best-effort server gets its share of what latency-critical ones leave to all of its kind. A
latency-critical one needs CPU that only best-effort servers use, and a host that protects it.
Servers on their way are counted as if each used all of its vCPUs, or shared with all of them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from nova_vp import wire
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.service_level import ServiceClass
from vp_scheduler.placement.waiting import Waiting

PROTECTED_SHARE = 0.5
"""Of the fit of a latency-critical server; the other half is the CPU that it finds."""
CLASS_SHARE = 0.5
"""Of its weight that a host loses at most."""


class HostRoom(NamedTuple):
    """As the digest tells it."""

    is_protecting: bool
    """Its controller may limit best-effort servers."""
    best_effort_cores: float
    best_effort_vcpus: int
    latency_critical_cores: float
    starved: bytes = b""
    """Marks of projects whose latency-critical servers are not protected."""


class Wish(NamedTuple):
    """What a newcomer with a class asks for."""

    service_class: ServiceClass
    vcpus: int
    project_mark: bytes


def read_room(message: Mapping[str, Any], free_cores: float) -> HostRoom | None:
    """From a decoded digest; None: its agent does not say. Raises wire.BadMessage."""
    told = message.get("service")
    if told is None:
        return None
    if not told:
        return HostRoom(False, free_cores, 0, free_cores)
    if len(told) < 3:
        raise wire.BadMessage("service: neither empty nor three numbers")
    best_effort, vcpus, latency_critical = told
    return HostRoom(
        message["mode"] == Mode.ENFORCE.value,
        best_effort / 1000,
        vcpus,
        latency_critical / 1000,
        wire.unpack_known(message["starved"]) if "starved" in message else b"",
    )


def fit_ratio(room: HostRoom, wish: Wish, waiting: Iterable[Waiting] = ()) -> float:
    sharing = room.best_effort_vcpus
    taken = 0
    for one in waiting:
        if one.service_class is ServiceClass.BEST_EFFORT:
            sharing += one.vcpus
        else:
            taken += one.vcpus
    if wish.service_class is ServiceClass.BEST_EFFORT:
        return _ratio(room.best_effort_cores - taken, sharing + wish.vcpus)
    found = _ratio(room.latency_critical_cores - taken, wish.vcpus)
    return PROTECTED_SHARE * is_protected(room, wish) + (1 - PROTECTED_SHARE) * found


def _ratio(cores: float, vcpus: int) -> float:
    return min(max(cores, 0.0) / vcpus, 1.0)


def is_protected(room: HostRoom, wish: Wish) -> bool:
    is_starved = bool(room.starved) and wish.project_mark in wire.split_marks(room.starved)
    return room.is_protecting and not is_starved


def reason_of(room: HostRoom, wish: Wish, ratio: float) -> str:
    """For people. `ratio`: `fit_ratio`."""
    if wish.service_class is ServiceClass.BEST_EFFORT:
        return f"{ratio:.2f} CPUs for each best-effort vCPU"
    protected = is_protected(room, wish)
    found = (ratio - PROTECTED_SHARE * protected) / (1 - PROTECTED_SHARE)
    if protected:
        return f"latency protected, {found:.0%} of its CPU is there"
    cause = "its project starved others" if room.is_protecting else "nothing does it there"
    return f"latency not protected ({cause}), {found:.0%} of its CPU is there"


def served(weight: float, ratio: float) -> float:
    """What is left of a host's weight."""
    return weight * (1 - CLASS_SHARE * (1 - ratio))
